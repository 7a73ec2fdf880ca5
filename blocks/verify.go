package blocks

import (
	"context"
	"fmt"
	"math"
)

// verifyBytes is how much Verify reads at once: a multiple of ChunkBytes.
const verifyBytes = 4 << 20

// Verify reads the whole file and checks every byte of it: chunk checksums,
// padding, and the invariants of its kind (ids in range and in order). The
// header and footer were checked when the file was opened. It holds the
// largest stripe of a Topology file in memory, otherwise 4 MiB; progress, if not nil, is told
// bytes as they pass. It returns the first damage, in file order.
func (f *File) Verify(ctx context.Context, progress func(n int64)) error {
	if progress == nil {
		progress = func(int64) {}
	}
	longest := int64(0)
	for _, e := range f.foot.extents {
		longest = max(longest, AlignUp(e.Length))
	}
	if f.header.Kind != Topology && !f.header.strings() {
		longest = min(longest, verifyBytes)
	}
	buf := alignedBytes(int(longest))
	for _, e := range f.foot.extents {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.header.Kind == Topology || f.header.strings() {
			b := buf[:AlignUp(e.Length)]
			if err := f.readAt(b, e.Offset, f.header.ExtentName(e.ID)); err != nil {
				return err
			}
			if err := f.VerifyExtent(e, b); err != nil {
				return err
			}
			progress(int64(len(b)))
			continue
		}
		for from := int64(0); from < e.Length; {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := buf[:min(verifyBytes, AlignUp(e.Length-from))]
			if err := f.readAt(b, e.Offset+from, f.header.ExtentName(e.ID)); err != nil {
				return err
			}
			if err := f.VerifyPart(e, from, b); err != nil {
				return err
			}
			from += int64(len(b))
			progress(int64(len(b)))
		}
	}
	return nil
}

// VerifyExtent checks one whole extent that the caller has read with its
// padding: checksums, padding, and the invariants of the file's kind. It is
// [File.Verify] for callers with an engine of their own. b must begin at a
// multiple of 8 in memory.
func (f *File) VerifyExtent(e Extent, b []byte) error {
	if int64(len(b)) != AlignUp(e.Length) {
		return fmt.Errorf("verify %s: %d bytes of %s, expected %d", f.path, len(b), f.header.ExtentName(e.ID), AlignUp(e.Length))
	}
	if err := f.VerifyPart(e, 0, b); err != nil {
		return err
	}
	return locate(f.verifyContents(e, b[:e.Length]), f.path, f.header.ExtentName(e.ID), e.Offset)
}

// VerifyPart checks checksums and padding of an extent's bytes from offset
// from, a multiple of ChunkBytes; b ends at a chunk's end or with the padding.
// It is for callers who read in pieces; contents are not looked at.
func (f *File) VerifyPart(e Extent, from int64, b []byte) error {
	if err := f.CheckChunks(e, from, b); err != nil {
		return err
	}
	for i := e.Length - from; i < int64(len(b)); i++ {
		if b[i] != 0 {
			return &CorruptError{Path: f.path, Extent: f.header.ExtentName(e.ID), Offset: e.Offset + from + i,
				Reason: fmt.Sprintf("padding byte is %#02x, expected 0", b[i])}
		}
	}
	return nil
}

// verifyContents checks what the kind promises of a payload.
func (f *File) verifyContents(e Extent, b []byte) error {
	switch {
	case f.header.strings():
		_, err := OpenStrings(b, e.Rows)
		return err
	case f.header.Kind == Topology:
		stripe, err := OpenStripe(b, f.header.Partitions)
		if err != nil {
			return err
		}
		if stripe.Edges() != e.Rows {
			return corruptf("directory", -1, "it counts %d edges, the footer %d", stripe.Edges(), e.Rows)
		}
		if e.ID < uint64(f.header.Partitions) && stripe.SrcNodes(int(e.ID)) != stripe.DstNodes() {
			return corruptf("directory", -1, "the partition has %d nodes as dst and %d as src", stripe.DstNodes(), stripe.SrcNodes(int(e.ID)))
		}
		return stripe.verify()
	}
	return nil
}

// verify checks every bucket wholly, the padding within it included.
func (r *Stripe) verify() error {
	for i := range r.partitions {
		k, err := r.Bucket(i)
		if err != nil {
			return err
		}
		if err := k.Check(); err != nil {
			return err
		}
		lastDst, lastSrc := int64(-1), int64(math.MaxInt64)
		for d, s := range k.All() {
			if int64(d) == lastDst && int64(s) < lastSrc {
				return k.corruptf("src %d after %d of dst %d", s, lastSrc, d)
			}
			lastDst, lastSrc = int64(d), int64(s)
		}
		from, to := r.Range(i, i+1)
		if err := k.verifyPadding(r.b[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// verifyPadding checks the zeros after the dst and src lists.
func (k *Bucket) verifyPadding(b []byte) error {
	if k.Edges == 0 {
		return nil
	}
	at := int64(8 * len(k.Starts))
	for _, used := range []int64{int64(k.Runs) * localBytes(k.DstNodes), int64(k.Edges) * localBytes(k.SrcNodes)} {
		for _, c := range b[at+used : at+pad8(used)] {
			if c != 0 {
				return k.corruptf("padding byte is %#02x, expected 0", c)
			}
		}
		at += pad8(used)
	}
	return nil
}
