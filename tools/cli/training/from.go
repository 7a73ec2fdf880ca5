package training

import (
	"context"
	"fmt"
	"strings"

	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/models"
)

// fromBest is the --from of the run that was best on validation nodes.
const fromBest = "best"

// beginWith has a run of nodes begin with the model that --from names, and says so, unless it does already: several seeds begin with one.
func beginWith(ctx context.Context, e *command.Env, st *store.Store, c *config.Config) (err error) {
	if c.From == "" || c.Begin != nil {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("--from %s: %w", c.From, err)
		}
	}()
	name := c.From
	if name == fromBest {
		name = ""
	}
	path, which, err := models.Find(ctx, st, name)
	if err != nil {
		return err
	}
	cp, err := models.Load(e, st.Manifest(), path)
	if err != nil {
		return err
	}
	b, err := cp.Begin()
	if err != nil {
		return err
	}
	c.BeginWith(b)
	if which, _, _ = strings.Cut(which, ","); name == "" { // "run 3, of 5 the best …"
		c.From = which
	}
	if !e.JSON {
		fmt.Fprintf(e.Told(), "begins with the model of %s: %s of %s\n", which, c.Model, options.Count(c.Layers, "layer"))
	}
	return nil
}
