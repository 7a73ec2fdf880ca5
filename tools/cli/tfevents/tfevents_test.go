package tfevents

import (
	"encoding/binary"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// fields are a message's, by number: varints, fixed numbers and bytes as protowire gives them.
func fields(t *testing.T, b []byte) (all []struct {
	num protowire.Number
	v   any
}) {
	t.Helper()
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		var v any
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			v, n = protowire.ConsumeFixed32(b)
		case protowire.Fixed64Type:
			v, n = protowire.ConsumeFixed64(b)
		default:
			v, n = protowire.ConsumeBytes(b)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		all = append(all, struct {
			num protowire.Number
			v   any
		}{num, v})
	}
	return all
}

// TestScalars decodes what was written.
func TestScalars(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "a")
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir); err != nil { // another run's file beside it
		t.Fatal(err)
	}
	for step := range int64(3) {
		if err := w.Scalars(step, []Scalar{{"loss/train", 2.5 - float64(step)}, {"accuracy/valid", .25}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(w.Name())
	if err != nil {
		t.Fatal(err)
	}
	var steps []uint64
	var losses []float32
	for n := 0; len(b) > 0; n++ {
		size := binary.LittleEndian.Uint64(b)
		data := b[12 : 12+size]
		if binary.LittleEndian.Uint32(b[8:]) != masked(b[:8]) || binary.LittleEndian.Uint32(b[12+size:]) != masked(data) {
			t.Fatalf("record %d: a checksum is wrong", n)
		}
		b = b[16+size:]
		for _, f := range fields(t, data) {
			switch f.num {
			case 1:
				if at := math.Float64frombits(f.v.(uint64)); math.Abs(at-float64(time.Now().Unix())) > 100 {
					t.Errorf("record %d is of %v seconds", n, at)
				}
			case 2:
				steps = append(steps, f.v.(uint64))
			case 3:
				if n > 0 || string(f.v.([]byte)) != "brain.Event:2" {
					t.Errorf("record %d says version %q", n, f.v)
				}
			case 5:
				values := fields(t, f.v.([]byte))
				if len(values) != 2 {
					t.Fatalf("record %d has %d values", n, len(values))
				}
				first := fields(t, values[0].v.([]byte))
				if string(first[0].v.([]byte)) != "loss/train" {
					t.Errorf("tag %q", first[0].v)
				}
				losses = append(losses, math.Float32frombits(first[1].v.(uint32)))
			}
		}
	}
	if !slices.Equal(steps, []uint64{0, 1, 2}) || !slices.Equal(losses, []float32{2.5, 1.5, .5}) {
		t.Errorf("steps %v, losses %v", steps, losses)
	}
	// The checksum of RFC 3720, B.4, 32 bytes of zeros, masked.
	if c := uint32(0x8a9136aa); masked(make([]byte, 32)) != (c>>15|c<<17)+0xa282ead8 {
		t.Errorf("the masked checksum of zeros is %08x", masked(make([]byte, 32)))
	}
}

// TestParameters: settings are a summary of the plugin that TensorBoard's table of hyper-parameters reads, each with its type.
func TestParameters(t *testing.T) {
	w, err := Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Parameters(map[string]any{"x": 1}); err == nil {
		t.Error("an integer is taken")
	}
	if err := w.Parameters(map[string]any{"model": "sage", "lr": .005, "history": true}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(w.Name())
	if err != nil {
		t.Fatal(err)
	}
	b = b[16+binary.LittleEndian.Uint64(b):] // behind the version's record
	inner := func(b []byte, path ...protowire.Number) []byte {
		t.Helper()
		for _, num := range path {
			found := false
			for _, f := range fields(t, b) {
				if v, ok := f.v.([]byte); ok && f.num == num && !found {
					b, found = v, true
				}
			}
			if !found {
				t.Fatalf("no field %d of %v", num, path)
			}
		}
		return b
	}
	value := inner(b[12:12+binary.LittleEndian.Uint64(b)], 5, 1)
	if tag := string(inner(value, 1)); tag != "_hparams_/session_start_info" {
		t.Errorf("tag %q", tag)
	}
	if name := string(inner(value, 9, 1, 1)); name != "hparams" {
		t.Errorf("plugin %q", name)
	}
	got := map[string]any{}
	for _, f := range fields(t, inner(value, 9, 1, 2, 3)) {
		if f.num != 1 {
			continue
		}
		pair := fields(t, f.v.([]byte))
		v := fields(t, pair[1].v.([]byte))[0]
		switch x := v.v.(type) {
		case uint64:
			got[string(pair[0].v.([]byte))] = map[protowire.Number]any{2: math.Float64frombits(x), 4: x == 1}[v.num]
		case []byte:
			got[string(pair[0].v.([]byte))] = string(x)
		}
	}
	if want := map[string]any{"model": "sage", "lr": .005, "history": true}; !maps.Equal(got, want) {
		t.Errorf("parameters %v, expected %v", got, want)
	}
}
