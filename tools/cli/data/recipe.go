package data

import (
	"fmt"

	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/recipe"
)

// chosen takes what the recipe decided of what the user left open, and says it, and why.
func (o *ingestOptions) chosen(e *command.Env, c recipe.Choice) {
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
