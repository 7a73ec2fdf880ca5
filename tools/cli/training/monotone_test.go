package training_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestBudgetsAreMonotone: a store that ingest makes within a budget trains within it from the smallest such budget on, with everything
// left to both: more memory never refuses what less accepted, though ingest makes another store of it.
func TestBudgetsAreMonotone(t *testing.T) {
	dir := t.TempDir()
	for _, g := range []struct {
		name     string
		generate []string
		ingest   []string
		mib      []int
	}{
		{"wide rows", []string{"sbm", "--nodes", "3001", "--edges", "4600", "--classes", "6", "--features", "3001", "--train", ".3"},
			[]string{"--undirected"}, []int{97, 105, 113, 130, 150, 180, 200, 220, 240, 260, 290, 320, 400}},
		{"links", []string{"kg", "--nodes", "5001", "--edges", "40001", "--relations", "8"},
			nil, []int{97, 105, 113, 120, 125, 130, 140, 150, 160, 180, 240}},
	} {
		in := filepath.Join(dir, g.name)
		clitest.MustRun(t, append(append([]string{"generate", g.generate[0], in}, g.generate[1:]...), "--quiet")...)
		accepted := 0
		for k, mib := range g.mib {
			if k%race.Sample(2, 4) != 0 {
				continue
			}
			made, mem := fmt.Sprintf("%s.%d", in, mib), fmt.Sprintf("%dMiB", mib)
			args := append([]string{"ingest", in, made, "--mem", mem, "--quiet"}, g.ingest...)
			code, _, said := clitest.Run(t, args...)
			if code == 0 {
				code, _, said = clitest.Run(t, "train", made, "--epochs", "1", "--mem", mem, "--quiet", "--baselines=false")
			}
			switch {
			case code == 0 && accepted == 0:
				accepted = mib
			case code != 0 && accepted > 0:
				t.Errorf("%s: %d MiB refused, %d accepted: %s", g.name, mib, accepted, said)
			case code != 0 && !strings.Contains(said, "memory budget too small"):
				t.Errorf("%s: %d MiB: %s", g.name, mib, said)
			}
		}
		if accepted == 0 || accepted == g.mib[len(g.mib)-1] {
			t.Errorf("%s: the smallest budget accepted is %d MiB of %v", g.name, accepted, g.mib)
		}
	}
}
