package main

import (
	"archive/tar"
	"encoding/json"
	"io"
	"strings"
)

// Media types of the specification.
const (
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeIndex    = "application/vnd.oci.image.index.v1+json"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type configuration struct {
	platform
	Config *settings `json:"config"`
	RootFS rootFS    `json:"rootfs"`
	// Where each layer lies. There is neither time nor the file's name here: the same files are to give the same bytes.
	History []history `json:"history"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	CreatedBy string `json:"created_by"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// An image is what write puts into a tar file.
type image struct {
	configuration configuration
	layers        []layer
}

func newImage(arch string, s *settings) *image {
	return &image{configuration: configuration{platform: platform{arch, "linux"}, Config: s, RootFS: rootFS{Type: "layers"}}}
}

func (i *image) add(l layer, to string) {
	i.layers = append(i.layers, l)
	i.configuration.RootFS.DiffIDs = append(i.configuration.RootFS.DiffIDs, l.diffID)
	i.configuration.History = append(i.configuration.History, history{to})
}

// write writes the layout. For versions of Docker that do not know it, manifest.json tells the same in their own way.
func (i *image) write(out io.Writer, name string) error {
	config, err := jsonBlob(&i.configuration)
	if err != nil {
		return err
	}
	content := manifest{SchemaVersion: 2, MediaType: typeManifest, Config: describe(typeConfig, config)}
	blobs, layerPaths := []blob{config}, []string{}
	for _, l := range i.layers {
		content.Layers = append(content.Layers, describe(typeLayer, l.blob))
		blobs, layerPaths = append(blobs, l.blob), append(layerPaths, blobPath(l.blob))
	}
	top, err := jsonBlob(&content)
	if err != nil {
		return err
	}
	reference := describe(typeManifest, top)
	reference.Platform = &i.configuration.platform
	_, tag, _ := strings.Cut(name, ":")
	reference.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag}
	files := map[string]any{
		"oci-layout":    map[string]string{"imageLayoutVersion": "1.0.0"},
		"index.json":    index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{reference}},
		"manifest.json": []any{map[string]any{"Config": blobPath(config), "RepoTags": []string{name}, "Layers": layerPaths}},
	}
	return writeTar(out, files, append(blobs, top))
}

func jsonBlob(value any) (blob, error) {
	text, err := json.Marshal(value)
	return newBlob(text), err
}

func describe(mediaType string, b blob) descriptor {
	return descriptor{MediaType: mediaType, Digest: b.digest, Size: len(b.data)}
}

func blobPath(b blob) string { return "blobs/" + strings.Replace(b.digest, ":", "/", 1) }

func writeTar(out io.Writer, files map[string]any, blobs []blob) error {
	archive := tar.NewWriter(out)
	for _, name := range []string{"blobs", "blobs/sha256"} {
		if err := archive.WriteHeader(folder(name)); err != nil {
			return err
		}
	}
	add := func(name string, data []byte) error {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(data)
		return err
	}
	for _, b := range blobs {
		if err := add(blobPath(b), b.data); err != nil {
			return err
		}
	}
	for _, name := range []string{"oci-layout", "index.json", "manifest.json"} {
		text, err := json.Marshal(files[name])
		if err != nil {
			return err
		}
		if err := add(name, text); err != nil {
			return err
		}
	}
	return archive.Close()
}
