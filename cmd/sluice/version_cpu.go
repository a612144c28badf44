package main

import (
	"golang.org/x/sys/cpu"
)

// cpuFeatures names the instructions that the processor has, of those that the kernels can use.
func cpuFeatures() []string {
	known := []struct {
		name string
		has  bool
	}{
		{"avx2", cpu.X86.HasAVX2},
		{"fma", cpu.X86.HasFMA},
		{"avx512f", cpu.X86.HasAVX512F},
		{"avx512bw", cpu.X86.HasAVX512BW},
		{"avx512dq", cpu.X86.HasAVX512DQ},
		{"avx512vl", cpu.X86.HasAVX512VL},
		{"avx512vnni", cpu.X86.HasAVX512VNNI},
		{"avx512bf16", cpu.X86.HasAVX512BF16},
		{"avxvnni", cpu.X86.HasAVXVNNI},
		{"asimd", cpu.ARM64.HasASIMD},
		{"asimddp", cpu.ARM64.HasASIMDDP},
		{"i8mm", cpu.ARM64.HasI8MM},
	}
	features := []string{} // an empty list in JSON, not null
	for _, k := range known {
		if k.has {
			features = append(features, k.name)
		}
	}
	return features
}
