package data

import (
	"fmt"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/recipe"
)

// recipe decides what the user left open, and says what it chose, and why.
func (o *ingestOptions) recipe(e *command.Env, d *ingest.Description, in *ingest.Options) {
	if o.partitioner != recipe.Auto {
		return
	}
	c := recipe.Choose(d, in, recipe.Given{Hubs: o.given("hubs"), Hop: o.given("precompute-hops")})
	if c.Hop {
		o.hops = 1
	}
	if c.Why == "" {
		return
	}
	e.Event("recipe", map[string]any{"why": c.Why})
	if !e.JSON && !e.Quiet {
		fmt.Fprintln(e.Stdout, c.Why)
	}
}
