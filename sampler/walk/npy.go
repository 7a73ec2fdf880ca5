package walk

import (
	"context"
	"io"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
)

// chunkBytes of walks are in memory at once, as far as one is not longer.
const chunkBytes = 4 << 20

// WriteNPY writes all walks to out as a .npy array int64 [Len, Length]. each, if not nil, is told how many were written so far.
func (w *Walks) WriteNPY(ctx context.Context, out io.Writer, each func(walks uint64)) error {
	if _, err := out.Write(npy.Append(nil, blocks.Int64, false, w.Len(), uint64(w.o.Length))); err != nil {
		return err
	}
	chunk := make([]int64, max(1, chunkBytes/8/w.o.Length)*w.o.Length)
	for at := uint64(0); at < w.Len(); {
		n := min(uint64(len(chunk)/w.o.Length), w.Len()-at)
		part := chunk[:n*uint64(w.o.Length)]
		if err := w.Read(ctx, at, part); err != nil {
			return err
		}
		if _, err := out.Write(blocks.Bytes(part)); err != nil {
			return err
		}
		if at += n; each != nil {
			each(at)
		}
	}
	return nil
}
