// Image makes a container image without a builder, a daemon or a base image: a tar file in the layout of the Open
// Container Initiative, which "docker load", "podman load", skopeo and buildah take. The same files give the same bytes.
//
//	image -o sluice.tar -name sluice:1.0 -arch amd64 bin/sluice=/usr/bin/sluice models/ende-tiny=/model
//
// How the image is run (user, environment, entry point, health check) is read from the Dockerfile, stage "base", so that
// both ways give the same image. Each FILE=PATH is a layer of its own: what changes less comes first.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
)

func main() {
	output := flag.String("o", "image.tar", "`file` to write")
	name := flag.String("name", "sluice:latest", "`name` and tag")
	arch := flag.String("arch", runtime.GOARCH, "`architecture` that the program is for")
	dockerfile := flag.String("dockerfile", "Dockerfile", "`file` that says how the image is run")
	flag.Parse()
	if err := makeImage(*output, *name, *arch, *dockerfile, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// makeImage makes one image.
func makeImage(output, name, arch, dockerfile string, pairs []string) error {
	text, err := os.ReadFile(dockerfile)
	if err != nil {
		return err
	}
	settings, err := parseStage(string(text), "base")
	if err != nil {
		return fmt.Errorf("%s: %w", dockerfile, err)
	}
	image := newImage(arch, settings)
	for _, pair := range pairs {
		from, to, ok := strings.Cut(pair, "=")
		if !ok || !strings.HasPrefix(to, "/") {
			return fmt.Errorf("%q is not of the form FILE=/PATH", pair)
		}
		layer, err := makeLayer(from, to)
		if err != nil {
			return err
		}
		image.add(layer, to)
	}
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	if err := image.write(file, name); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
