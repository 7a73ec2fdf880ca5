package planning

import (
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// Plan rows is no choice where one thing alone speaks against it.
func TestRowsTuningIsRefused(t *testing.T) {
	st := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Partitions: 4})), store.Options{})
	for name, c := range map[string]struct {
		change func(*config.Config)
		ok     bool
	}{
		"uniform":       {func(*config.Config) {}, true},
		"named uniform": {func(c *config.Config) { c.Sampler = mini.Uniform }, true},
		"dense":         {func(c *config.Config) { c.Sampler = mini.Dense }, true},
		"labor":         {func(c *config.Config) { c.Sampler = mini.Labor }, false},
		"rgcn":          {func(c *config.Config) { c.Model = "rgcn" }, true},
		"history":       {func(c *config.Config) { c.History = true }, false},
		"groups":        {func(c *config.Config) { c.Group = 2 }, false},
		"no features":   {func(c *config.Config) { c.Features = nil }, false},
	} {
		y := &Memory{store: st, M: st.Manifest(), Cfg: config.Config{Hidden: 8, BatchSize: 20, Features: []string{"x"}}}
		if err := y.Cfg.Normalize(); err != nil {
			t.Fatal(err)
		}
		c.change(&y.Cfg)
		got, err := y.RowsTuning(0)
		if err != nil || (got != nil) != c.ok {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
