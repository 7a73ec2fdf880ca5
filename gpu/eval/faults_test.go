package eval

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

var errRead = errors.New("the disk is gone")

// failing is a source whose n-th read fails, counted from 0.
type failing struct {
	*evaltest.Graph
	reads, at int
}

func (f *failing) fail() error {
	f.reads++
	if f.reads-1 == f.at {
		return errRead
	}
	return nil
}

func (f *failing) ReadColumn(ctx context.Context, name string, p store.PartitionID, dst []byte) ([]byte, error) {
	if err := f.fail(); err != nil {
		return nil, err
	}
	return f.Graph.ReadColumn(ctx, name, p, dst)
}

func (f *failing) ReadStripe(ctx context.Context, p store.PartitionID, dst []byte) (blocks.Stripe, []byte, error) {
	if err := f.fail(); err != nil {
		return blocks.Stripe{}, nil, err
	}
	return f.Graph.ReadStripe(ctx, p, dst)
}

// TestReadErrors: whichever read of an evaluation fails, its error is the evaluation's.
func TestReadErrors(t *testing.T) {
	for name, cfg := range map[string]nn.Config{
		"sage":          {},
		"gcn, degrees":  {Model: "gcn"},
		"gat, self":     {Model: "gat"},
		"jumping":       {Jumping: "cat"},
		"rgcn, grouped": {Model: "rgcn", Relations: evaltest.Relations},
		"rsage":         {Model: "rsage", Relations: evaltest.Relations},
	} {
		t.Run(name, func(t *testing.T) {
			g := evaltest.Random(t, 200, 3, true)
			dev := host.New(host.Options{Threads: 1})
			defer func() { _ = dev.Close() }()
			q, err := gpu.NewQueue(dev)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Layers, cfg.In, cfg.Hidden, cfg.Out = 2, g.Dim, 8, 5
			if cfg.Model == "" {
				cfg.Model = "sage"
			}
			m, err := nn.New(t.Context(), q, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = m.Close() }()
			run := func(at int) (int, error) {
				src := &failing{Graph: g, at: at}
				e, err := New(src, dev, Options{Features: []string{"x"}, Model: m.Config()}, 8)
				if err != nil {
					return src.reads, err
				}
				defer func() { _ = e.Close() }()
				_, err = e.Run(t.Context(), q, m, "valid", "test")
				return src.reads, err
			}
			reads, err := run(-1)
			if err != nil || reads < 6 {
				t.Fatalf("%d reads, %v", reads, err)
			}
			for at := range reads {
				if n, err := run(at); !errors.Is(err, errRead) || n != at+1 {
					t.Errorf("read %d of %d fails: error %v after %d reads", at, reads, err, n)
				}
			}
		})
	}
}

// TestMeansErrors: whichever read fails under means over neighbours, and whatever takes their rows, its error is returned.
func TestMeansErrors(t *testing.T) {
	g := evaltest.Random(t, 200, 3, true)
	dev := host.New(host.Options{Threads: 1})
	defer func() { _ = dev.Close() }()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	run := func(at, refuse int) (reads, taken int, err error) {
		src := &failing{Graph: g, at: at}
		e, err := New(src, dev, Options{Unlabelled: true, Features: []string{"x"}}, g.Dim)
		if err != nil {
			return 0, 0, err
		}
		defer func() { _ = e.Close() }()
		e.tiles = tilesOf(g.M.Partitions, 3)
		err = e.Hop(t.Context(), q, func(store.PartitionID, gpu.Tensor, []float32) error {
			if taken++; taken-1 == refuse {
				return errRead
			}
			return nil
		})
		return src.reads, taken, err
	}
	reads, parts, err := run(-1, -1)
	if err != nil || reads < 6 || parts != 3 {
		t.Fatalf("%d reads, %d partitions, %v", reads, parts, err)
	}
	for at := range reads {
		if n, _, err := run(at, -1); !errors.Is(err, errRead) || n != at+1 {
			t.Errorf("read %d of %d fails: error %v after %d reads", at, reads, err, n)
		}
	}
	for p := range parts {
		if _, n, err := run(-1, p); !errors.Is(err, errRead) || n != p+1 {
			t.Errorf("rows of partition %d are refused: error %v after %d", p, err, n)
		}
	}
}

// TestRankerErrors: whichever operation on the store fails under a ranker, and whichever read of embeddings, it is told and
// nothing stays open.
func TestRankerErrors(t *testing.T) {
	dev := host.New(host.Options{Threads: 1})
	defer func() { _ = dev.Close() }()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	disk := storetest.NewDisk(t)
	g := storetest.Random(storetest.Options{Nodes: 60, Partitions: 3, Relations: 2})
	if err := storetest.CommitOn(disk, g, true); err != nil {
		t.Fatal(err)
	}
	for _, encoder := range []string{"none", "gcn"} {
		const dim = 4
		cfg := nn.LinkConfig{Decoder: "distmult", Encoder: encoder, Dim: dim, Relations: 2}
		m, err := nn.NewLink(t.Context(), q, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Close() }()
		run := func(fs vfs.FS, at int) (reads int, err error) {
			st, err := store.Open(storetest.CrashDir, store.Options{FS: fs})
			if err != nil {
				return 0, err
			}
			defer func() { err = errors.Join(err, st.Close()) }()
			v, err := NewRanker(st, dev, RankerOptions{Model: m.Config(), Threads: 1})
			if err != nil {
				return 0, err
			}
			defer func() { err = errors.Join(err, v.Close()) }()
			v.e.tiles, v.e.memory = tilesOf(st.Manifest().Partitions, 3), false
			_, err = v.Run(t.Context(), q, m, func(_ context.Context, p store.PartitionID) ([]byte, error) {
				reads++
				if reads-1 == at {
					return nil, errRead
				}
				return make([]byte, int(st.Manifest().Partitions[p].Nodes)*dim*4), nil
			}, "valid")
			return reads, err
		}
		harmless := func(op errorfs.Op) bool { return op.Kind == errorfs.OpStat || storetest.InPebble(op) }
		storetest.FailEach(t, disk, storetest.Every(23), harmless, func(fs vfs.FS) error {
			_, err := run(fs, -1)
			return err
		})
		reads, err := run(disk, -1)
		if err != nil || reads < 3 {
			t.Fatalf("%d reads of embeddings, %v", reads, err)
		}
		for at := range reads {
			if n, err := run(disk, at); !errors.Is(err, errRead) || n != at+1 {
				t.Errorf("%s: read %d of %d of embeddings fails: error %v after %d", encoder, at, reads, err, n)
			}
		}
	}
}
