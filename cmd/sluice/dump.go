package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// undumped are the options that say where settings come from, or what to do instead of a job.
var undumped = []string{"config", "dump-config", "help", "interpolate-env-vars", "overwrite"}

// dumpConfig prints the settings in effect as a configuration file that --config reads back, all of them or those that differ
// from the defaults. Paths have been made what they stand for: nothing is left to find or to replace.
func (t *translation) dumpConfig(command *cobra.Command) error {
	kind := t.output.dump
	if kind != "full" && kind != "minimal" && kind != "expand" { // expand is Marian's, and the same as minimal where there are no aliases
		return usageErrorf("--dump-config %s: expected full or minimal", kind)
	}
	if err := t.model.find(); err != nil {
		return err
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, group := range t.groups {
		dumpFlags(root, group.title, group.flags, kind == "full")
	}
	rest := pflag.NewFlagSet("", pflag.ContinueOnError)
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		if !slices.ContainsFunc(t.groups, func(g flagGroup) bool { return g.flags.Lookup(flag.Name) != nil }) {
			rest.AddFlag(flag)
		}
	})
	dumpFlags(root, "Options of Marian's", rest, false)
	encoder := yaml.NewEncoder(command.OutOrStdout())
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return outputError{fmt.Errorf("--dump-config: %w", err)}
	}
	return encoder.Close()
}

// dumpFlags appends the flags of a group, the first one under the group's title.
func dumpFlags(root *yaml.Node, title string, flags *pflag.FlagSet, full bool) {
	flags.VisitAll(func(flag *pflag.Flag) {
		if slices.Contains(undumped, flag.Name) || !full && flag.Value.String() == flag.DefValue {
			return
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: flag.Name, HeadComment: title}
		title = ""
		root.Content = append(root.Content, key, flagNode(flag))
	})
}

// flagNode is the value of a flag in YAML.
func flagNode(flag *pflag.Flag) *yaml.Node {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		node := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, value := range list.GetSlice() {
			item := new(yaml.Node)
			item.SetString(value)
			node.Content = append(node.Content, item)
		}
		return node
	}
	node := new(yaml.Node)
	if node.SetString(flag.Value.String()); flag.Value.Type() != "string" {
		node.Tag = "" // a number or a truth value, to be read as such
	}
	return node
}
