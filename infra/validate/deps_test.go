package validate

import (
	_ "github.com/hashicorp/hcl/v2/hclparse"
	_ "github.com/moby/buildkit/frontend/dockerfile/parser"
	_ "sigs.k8s.io/kustomize/api/krusty"
	_ "sigs.k8s.io/kustomize/kyaml/filesys"
)
