package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/vectors"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
)

// chooseVectors decides whether learned vectors of types without features are parameters, or a table where these do not fit the budget,
// and says why.
func chooseVectors(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info, once *Counted) (why []string, err error) {
	m := st.Manifest()
	types := c.OwnVectors(m)
	if len(c.VectorTypes) > 0 || len(types) == 0 {
		if c.Vectors == config.VectorsTable && len(c.VectorTypes) == 0 {
			return nil, store.Invalid(fmt.Errorf("train: learned vectors as a table: model %s reads none of nodes (features %q): they are of node types without features, and rgcn's, rsage's and rgat's", c.Model, c.Features))
		}
		return nil, c.CountVectors(ctx, st)
	}
	fits := "" // why a table is none for the run
	switch {
	case info.OwnMemory():
		fits = "rows of a table are trained in the host's memory, not on " + info.Name
	case c.Plan == macro.Rows:
		fits = "plan rows holds none"
	case c.Accumulate > 1:
		fits = fmt.Sprintf("its rows step with every mini-batch, not with %d together", c.Accumulate)
	case !slices.Contains(c.Features, store.TypeColumn):
		fits = "column " + store.TypeColumn + " is not among the features"
	}
	if c.Vectors == config.VectorsTable && fits != "" {
		return nil, store.Invalid(fmt.Errorf("train: learned vectors as a table: %s", fits))
	}
	reason := "asked for"
	if c.Vectors != config.VectorsTable {
		c.Vectors = cmp.Or(c.Vectors, config.VectorsAuto)
		if c.Vectors == config.VectorsMemory || fits != "" || c.MemoryBytes == 0 {
			c.Vectors = config.VectorsMemory
			return nil, nil
		}
		if _, err := Choose(c, ctx, st, info, once); !errors.Is(err, store.ErrBudget) {
			c.Vectors = config.VectorsMemory
			return nil, nil // another error is told where it is met again
		}
		reason = "as parameters they do not fit the budget"
	}
	d := c.Tabled(types)
	if err := d.CountVectors(ctx, st); err != nil {
		return nil, err
	}
	*c = *d
	rows := c.VectorsOf.Nodes(0, len(c.VectorsOf.Rows))
	return []string{fmt.Sprintf("learned vectors of %d nodes (%s) are rows of table %s, %s with their state, read and written with partitions: %s",
		rows, strings.Join(types, ", "), c.Table, blocks.SizeText(vectors.Planes*4*int64(rows)*int64(c.Hidden)), reason)}, nil
}
