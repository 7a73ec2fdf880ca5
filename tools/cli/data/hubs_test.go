package data_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestHubsAuto: hubs are pinned on a graph of skewed degrees and not on one of even degrees, by ingest as
// by partition, and plan and train say why. Ingest and partition of the same graph agree.
func TestHubsAuto(t *testing.T) {
	for _, kind := range []struct {
		name string
		args []string
		hubs bool
	}{
		{"rmat", []string{"--edges", "60000", "--features", "4", "--classes", "4", "--train", ".1"}, true},
		{"sbm", []string{"--edges", "60000", "--features", "4", "--classes", "4", "--train", ".1", "--communities", "32", "--skew", "1"}, false},
	} {
		t.Run(kind.name, func(t *testing.T) {
			dir := t.TempDir()
			in, made, moved := filepath.Join(dir, "in"), filepath.Join(dir, "made"), filepath.Join(dir, "moved")
			clitest.MustRun(t, append([]string{"generate", kind.name, in, "--nodes", "6400", "--quiet"}, kind.args...)...)
			common := []string{"--undirected", "--partitions", "32", "--quiet"}
			clitest.MustRun(t, append([]string{"ingest", in, made, "--partitioner", "fennel", "--hubs", "auto"}, common...)...)
			clitest.MustRun(t, append([]string{"ingest", in, moved}, common...)...)
			clitest.MustRun(t, "partition", moved, "--partitioner", "fennel", "--hubs", "auto", "--quiet")
			for _, path := range []string{made, moved} {
				s, err := store.Open(path, store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				m := s.Manifest()
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if len(m.Pinned) > 0 != kind.hubs || strings.HasPrefix(m.HubsWhy(), "no hubs") == kind.hubs || m.Ingest["hubs"] != "auto" {
					t.Errorf("%s: pinned %v, %q: %q; expected hubs: %v", filepath.Base(path), m.Pinned, m.Ingest["hubs"], m.HubsWhy(), kind.hubs)
				}
				if kind.hubs && m.Partitions[m.Pinned[0]].Nodes != 100 {
					t.Errorf("%s: %d hubs, expected 1/64 of 6400 nodes", filepath.Base(path), m.Partitions[m.Pinned[0]].Nodes)
				}
				for _, c := range []struct {
					event string
					args  []string
				}{
					{"summary", []string{"plan", path, "--buffer", "4", "--measure", "0"}},
					{"plan", []string{"train", path, "--buffer", "4", "--explain", "--epochs", "1", "--hidden", "4"}},
				} {
					said := false
					for _, e := range clitest.Events(t, c.args...) {
						why, _ := e["why"].([]any)
						for _, w := range why {
							said = said || e["event"] == c.event && strings.Contains(w.(string), m.HubsWhy())
						}
					}
					if !said {
						t.Errorf("%v does not say %q", c.args, m.HubsWhy())
					}
				}
			}
			// A later partitioning without the question forgets the answer.
			clitest.MustRun(t, "partition", moved, "--partitioner", "fennel", "--hubs", "0.02", "--quiet")
			s, err := store.Open(moved, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if m := s.Manifest(); m.HubsWhy() != "" || m.Ingest["hubs"] != "0.02" {
				t.Errorf("after --hubs 0.02: %q, %q", m.Ingest["hubs"], m.HubsWhy())
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, args := range [][]string{
		{"ingest", "in", "out", "--hubs", "0.01", "--hops", "0"},
		{"ingest", "in", "out", "--partitioner", "hdr", "--hubs", "auto"},
		{"ingest", "in", "out", "--hubs", "few"},
	} {
		var out, errs bytes.Buffer
		if code := cli.Run(t.Context(), args, strings.NewReader(""), &out, &errs); code != cli.ExitUsage {
			t.Errorf("%v: exit %d, expected %d: %s", args, code, cli.ExitUsage, errs.String())
		}
	}
}

// TestHubsReach: ingest's --hops decides how far the influence of hubs reaches, as partition's does: both pin the same nodes for
// a model of three layers, but for ties, and others for one layer.
func TestHubsReach(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	clitest.MustRun(t, "generate", "rmat", in, "--nodes", "3000", "--edges", "20000", "--features", "2", "--classes", "4", "--train", ".1", "--quiet")
	pinned := func(path string) map[uint64]bool {
		t.Helper()
		s, err := store.Open(path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		ids, _, err := s.ReadExternal(t.Context(), s.Manifest().Pinned[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		set := map[uint64]bool{}
		for _, x := range ids.Ints {
			set[x] = true
		}
		return set
	}
	made := map[string]map[uint64]bool{}
	for _, hops := range []string{"1", "3"} {
		path := filepath.Join(dir, "made"+hops)
		clitest.MustRun(t, "ingest", in, path, "--undirected", "--partitions", "16", "--hubs", "0.1", "--hops", hops, "--quiet")
		made[hops] = pinned(path)
	}
	moved := filepath.Join(dir, "moved")
	clitest.MustRun(t, "ingest", in, moved, "--undirected", "--partitions", "16", "--quiet")
	clitest.MustRun(t, "partition", moved, "--partitioner", "random", "--hubs", "0.1", "--hops", "3", "--quiet")
	common := func(a, b map[uint64]bool) (n int) {
		for x := range a {
			if b[x] {
				n++
			}
		}
		return n
	}
	three := pinned(moved)
	if len(three) != 300 || common(three, made["3"]) < 298 || common(three, made["1"]) > 290 {
		t.Errorf("of partition's %d hubs by 3 hops ingest pins %d by 3 and %d by 1", len(three), common(three, made["3"]), common(three, made["1"]))
	}
}
