package blocks

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestVerifyOrder: within a run of one dst, src ids that fall are damage; the same one twice, and a smaller one in the next
// run, are not.
func TestVerifyOrder(t *testing.T) {
	var buf bytes.Buffer
	enc := NewStripeEncoder(&buf, []uint32{8})
	if err := enc.Begin(0); err != nil {
		t.Fatal(err)
	}
	if err := enc.Bucket(0, []uint64{EdgeKey(0, 3), EdgeKey(1, 2), EdgeKey(1, 5), EdgeKey(1, 5), EdgeKey(4, 0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := enc.End(); err != nil {
		t.Fatal(err)
	}
	b := Bytes(make([]uint64, (buf.Len()+7)/8))[:buf.Len()]
	copy(b, buf.Bytes())
	stripe, err := OpenStripe(b, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := stripe.verify(); err != nil {
		t.Fatal(err)
	}
	k, err := stripe.Bucket(0)
	if err != nil {
		t.Fatal(err)
	}
	k.Src16[1], k.Src16[2] = k.Src16[2], k.Src16[1] // of dst 1: 5, 2, 5
	if err := stripe.verify(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("src ids 5, 2, 5 of one dst: %v, expected damage", err)
	}
	// Written so, with checksums that fit, a file is damaged too, and each of its kind is looked into.
	fs := vfs.NewMem()
	w, err := Create(fs, "stripe.gsb", Header{Kind: Topology, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(0, stripe.Edges(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(fs, "stripe.gsb")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Verify(t.Context(), nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a file of it: %v, expected damage", err)
	}
}

// TestRunsAscend: equal dst ids of neighbouring runs are damage that Check names, with both.
func TestRunsAscend(t *testing.T) {
	k := Bucket{Edges: 3, Runs: 3, Starts: []uint64{7}, Dst16: []uint16{1, 5, 3}, Src16: []uint16{0, 0, 0}, DstNodes: 8, SrcNodes: 8}
	if err := k.Check(); err == nil || !strings.Contains(err.Error(), "dst of run 2 is 3, after 5") {
		t.Errorf("dst 1, 5, 3: %v", err)
	}
	for nodes, whole := range map[uint32]bool{6: true, 5: false} { // the last dst is the largest
		k := Bucket{Edges: 1, Runs: 1, Starts: []uint64{1}, Dst16: []uint16{5}, Src16: []uint16{0}, DstNodes: nodes, SrcNodes: 8}
		if err := k.Check(); (err == nil) != whole {
			t.Errorf("dst 5 of %d nodes: %v", nodes, err)
		}
	}
}

// TestBounds: the last value on each side of a bound.
func TestBounds(t *testing.T) {
	for n, want := range map[int64]string{1<<20 - 1: "1024.0 KiB", 1 << 20: "1.0 MiB", 1<<30 - 1: "1024.0 MiB", 1 << 30: "1.00 GiB"} {
		if got := SizeText(n); got != want {
			t.Errorf("%d bytes: %s, expected %s", n, got, want)
		}
	}
	for nodes, want := range map[uint32]int{NarrowNodesMax: 2, NarrowNodesMax + 1: 4} {
		if got := int(localBytes(nodes)); got != want {
			t.Errorf("ids of %d nodes take %d bytes, expected %d", nodes, got, want)
		}
	}
	h := Header{Kind: NodeColumn, Elem: Float32, Dim: 1, Name: strings.Repeat("n", NameBytesMax)}
	if err := h.Validate(); err != nil {
		t.Errorf("the longest name: %v", err)
	}
	if h.Name += "n"; h.Validate() == nil {
		t.Error("a longer name than the longest is valid")
	}
	for dim, valid := range map[uint32]bool{1: false, 2: true, 3: true, 4: false} {
		for elem, numbers := range map[ElemType]bool{Uint64: true, Int64: false} {
			h := Header{Kind: EdgeList, Elem: elem, Dim: dim, Partitions: 1}
			if err := h.Validate(); (err == nil) != (valid && numbers) {
				t.Errorf("an edge list of %d × %v: %v", dim, elem, err)
			}
		}
	}
}

// directoryOf makes the directory of a stripe of one bucket, whose bytes are what its counts say.
func directoryOf(edges uint64, runs, dstNodes, srcNodes uint32) (b []byte, length int64) {
	entry := func(offset, first uint64, runs, nodes uint32) {
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, offset), first)
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, runs), nodes)
	}
	at := BucketBytes(edges, runs, dstNodes, srcNodes)
	entry(0, 0, runs, srcNodes)
	entry(uint64(at), edges, 1, dstNodes)
	return b, at + DirectoryBytes(1)
}

// TestDirectoryCounts: runs and edges that contradict each other are damage, though all lengths agree.
func TestDirectoryCounts(t *testing.T) {
	for _, c := range []struct {
		edges      uint64
		runs, into uint32
		ok         bool
	}{{2, 2, 8, true}, {0, 0, 8, true}, {2, 3, 8, false}, {2, 0, 8, false}, {0, 1, 8, false}, {9, 9, 8, false}, {9, 8, 8, true}} {
		b, length := directoryOf(c.edges, c.runs, c.into, 8)
		if _, err := OpenDirectory(b, 1, length); (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d runs of %d edges into %d nodes: %v", c.runs, c.edges, c.into, err)
		}
	}
	good, length := directoryOf(2, 2, 8, 8)
	end := len(good) - 24 // of the last entry: offset, first, runs, nodes
	for name, change := range map[string]func(b []byte) ([]byte, int64){
		"too short":       func(b []byte) ([]byte, int64) { return b[:24], length },
		"too long":        func(b []byte) ([]byte, int64) { return append(b, b...), length },
		"a short stripe":  func(b []byte) ([]byte, int64) { return b, 47 },
		"another end":     func(b []byte) ([]byte, int64) { b[end]++; return b, length },
		"another count":   func(b []byte) ([]byte, int64) { b[end+16]++; return b, length },
		"begins later":    func(b []byte) ([]byte, int64) { b[0]++; return b, length },
		"an edge before":  func(b []byte) ([]byte, int64) { b[8]++; return b, length },
		"more edges":      func(b []byte) ([]byte, int64) { b[end+8] = 255; return b, length },
		"edges from none": func([]byte) ([]byte, int64) { return directoryOf(2, 2, 8, 0) },
	} {
		b, n := change(bytes.Clone(good))
		if _, err := OpenDirectory(b, 1, n); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, expected damage", name, err)
		}
	}
}

// TestDirectoryBegins: a directory whose first bucket begins behind the beginning is damage, though all differences agree; and so is
// a count of edges so large that the size of its bucket, reckoned in 64 bits, comes out as the bytes that are there.
func TestDirectoryBegins(t *testing.T) {
	le := binary.LittleEndian
	for name, shift := range map[string]struct{ offset, first uint64 }{"bytes": {offset: 8}, "edges": {first: 1}} {
		b, length := directoryOf(2, 2, 8, 8)
		for _, entry := range [][]byte{b, b[directoryEntryBytes:]} {
			le.PutUint64(entry, le.Uint64(entry)+shift.offset)
			le.PutUint64(entry[8:], le.Uint64(entry[8:])+shift.first)
		}
		if _, err := OpenDirectory(b, 1, length+int64(shift.offset)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s left out: %v, expected damage", name, err)
		}
	}
	const edges = 64 * ((1<<61 + 2) / 17) // edges/8 + 2·edges = 2⁶⁴ + 16
	if n := BucketBytes(edges, 1, 8, 8); n != 24 {
		t.Fatalf("a bucket of %d edges has %d bytes, expected 24: it does not wrap around", uint64(edges), n)
	}
	b, length := directoryOf(edges, 1, 8, 8)
	if _, err := OpenDirectory(b, 1, length); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%d edges in 24 bytes: %v, expected damage", uint64(edges), err)
	}
}

// TestVerifyUnaligned: a stripe whose memory cannot be looked into is told, not passed.
func TestVerifyUnaligned(t *testing.T) {
	var buf bytes.Buffer
	enc := NewStripeEncoder(&buf, []uint32{8})
	if err := errors.Join(enc.Begin(0), enc.Bucket(0, []uint64{EdgeKey(0, 3)})); err != nil {
		t.Fatal(err)
	}
	if _, err := enc.End(); err != nil {
		t.Fatal(err)
	}
	b := Bytes(make([]uint64, buf.Len()/8+2))[4:][:buf.Len()]
	copy(b, buf.Bytes())
	stripe, err := OpenStripe(b, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := stripe.verify(); !errors.Is(err, errUnaligned) {
		t.Errorf("four bytes beside: %v", err)
	}
}

// stripeOf encodes a stripe of one partition of n nodes, aligned.
func stripeOf(t *testing.T, nodes uint32, keys []uint64) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := NewStripeEncoder(&buf, []uint32{nodes})
	if err := errors.Join(enc.Begin(0), enc.Bucket(0, keys)); err != nil {
		t.Fatal(err)
	}
	if _, err := enc.End(); err != nil {
		t.Fatal(err)
	}
	b := Bytes(make([]uint64, (buf.Len()+7)/8))[:buf.Len()]
	copy(b, buf.Bytes())
	return b
}

// TestVerifyPadding: bytes that pad a bucket's lists must be 0.
func TestVerifyPadding(t *testing.T) {
	b := stripeOf(t, 8, []uint64{EdgeKey(0, 3), EdgeKey(1, 2)})
	stripe, err := OpenStripe(b, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := stripe.verify(); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{8 + 4, 8 + 7, 16 + 4, 16 + 7} { // behind two dst of 2 bytes, behind two src
		b[at] = 1
		if err := stripe.verify(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "padding") {
			t.Errorf("byte %d: %v, expected damage of the padding", at, err)
		}
		b[at] = 0
	}
}

// TestVerifyLargeStripe: a stripe may be longer than what columns are read by; an ended context ends verifying.
func TestVerifyLargeStripe(t *testing.T) {
	var keys []uint64
	for i := range uint32(verifyBytes / 2) {
		keys = append(keys, EdgeKey(i/1000, i%1000))
	}
	b := stripeOf(t, 10_000, keys)
	if len(b) <= verifyBytes {
		t.Fatalf("%d bytes, expected more than %d", len(b), verifyBytes)
	}
	fs := vfs.NewMem()
	w, err := Create(fs, "f", Header{Kind: Topology, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(0, uint64(len(keys)), b); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(fs, "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Verify(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

// TestVerifyColumn: of a column that is read in pieces, every read that fails is told as what it is, not as damage, and a context that
// ends between two pieces ends verifying.
func TestVerifyColumn(t *testing.T) {
	fs, injected := vfs.NewMem(), errors.New("injected")
	w, err := Create(fs, "f", Header{Kind: NodeColumn, Elem: Uint8, Dim: 1, Partitions: 1, Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(0, verifyBytes+10, make([]byte, verifyBytes+10)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	at := -1
	f, err := Open(errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt {
			if at--; at == -1 {
				return injected
			}
		}
		return nil
	})), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at = range 2 {
		if err := f.Verify(t.Context(), nil); !errors.Is(err, injected) || errors.Is(err, ErrCorrupt) {
			t.Errorf("a read fails: %v", err)
		}
	}
	if at = 2; f.Verify(t.Context(), nil) != nil || at != 0 {
		t.Fatalf("%d of two reads are missing", at)
	}
	at = -1
	ending, cancel := context.WithCancel(t.Context())
	if err := f.Verify(ending, func(int64) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ends after the first piece: %v", err)
	}
	damaged, err := fs.OpenReadWrite("f", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = damaged.WriteAt([]byte{1}, HeaderBytes+verifyBytes)
	if err := errors.Join(err, damaged.Close()); err != nil {
		t.Fatal(err)
	}
	if err := f.Verify(t.Context(), nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte of the second piece is another: %v, expected damage", err)
	}
}

// TestVerifyLargeExtents: extents that are decoded whole may be longer than what others are read by.
func TestVerifyLargeExtents(t *testing.T) {
	fs := vfs.NewMem()
	w, err := Create(fs, "ids.gsb", Header{Kind: ExternalIDs, Elem: Uint8, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	const n = verifyBytes/64 + 1000
	var ids []byte
	at := binary.LittleEndian.AppendUint64(nil, 0)
	for i := range n {
		ids = fmt.Appendf(ids, "%064d", i)
		at = binary.LittleEndian.AppendUint64(at, uint64(len(ids)))
	}
	if err := w.Append(0, n, append(at, ids...)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(fs, "ids.gsb")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestCorruptErrorNames: damage is told with the file, or as a file's where its name is not known.
func TestCorruptErrorNames(t *testing.T) {
	for path, want := range map[string]string{"": "block file: footer is corrupt: x", "a.gsb": "a.gsb: footer is corrupt: x"} {
		if got := (&CorruptError{Path: path, Extent: "footer", Offset: -1, Reason: "x"}).Error(); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
	if got := (&CorruptError{Path: "a.gsb", Extent: "footer", Offset: 0, Reason: "x"}).Error(); got != "a.gsb: footer at byte 0 is corrupt: x" {
		t.Error(got)
	}
}
