package data

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/tools/cli/command"
)

// completeValues makes shells complete those flags of f whose values are words.
func completeValues(f *pflag.FlagSet, partitioners ...string) {
	floats := []string{"float32", "float16", "bfloat16"}
	for name, values := range map[string][]string{
		"bad-lines":        {"fail", "skip="},
		"dedup":            {"pair", "relation", "no"},
		"dtype":            floats,
		"feature-dtype":    slices.Concat(floats, []string{"float64", "int8"}),
		"format":           slices.Concat([]string{"auto"}, formats.Names()),
		"header":           {"auto", "yes", "no"},
		"hubs":             {"auto", "train"},
		"ids":              {"auto", "dense", "integers", "strings"},
		"missing":          {"auto", "error", "zero", "mean"},
		"normalize":        {"tables", "all", "none"},
		"partitioner":      slices.Concat(partitioners, partitioner.MethodNames()),
		"precompute-dtype": floats,
		"quotes":           {"auto", "yes", "no"},
		"self-loops":       {"keep", "drop", "add"},
		"visit-order":      {"natural", "random", "bfs", "degree"},
	} {
		if flag := f.Lookup(name); flag != nil && flag.Value.Type() != "bool" {
			command.Values(flag, values...)
		}
	}
}
