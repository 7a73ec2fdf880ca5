package train

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store/storetest"
)

// TestOneRelation: models of relations learn of a store without a column of relations what they learn of one whose column says that all
// edges are of the only relation, to the bit, by every plan, directed or not.
func TestOneRelation(t *testing.T) {
	for _, undirected := range []bool{false, true} {
		bare := storetest.Random(storetest.Options{Nodes: 300, Partitions: 4, Seed: 4, Undirected: undirected})
		told := *bare
		told.Relations = make([]uint16, len(told.Edges))
		without, with := storetest.Create(t, bare), storetest.Create(t, &told)
		for _, model := range []string{"rsage", "rgcn", "rgat", "hgt"} {
			for _, c := range []config.Config{{Plan: macro.Memory}, {Plan: macro.Hanoi, Buffer: 2}, {Plan: macro.Rows}} {
				c.Model, c.Hidden, c.Fanouts, c.BatchSize, c.Epochs, c.Seed, c.Threads = model, 8, []int{4, 4}, 40, 2, 7, 1
				got, _, _ := lossesRead(t, without, c)
				want, _, _ := lossesRead(t, with, c)
				if len(got) == 0 || !slices.Equal(got, want) {
					t.Errorf("%s, plan %s, undirected %v: %v without a column of relations, %v with one", model, c.Plan, undirected, got, want)
				}
			}
		}
	}
}
