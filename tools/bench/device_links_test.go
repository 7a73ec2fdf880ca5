package bench

import (
	"testing"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestRunDeviceLinks: of links what goes back is counted beside what is sent, more room never moves more, and of room for all rows
// each row of a step crosses once each way.
func TestRunDeviceLinks(t *testing.T) {
	s := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 2000, Edges: 9000, Partitions: 8, Relations: 3})), store.Options{})
	for name, c := range map[string]link.Config{
		"memory": {Plan: macro.Memory},
		"comet":  {Plan: macro.Comet, Buffer: 4},
	} {
		c.Dim, c.BatchSize, c.Negatives, c.EvalEvery = 4, 50, 10, -1
		rows := map[string][]DeviceRow{}
		g, err := RunDevice(t.Context(), s, DeviceOptions{Link: &c, Shares: []float64{.1, .5, 1}}, func(r DeviceRow) { rows[r.Policy] = append(rows[r.Policy], r) })
		if err != nil {
			t.Fatal(err)
		}
		if g.RowBytes != 2*4*4 || g.Batches < 180 || len(rows["naive"]) != 3 {
			t.Errorf("%s: %+v, %d rooms", name, g, len(rows["naive"]))
		}
		if n := rows["naive"][0]; n.FeatureBytes != g.Inputs*g.RowBytes || n.BackBytes != n.FeatureBytes {
			t.Errorf("%s: naive moves %+v", name, n)
		}
		for _, p := range []string{cache.NameTracker, cache.NameLookahead, "oracle"} {
			for i, r := range rows[p] {
				if n := rows["naive"][i]; r.FeatureBytes >= n.FeatureBytes || r.BackBytes == 0 || r.BackBytes >= n.BackBytes || r.FeatureBytes < rows["oracle"][i].FeatureBytes {
					t.Errorf("%s: %s moves %+v, naive %+v, the oracle %+v", name, p, r, n, rows["oracle"][i])
				}
				if i > 0 && r.FeatureBytes+r.BackBytes > rows[p][i-1].FeatureBytes+rows[p][i-1].BackBytes {
					t.Errorf("%s: %s moves more in more room: %+v, %+v", name, p, r, rows[p][i-1])
				}
			}
		}
		if r := rows[cache.NameTracker][2]; name == "memory" && (r.FeatureBytes != 0 || r.BackBytes > int64(g.Nodes)*g.RowBytes) {
			t.Errorf("with room for all rows, which are there from the epoch before: %+v", r)
		}
	}
}
