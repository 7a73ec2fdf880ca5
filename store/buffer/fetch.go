package buffer

import (
	"context"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
)

const (
	fetchers   = 8       // requests at a time for what lies elsewhere
	fetchBytes = 4 << 20 // of each
)

// aheadBytes is how much may be fetched before its turn of files that lie elsewhere ([blockio.Elsewhere]); 0 if none does.
func (s *source) aheadBytes() (most int64) {
	for _, f := range s.files {
		most = max(most, blockio.AheadBytes(f.io))
	}
	return most
}

// fetchAhead is the goroutine that has fetched, in the order of the plan, what lies elsewhere: the buffer has room for one step more, a
// disk for many. What fails is met again by who reads it.
func (it *Buffer) fetchAhead(ctx context.Context, most int64) error {
	type piece struct {
		file         blockio.File
		offset, size int64
	}
	pieces := make(chan piece)
	ctx, stop := context.WithCancel(ctx)
	var group panics.Group
	defer group.Wait()
	defer stop()
	for range fetchers {
		group.Go(func() {
			defer stop() // one that panics must not leave the others' work undone
			for {
				select {
				case p := <-pieces:
					_ = blockio.Fetch(p.file, p.offset, p.size)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	type begun struct{ seq, bytes int64 }
	var under []begun // steps that are not loaded yet
	ahead := int64(0)
	fetch := func(seq int64, x *extentRef, from, to int64) bool {
		for ; from < to; from += fetchBytes {
			size := min(fetchBytes, to-from)
			ok := it.pipe.wait(func() bool {
				for len(under) > 0 && under[0].seq < it.pipe.loaded {
					ahead -= under[0].bytes
					under = under[1:]
				}
				return len(under) == 0 || ahead+size <= most
			})
			if !ok {
				return false
			}
			select {
			case pieces <- piece{x.f.io, x.e.Offset + from, size}:
			case <-ctx.Done():
				return false
			}
			ahead += size
			if n := len(under); n > 0 && under[n-1].seq == seq {
				under[n-1].bytes += size
			} else {
				under = append(under, begun{seq, size})
			}
		}
		return true
	}
	for seq := int64(0); ; seq++ {
		s := it.pipe.step(seq)
		if s == nil {
			return ctx.Err()
		}
		for _, l := range s.loads {
			for _, x := range it.src.columnExtents(l.part) {
				if !fetch(seq, x, 0, blocks.AlignUp(x.e.Length)) {
					return ctx.Err()
				}
			}
		}
		for _, es := range planTopology(it.src, it.layout, &it.o, s).staged() {
			for i := range es {
				for _, sp := range es[i].spans {
					if !fetch(seq, es[i].x, sp.from, sp.to) {
						return ctx.Err()
					}
				}
			}
		}
	}
}
