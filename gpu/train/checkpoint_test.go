package train

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/modelfile"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train/config"
)

// checkpoint is a small model with its parameters.
func checkpoint(t testing.TB, cfg nn.Config) *Checkpoint {
	t.Helper()
	dev := host.New(host.Options{Threads: 1})
	defer func() { _ = dev.Close() }()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	m, err := nn.New(t.Context(), q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	params, err := m.Params().Save(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	c := &Checkpoint{Version: 3, Config: config.Config{Model: cfg.Model, Split: "s", Features: []string{"x"}}, Model: cfg, Params: params}
	if err := c.Config.Normalize(); err != nil {
		t.Fatal(err)
	}
	return c
}

// checkpoints are models of every kind of parameter.
func checkpoints(t testing.TB) (all []*Checkpoint) {
	for _, cfg := range []nn.Config{
		{Model: "sage", Layers: 1, In: 3, Out: 2},
		{Model: "gat", Heads: 2, Layers: 2, In: 3, Hidden: 4, Out: 2, Norm: "batch", Residual: true},
		{Model: "rgcn", Relations: 4, Bases: 2, Layers: 2, In: 3, Hidden: 2, Out: 2, Jumping: "cat"},
		{Model: "rsage", Relations: 2, Categories: []int{3, 5}, Layers: 2, In: 3, Hidden: 2, Out: 2},
	} {
		all = append(all, checkpoint(t, cfg))
	}
	return all
}

// seal gives a damaged model file the checksum that it should have.
func seal(b []byte) []byte {
	n := max(0, len(b)-modelfile.TailSize)
	return binary.LittleEndian.AppendUint32(bytes.Clone(b[:n]), crc32.Checksum(b[:n], crc32.MakeTable(crc32.Castagnoli)))
}

// TestCheckpointFile: a saved model is read again, and any damage is a corrupt file.
func TestCheckpointFile(t *testing.T) {
	for _, c := range checkpoints(t) {
		path := filepath.Join(t.TempDir(), "m.gsm")
		if err := c.SaveFile(path); err != nil {
			t.Fatal(err)
		}
		got, err := LoadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got.Version != c.Version || !reflect.DeepEqual(got.Model, c.Model) || got.Config.Split != "s" || !bytes.Equal(got.Params, c.Params) {
			t.Errorf("read %+v, saved %+v", got, c)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := range b {
			bad := bytes.Clone(b)
			bad[at] ^= 0x10
			if _, err := decodeCheckpoint(path, bad); !errors.Is(err, blocks.ErrCorrupt) {
				t.Fatalf("a flipped bit in byte %d: error %v", at, err)
			}
			if _, err := decodeCheckpoint(path, b[:at]); !errors.Is(err, blocks.ErrCorrupt) {
				t.Fatalf("cut after %d bytes: error %v", at, err)
			}
		}
	}
}

// TestCheckpointDescription: a description that does not fit the parameters is refused before
// anything is allocated for it, checksum or not.
func TestCheckpointDescription(t *testing.T) {
	c := checkpoints(t)[2]
	for name, change := range map[string]func(*nn.Config){
		"another width":  func(m *nn.Config) { m.Hidden = 3 },
		"many layers":    func(m *nn.Config) { m.Layers = 1 << 40 },
		"wide":           func(m *nn.Config) { m.In, m.Out = 1<<31, 1<<33 },
		"many relations": func(m *nn.Config) { m.Relations = 1 << 60 },
		"many bases":     func(m *nn.Config) { m.Bases = 1 << 62 },
		"no model":       func(m *nn.Config) { m.Model = "x" },
		"negative":       func(m *nn.Config) { m.Hidden = -4 },
	} {
		d := *c
		change(&d.Model)
		b, err := modelfile.Encode(modelfile.Node, &d, d.Params)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeCheckpoint("m.gsm", b); !errors.Is(err, blocks.ErrCorrupt) || !strings.Contains(err.Error(), "nn: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// FuzzDecodeCheckpoint: whatever the bytes, with a checksum that fits, decoding gives a corrupt-file
// error or a model that encodes to one that decodes to the same.
func FuzzDecodeCheckpoint(f *testing.F) {
	for _, c := range checkpoints(f) {
		b, err := modelfile.Encode(modelfile.Node, c, c.Params)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-9])
	}
	f.Add([]byte(modelfile.Node))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeCheckpoint("fuzz.gsm", seal(b))
		if err != nil {
			if !errors.Is(err, blocks.ErrCorrupt) && !errors.Is(err, modelfile.ErrKind) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := modelfile.Encode(modelfile.Node, c, c.Params)
		if err != nil {
			t.Skip(err) // a number that JSON reads but does not write
		}
		d, err := decodeCheckpoint("again.gsm", again)
		if err != nil {
			t.Fatalf("what was decoded and encoded does not decode: %v", err)
		}
		if !reflect.DeepEqual(d.Model, c.Model) || !bytes.Equal(d.Params, c.Params) || d.Version != c.Version {
			t.Fatalf("%+v became %+v", c, d)
		}
	})
}
