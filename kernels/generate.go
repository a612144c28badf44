package kernels

//go:generate go run -C _asm ./int8 -pkg kernels -out ../int8_amd64.s -stubs ../int8_asm_amd64.go
//go:generate go run -C _asm ./int8tiers -pkg kernels -out ../int8tiers_amd64.s -stubs ../int8tiers_asm_amd64.go
//go:generate go run -C _asm ./int8chains -pkg kernels -out ../int8chains_amd64.s -stubs ../int8chains_asm_amd64.go
//go:generate go run -C _asm ./int8sparse -pkg kernels -out ../int8sparse_amd64.s -stubs ../int8sparse_asm_amd64.go
//go:generate go run -C _asm ./int16 -pkg kernels -out ../int16_amd64.s -stubs ../int16_asm_amd64.go
//go:generate go run -C _asm ./rows -pkg kernels -out ../rows_amd64.s -stubs ../rows_asm_amd64.go
//go:generate go run -C _asm ./dots -pkg kernels -out ../dots_amd64.s -stubs ../dots_asm_amd64.go
//go:generate go run -C _asm ./peak -pkg kernels -out ../peak_amd64.s -stubs ../peak_asm_amd64.go
//go:generate go run -C _asm ./float32 -pkg kernels -out ../float32_amd64.s -stubs ../float32_asm_amd64.go
//go:generate go run -C _asm ./accumulate -pkg kernels -out ../accumulate_amd64.s -stubs ../accumulate_asm_amd64.go
//go:generate go run -C _asm ./int8neon -pkg kernels -out ../int8neon_arm64.s -stubs ../int8neon_asm_arm64.go
//go:generate go run -C _asm ./rowsneon -pkg kernels -out ../rowsneon_arm64.s -stubs ../rowsneon_asm_arm64.go
//go:generate go run -C _asm ./float32neon -pkg kernels -out ../float32neon_arm64.s -stubs ../float32neon_asm_arm64.go
//go:generate go run -C _asm ./bfloat16neon -pkg kernels -out ../bfloat16neon_arm64.s -stubs ../bfloat16neon_asm_arm64.go
//go:generate go run -C _asm ./recurrent -pkg kernels -out ../recurrent_amd64.s -stubs ../recurrent_asm_amd64.go
//go:generate go run -C _asm ./recurrentneon -pkg kernels -out ../recurrentneon_arm64.s -stubs ../recurrentneon_asm_arm64.go
