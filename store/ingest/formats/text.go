package formats

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/gstore/gstore/store/ingest"
)

// lineBytesMax is the longest line that is believed to be one.
const lineBytesMax = 16 << 20

// textBlock is a run of whole lines of a file.
type textBlock struct {
	data []byte
	line uint64 // number of the first one, from 1
}

// eachBlock reads path front to back and hands blocks of whole records of d, the last
// of which may lack its newline, to fn. A block is fn's until it gives it back on free.
func eachBlock(ctx context.Context, fs vfs.FS, path string, d dialect, free chan []byte, fn func(b textBlock) error) (err error) {
	f, err := openText(fs, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	line := uint64(1)
	var rest []byte // the beginning of a line whose end was not read yet
	for {
		var buf []byte
		select {
		case buf = <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
		buf = append(buf[:0], rest...)
		if len(buf)+readBytes/2 > cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)+readBytes), buf...)
		}
		n, err := io.ReadFull(f, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		whole := len(buf)
		if !last {
			whole = d.wholeRecords(buf)
		}
		if len(buf)-whole > lineBytesMax {
			line += uint64(bytes.Count(buf[:whole], []byte{'\n'}))
			if d.quotes {
				return ingest.Inputf(path, "line %d is longer than %d bytes; perhaps a quote is not closed (--quotes no takes quotes for text)", line, lineBytesMax)
			}
			return ingest.Inputf(path, "line %d is longer than %d bytes", line, lineBytesMax)
		}
		rest = append(rest[:0], buf[whole:]...)
		block := textBlock{data: buf[:whole], line: line}
		line += uint64(bytes.Count(block.data, []byte{'\n'}))
		if err := fn(block); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}

// parallelBlocks parses path's blocks on env.Threads goroutines.
func parallelBlocks(ctx context.Context, env ingest.Env, fs vfs.FS, path string, d dialect, parse func(worker int, b textBlock) error) error {
	g, ctx := errgroup.WithContext(ctx)
	free := make(chan []byte, 2*env.Threads+1)
	for range cap(free) {
		free <- make([]byte, 0, readBytes)
	}
	work := make(chan textBlock, env.Threads)
	g.Go(func() error {
		defer close(work)
		return eachBlock(ctx, fs, path, d, free, func(b textBlock) error {
			select {
			case work <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	for worker := range env.Threads {
		g.Go(func() error {
			for b := range work {
				if err := parse(worker, b); err != nil {
					return err
				}
				free <- b.data[:0]
			}
			return nil
		})
	}
	return g.Wait()
}

// serialBlocks parses path's blocks in order.
func serialBlocks(ctx context.Context, fs vfs.FS, path string, d dialect, parse func(b textBlock) error) error {
	free := make(chan []byte, 1)
	free <- make([]byte, 0, readBytes)
	return eachBlock(ctx, fs, path, d, free, func(b textBlock) error {
		err := parse(b)
		free <- b.data[:0]
		return err
	})
}

// nextLine cuts the first line off b, without its end.
func nextLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		line, rest = b[:i], b[i+1:]
	} else {
		line = b
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, rest
}

// streamLines streams the lines of a file as strings.
func streamLines(ctx context.Context, fs vfs.FS, path string, emit func(*ingest.IDs, ingest.Position) error) error {
	var ids ingest.IDs
	return serialBlocks(ctx, fs, path, dialect{}, func(b textBlock) error {
		ids.Reset()
		for rest := b.data; len(rest) > 0; {
			var line []byte
			line, rest = nextLine(rest)
			ids.Append(line)
		}
		if ids.Len() == 0 {
			return nil
		}
		return emit(&ids, ingest.Position{File: path, Unit: "line", Index: b.line})
	})
}

// parseUint parses a decimal number; the whole of b must be one.
func parseUint(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	x := uint64(0)
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 {
			return 0, false
		}
		if len(b) == 20 && (x > (1<<64-1)/10 || x*10 > 1<<64-1-d) {
			return 0, false
		}
		x = x*10 + d
	}
	return x, true
}
