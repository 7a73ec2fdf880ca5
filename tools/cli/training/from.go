package training

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/models"
)

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
	if name == models.Best {
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

// beginLinkWith has a run of links begin with the model that --from names, and says so, unless it is resumed and has begun; the run's table
// is another one. It returns what to call once the run has begun.
func beginLinkWith(ctx context.Context, e *command.Env, st *store.Store, c *link.Config) (done func() error, err error) {
	none := func() error { return nil }
	if c.From == "" {
		return none, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("--from %s: %w", c.From, err)
		}
	}()
	name, which, err := models.FindTable(ctx, st, c.From)
	if err != nil {
		return nil, err
	}
	if c.Table == "" {
		c.Table = models.NextTable(name, st.Manifest().Version)
	}
	if c.Table == name {
		return nil, command.Usagef("table %s is what the run begins with: name another one for what comes of it, with --table NAME", name)
	}
	if c.Resume {
		names, err := table.Names(ctx, st.Dir(), store.Options{})
		if err != nil {
			return nil, err
		}
		if slices.Contains(names, c.Table) {
			c.From = name
			return none, nil
		}
	}
	b, err := link.OpenBegin(ctx, st, name)
	if err != nil {
		return nil, err
	}
	c.BeginWith(b)
	if !e.JSON {
		fmt.Fprintf(e.Told(), "begins with the model of %s: %s of %s; its table is %s\n", which, c.Model, options.Count(b.Epochs, "epoch"), c.Table)
	}
	return b.Close, nil
}
