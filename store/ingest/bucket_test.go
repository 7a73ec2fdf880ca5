package ingest_test

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
)

// A bucket that the budget cannot sort is refused with a budget that works, before edges are sorted: where even the average one is too
// large, and where one of them is, for which the input is read once more.
func TestLargeBucketNamesABudget(t *testing.T) {
	const edges = 3_000_000
	r := rand.New(rand.NewPCG(1, 14))
	g := &graph{nodes: 4000, src: make([]int64, edges), dst: make([]int64, edges), x: make([]float32, 12000), labels: make([]int64, 4000)}
	for i := range edges { // all within the first quarter of the nodes
		g.src[i], g.dst[i] = int64(r.IntN(1000)), int64(r.IntN(1000))
	}
	input := g.write(t, false)
	named := regexp.MustCompile(`the smallest that works is (\d+)MiB`)
	for _, partitions := range []int{1, 2} {
		var phases []string
		try := func(bytes int64) error {
			src, err := formats.Open(input, formats.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close() //nolint:errcheck // nothing is written
			phases = nil
			_, err = ingest.Run(t.Context(), filepath.Join(t.TempDir(), "s"), src, ingest.Options{Partitions: partitions, Partitioner: partitioner.MethodRange, MemoryBytes: bytes, Threads: 2,
				Progress: func(p ingest.Progress) {
					if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
						phases = append(phases, p.Phase)
					}
				}})
			return err
		}
		err := try(110 << 20)
		m := named.FindStringSubmatch(errors.Join(err, errors.New("")).Error())
		if !errors.Is(err, store.ErrBudget) || m == nil {
			t.Fatalf("%d partitions: %v, expected ErrBudget with a number", partitions, err)
		}
		for _, p := range phases {
			if p == "read edges" {
				t.Errorf("%d partitions: refused after edges were read", partitions)
			}
		}
		n, _ := strconv.ParseInt(m[1], 10, 64)
		if err := try(n << 20); err != nil {
			t.Errorf("%d partitions: the %d MiB that %q names do not work: %v", partitions, n, m[0], err)
		}
	}
}
