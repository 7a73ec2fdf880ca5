package bench

import (
	"path/filepath"
	"testing"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/tools/generate"
)

// smallStore is a block model of 4000 nodes in 16 partitions, half of them training nodes.
func smallStore(t *testing.T) *store.Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sbm.gstore")
	options := generate.SBMOptions{Nodes: 4000, Edges: 40000, Communities: 40, Classes: 4, Dim: 8, Seed: 2}
	g, err := generate.NewSBM(options)
	if err != nil {
		t.Fatal(err)
	}
	src, err := generate.Source(g, options, generate.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.Run(t.Context(), dir, src, ingest.Options{Partitions: 16}); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestRunDevice: in memory and out of core every policy is counted in every room, none beats the oracle, more room never
// moves more, and the chosen plan is near the best that leaves results alone.
func TestRunDevice(t *testing.T) {
	s := smallStore(t)
	for name, c := range map[string]config.Config{
		"memory": {Fanouts: []int{4, 3}, BatchSize: 20, Plan: macro.Memory},
		"hanoi":  {Fanouts: []int{4, 3}, BatchSize: 20, Plan: macro.Hanoi, Buffer: 4},
	} {
		t.Run(name, func(t *testing.T) {
			rows := map[string][]DeviceRow{}
			chosen := 0
			graph, err := RunDevice(t.Context(), s, DeviceOptions{Train: c, Shares: []float64{.1, .4, 1}, Window: 8, Reorder: 4}, func(r DeviceRow) {
				rows[r.Policy] = append(rows[r.Policy], r)
				if r.Chosen {
					chosen++
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if chosen != 3 || graph.RowBytes != 32 || graph.Batches < 20 {
				t.Errorf("%d plans were chosen for three rooms; %+v", chosen, graph)
			}
			for _, p := range []string{"naive", cache.NameTracker, cache.NameLookahead, "tracker + reorder", "lookahead + reorder", "presc", "static optimum", "oracle", "dual cache"} {
				if static := p == "presc" || p == "static optimum" || p == "dual cache"; static && name == "hanoi" {
					if len(rows[p]) != 0 {
						t.Errorf("%s: rows that mean other nodes in other steps were kept", p)
					}
					continue
				}
				if len(rows[p]) != 3 {
					t.Fatalf("%s: %d rows", p, len(rows[p]))
				}
				for i, r := range rows[p] {
					if p != "naive" && r.FeatureBytes >= rows["naive"][i].FeatureBytes && i > 0 {
						t.Errorf("%s moves %d bytes of features, naive %d", p, r.FeatureBytes, rows["naive"][i].FeatureBytes)
					}
					if i > 0 && r.FeatureBytes > rows[p][i-1].FeatureBytes {
						t.Errorf("%s moves %d bytes in more room than %d", p, r.FeatureBytes, rows[p][i-1].FeatureBytes)
					}
				}
			}
			for i, least := range rows["oracle"] {
				for _, p := range []string{cache.NameTracker, cache.NameLookahead, cache.NamePreSC} {
					if p == cache.NamePreSC && name == "hanoi" {
						continue
					}
					if got := rows[p][i]; got.FeatureBytes < least.FeatureBytes {
						t.Errorf("%s moves %d bytes, the oracle %d", p, got.FeatureBytes, least.FeatureBytes)
					}
				}
			}
			if m := rows[macro.DeviceMirror]; len(m) == 0 || name == "memory" && m[0].FeatureBytes != 0 {
				t.Errorf("mirrored with room for all: %+v", m)
			}
			// The samplers are training's: groups of partitions are of plan memory.
			want := 3
			if name == "hanoi" {
				want = 0
			}
			if lbs, pbs := rows["lbs, 16 batches"], rows["pbs, 2 partitions"]; len(lbs) != 3 || len(pbs) != want || lbs[0].HitRate <= rows[cache.NameTracker][0].HitRate {
				t.Errorf("large batches %+v, partitions %+v", lbs, pbs)
			}
		})
	}
}

// TestRunDeviceReadsTheHop: where the store has an exact hop pbs reads it, as training does: a hop less is sampled, of rows
// twice as wide.
func TestRunDeviceReadsTheHop(t *testing.T) {
	s := smallStore(t)
	dir := s.Dir()
	pbs := func() (r DeviceRow) {
		c := config.Config{Fanouts: []int{4, 3}, BatchSize: 20, Plan: macro.Memory}
		_, err := RunDevice(t.Context(), s, DeviceOptions{Train: c, Shares: []float64{.4}, Batches: 20}, func(x DeviceRow) {
			if x.Policy == "pbs, 2 partitions" {
				r = x
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	without := pbs()
	_, err := precompute.Hop(t.Context(), dir, host.New(host.Options{Threads: 1}), precompute.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = store.Open(dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if with := pbs(); with.StructureBytes >= without.StructureBytes {
		t.Errorf("blocks of pbs take %d bytes with a hop in the store, %d without", with.StructureBytes, without.StructureBytes)
	}
}
