package validate

import (
	_ "github.com/hashicorp/hcl/v2/hclparse"
	_ "github.com/moby/buildkit/frontend/dockerfile/parser"
)
