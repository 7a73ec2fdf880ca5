// Package text reads lines of fields: edge lists, knowledge-graph triples, tables with a header, OpenKE's files of
// numbered triples. Files are cut into blocks of whole lines that several threads parse. The first lines tell the
// delimiter, whether quotes are a program's, and whether there is a header; what they leave open is asked of the user.
package text

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
)

// lineBytesMax is the longest line that is believed to be one.
const lineBytesMax = 16 << 20

// Block is a run of whole lines of a file.
type Block struct {
	Data []byte
	Line uint64 // number of the first one, from 1
}

// eachBlock reads path front to back and hands blocks of whole records of d, the last
// of which may lack its newline, to fn. A block is fn's until it gives it back on free.
func eachBlock(ctx context.Context, fs vfs.FS, path string, d Dialect, free chan []byte, fn func(b Block) error) (err error) {
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
		if len(buf)+files.ReadBytes/2 > cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)+files.ReadBytes), buf...)
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
		block := Block{Data: buf[:whole], Line: line}
		line += uint64(bytes.Count(block.Data, []byte{'\n'}))
		if err := fn(block); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}

// parallelBlocks parses path's blocks on env.Threads goroutines.
func parallelBlocks(ctx context.Context, env ingest.Env, fs vfs.FS, path string, d Dialect, parse func(worker int, b Block) error) error {
	g, ctx := panics.WithContext(ctx)
	free := make(chan []byte, 2*env.Threads+1)
	for range cap(free) {
		free <- make([]byte, 0, files.ReadBytes)
	}
	work := make(chan Block, env.Threads)
	g.Go(func() error {
		defer close(work)
		return eachBlock(ctx, fs, path, d, free, func(b Block) error {
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
				free <- b.Data[:0]
			}
			return nil
		})
	}
	return g.Wait()
}

// SerialBlocks parses path's blocks in order.
func SerialBlocks(ctx context.Context, fs vfs.FS, path string, d Dialect, parse func(b Block) error) error {
	free := make(chan []byte, 1)
	free <- make([]byte, 0, files.ReadBytes)
	return eachBlock(ctx, fs, path, d, free, func(b Block) error {
		err := parse(b)
		free <- b.Data[:0]
		return err
	})
}

// NextLine cuts the first line off b, without its end.
func NextLine(b []byte) (line, rest []byte) {
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

// StreamLines streams the lines of a file as strings.
func StreamLines(ctx context.Context, fs vfs.FS, path string, emit func(*ingest.IDs, ingest.Position) error) error {
	var ids ingest.IDs
	return SerialBlocks(ctx, fs, path, Dialect{}, func(b Block) error {
		ids.Reset()
		for rest := b.Data; len(rest) > 0; {
			var line []byte
			line, rest = NextLine(rest)
			ids.Append(line)
		}
		if ids.Len() == 0 {
			return nil
		}
		return emit(&ids, ingest.Position{File: path, Unit: "line", Index: b.Line})
	})
}
