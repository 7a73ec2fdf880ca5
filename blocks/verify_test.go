package blocks

import (
	"bytes"
	"errors"
	"testing"
)

// TestVerifyOrder: within a run of one dst, src ids that fall are damage; the same one twice, and a smaller one in the next
// run, are not.
func TestVerifyOrder(t *testing.T) {
	var buf bytes.Buffer
	enc := NewRowEncoder(&buf, []uint32{8})
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
	row, err := OpenRow(b, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := row.verify(); err != nil {
		t.Fatal(err)
	}
	k, err := row.Bucket(0)
	if err != nil {
		t.Fatal(err)
	}
	k.Src16[1], k.Src16[2] = k.Src16[2], k.Src16[1] // of dst 1: 5, 2, 5
	if err := row.verify(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("src ids 5, 2, 5 of one dst: %v, expected damage", err)
	}
}
