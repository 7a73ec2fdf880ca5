package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/scratch"
	"github.com/gstore/gstore/store/ingest/source"
)

// columnScatter carries rows that arrive by ascending dense id to their
// partitions' extents. Within a partition internal ids ascend with dense ids, so each
// extent grows front to back: a buffer of whole chunks a partition is all it takes, every
// byte is written once, and the source is read once (or once for each
// group of partitions whose buffers fit the budget).
type columnScatter struct {
	w        *blocks.ScatterWriter
	layout   *edges.Layout
	places   *edges.Places
	rowBytes int
	threads  int
	// stored says which rows of a partition its extent has; nil = all. The others must be blank.
	stored []store.NodeRows
	blank  []byte

	lo, hi  int      // partitions of this pass
	mem     []byte   // off the Go heap
	buffers [][]byte // of partitions lo ≤ p < hi
	fill    []int    // bytes in each buffer
	written []int64  // bytes of the extent already in the file
}

const columnBufferMax = 1 << 20

// columnPasses plans buffers for a budget: the bytes of one buffer and the partitions a pass serves.
func columnPasses(memory int64, partitions int, extentMax int64) (buffer int, perPass int) {
	most := min(int64(columnBufferMax), (extentMax+blocks.ChunkBytes-1)/blocks.ChunkBytes*blocks.ChunkBytes)
	each := memory / int64(partitions) / blocks.ChunkBytes * blocks.ChunkBytes
	each = max(blocks.ChunkBytes, min(each, most))
	return int(each), max(1, min(partitions, int(memory/each)))
}

// begin opens a pass over partitions lo ≤ p < hi with buffers of the given size.
func (c *columnScatter) begin(lo, hi, buffer int) error {
	scratch.Free(c.mem)
	mem, err := scratch.Alloc(int64(hi-lo) * int64(buffer))
	if err != nil {
		return fmt.Errorf("column buffers: %w", err)
	}
	c.mem, c.lo, c.hi = mem, lo, hi
	c.buffers = make([][]byte, hi-lo)
	for i := range c.buffers {
		c.buffers[i] = mem[i*buffer : (i+1)*buffer : (i+1)*buffer]
	}
	c.fill, c.written = make([]int, hi-lo), make([]int64, hi-lo)
	return nil
}

// Add takes the rows of ids first, first+1, …
func (c *columnScatter) add(first uint64, rows []byte) error {
	n := len(rows) / c.rowBytes
	if len(rows) < 1<<18 || c.threads == 1 {
		return c.addShare(first, rows, n, 0, 1)
	}
	errs := make([]error, c.threads)
	var wg panics.Group
	for t := range c.threads {
		wg.Go(func() { errs[t] = c.addShare(first, rows, n, t, c.threads) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// addShare takes the rows of every of-th partition, beginning with the share-th.
func (c *columnScatter) addShare(first uint64, rows []byte, n, share, of int) error {
	for i := range n {
		place := c.places.Of(first + uint64(i))
		p := int(place >> c.layout.LocalBits)
		if p < c.lo || p >= c.hi || p%of != share {
			continue
		}
		row := rows[i*c.rowBytes : (i+1)*c.rowBytes]
		if c.stored != nil && !c.stored[p].Stored(place&(1<<c.layout.LocalBits-1)) {
			if !bytes.Equal(row, c.blank) {
				return errOtherTypes
			}
			continue
		}
		if err := c.append(p-c.lo, row); err != nil {
			return err
		}
	}
	return nil
}

func (c *columnScatter) append(k int, b []byte) error {
	for len(b) > 0 {
		n := copy(c.buffers[k][c.fill[k]:], b)
		c.fill[k] += n
		b = b[n:]
		if c.fill[k] == len(c.buffers[k]) {
			if err := c.flush(k); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *columnScatter) flush(k int) error {
	if c.fill[k] == 0 {
		return nil
	}
	err := c.w.WriteChunks(c.lo+k, c.written[k], c.buffers[k][:c.fill[k]])
	c.written[k] += int64(c.fill[k])
	c.fill[k] = 0
	return err
}

// end closes a pass.
func (c *columnScatter) end() error {
	for k := range c.buffers {
		if err := c.flush(k); err != nil {
			return err
		}
	}
	return nil
}

// errOtherTypes says that a column of one node type has values for nodes of others.
var errOtherTypes = errors.New("ingest: values of other node types")

// Streamed says what a stream of rows holds: those of source ids first ≤ id < end, of column. Where its extents are runs of a type's rows,
// they are kept of what is streamed.
type Streamed struct {
	Column     store.ColumnInfo
	first, end uint64
}

// EveryNode is the rows of a column of all nodes.
func (r *Job) EveryNode(c store.ColumnInfo) Streamed { return Streamed{Column: c, end: r.Layout.Nodes} }

// rowStream yields the rows of consecutive dense ids in ascending order.
type rowStream func(ctx context.Context, emit func(first uint64, rows []byte) error) error

// NodeFile writes one file of an extent a partition, of rows streamed by
// dense id, and returns its reference.
func (r *Job) NodeFile(ctx context.Context, base string, h blocks.Header, of Streamed, stream rowStream) (ref store.FileRef, err error) {
	h.Partitions = uint32(r.FirstPart + r.Layout.Partitions())
	name, id := r.Writer.NewFile(base)
	h.FileID = id
	row := h.RowBytes()
	sizes := make([]blocks.ExtentSize, r.Layout.Partitions())
	largest := int64(0)
	var stored []store.NodeRows
	for p, n := range r.Layout.Sizes {
		if of.Column.Runs {
			stored = append(stored, r.Manifest.NodeRows(&of.Column, store.PartitionID(p)))
			n = uint32(stored[p].Rows)
		}
		sizes[p] = blocks.ExtentSize{ID: uint64(r.FirstPart + p), Bytes: row * int64(n), Rows: uint64(n)}
		largest = max(largest, sizes[p].Bytes)
	}
	w, err := blocks.CreateScatter(r.Writer.FS(), r.Writer.DataPath(name), h, sizes)
	if err != nil {
		return ref, err
	}
	defer func() {
		if err != nil {
			_ = w.Abort()
		}
	}()
	c := &columnScatter{w: w, layout: r.Layout, places: r.Places, rowBytes: int(row), threads: r.Options.Threads, stored: stored, blank: MissingRow(&of.Column)}
	defer func() { scratch.Free(c.mem) }()
	buffer, per := columnPasses(r.Budget.columns, len(sizes), largest)
	for lo := 0; lo < len(sizes); lo += per {
		if err := c.begin(lo, min(lo+per, len(sizes)), buffer); err != nil {
			return ref, err
		}
		next := of.first
		err := stream(ctx, func(first uint64, rows []byte) error {
			if first != next || uint64(len(rows))%uint64(row) != 0 {
				return fmt.Errorf("column %s: rows of node %d, expected %d", h.Name, first, next)
			}
			next += uint64(len(rows)) / uint64(row)
			if next > of.end {
				return fmt.Errorf("column %s: %d rows for %d nodes", h.Name, next-of.first, of.end-of.first)
			}
			r.Tick(int64(len(rows)) / row)
			return c.add(first, rows)
		})
		if err == nil && next != of.end {
			err = fmt.Errorf("column %s: %d rows for %d nodes", h.Name, next-of.first, of.end-of.first)
		}
		if err == nil {
			err = c.end()
		}
		if err != nil {
			return ref, err
		}
	}
	info, err := w.Close()
	return store.Ref(name, info), err
}

// FillRows streams n default rows from id first.
func FillRows(ctx context.Context, first, n uint64, row []byte, emit func(first uint64, rows []byte) error) error {
	if n == 0 {
		return nil
	}
	per := uint64(max(1, (1<<18)/len(row)))
	block := make([]byte, 0, int(min(per, n))*len(row))
	for range min(per, n) {
		block = append(block, row...)
	}
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		k := min(per, n)
		if err := emit(first, block[:k*uint64(len(row))]); err != nil {
			return err
		}
		first, n = first+k, n-k
	}
	return nil
}

// Column writes the node column c of the source.
func (r *Job) Column(ctx context.Context, c int) error {
	spec := r.Desc.NodeColumns[c]
	conv, err := r.Converter(ctx, c)
	if err != nil {
		return err
	}
	r.Phase("column "+spec.Name, "rows", int64(r.Layout.Nodes))
	of := r.EveryNode(store.ColumnInfo{Name: spec.Name, Role: spec.Role, Elem: conv.Elem, Dim: conv.dim(), NodeType: spec.NodeType})
	if old := r.Like[spec.Name]; old != nil {
		of.Column.NodeType, of.Column.Runs = old.NodeType, old.Runs
	}
	if follows, err := r.followsTypes(ctx, c); err != nil {
		return err
	} else if follows {
		of.Column.Runs = true
		r.Manifest.Columns = append(r.Manifest.Columns, of.Column)
		return nil
	}
	h := blocks.Header{Kind: blocks.NodeColumn, Elem: conv.Elem, Dim: uint32(conv.dim()), Name: spec.Name}
	if spec.Keyed {
		if bytes.Equal(conv.missing, MissingRow(&of.Column)) { // see below
			of = r.ofType(of, 0, r.Layout.Nodes)
		}
		ref, err := r.keyedColumn(ctx, c, conv, of)
		if err != nil {
			return err
		}
		r.AddColumn(spec, conv, of.Column, ref)
		return nil
	}
	covered := uint64(spec.Rows)
	if spec.Rows < 0 {
		covered = r.Layout.Nodes - spec.First
	}
	if spec.First > r.Layout.Nodes || spec.First+covered > r.Layout.Nodes {
		return source.Inputf(r.Desc.Input, "column %s has %d rows from node %d, expected at most %d nodes", spec.Name, covered, spec.First, r.Layout.Nodes)
	}
	if bytes.Equal(conv.missing, MissingRow(&of.Column)) { // else rows of other types are not blank, but means
		of = r.ofType(of, spec.First, spec.First+covered)
	}
	stream := func(ctx context.Context, emit func(uint64, []byte) error) error {
		if err := FillRows(ctx, of.first, spec.First-of.first, conv.missing, emit); err != nil {
			return err
		}
		next := spec.First
		conv.filled = 0
		out := []byte(nil)
		err := r.Source.Rows(ctx, r.Env(), c, func(rows []byte, at source.Position) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := len(rows) / spec.RowBytes()
			if next+uint64(n) > spec.First+covered {
				return source.Inputf(at.Of(0), "column %s has more than %d rows", spec.Name, covered)
			}
			var err error
			if out, err = conv.Convert(out[:0], rows, at); err != nil {
				return err
			}
			first := next
			next += uint64(n)
			return emit(first, out)
		})
		if err != nil {
			return err
		}
		if next != spec.First+covered {
			return source.Inputf(r.Desc.Input, "column %s has %d rows, expected %d", spec.Name, next-spec.First, covered)
		}
		return FillRows(ctx, next, of.end-next, conv.missing, emit)
	}
	ref, err := r.NodeFile(ctx, FileBase(spec.Name), h, of, stream)
	if errors.Is(err, errOtherTypes) { // of a store that is moved: nodes were appended to it with columns of several types
		of.Column.Runs = false
		ref, err = r.NodeFile(ctx, FileBase(spec.Name), h, of, stream)
	}
	if err != nil {
		return err
	}
	r.AddColumn(spec, conv, of.Column, ref)
	return nil
}

// AddColumn lists a written node column in the manifest.
func (r *Job) AddColumn(spec source.ColumnSpec, conv *Converter, c store.ColumnInfo, ref store.FileRef) {
	if text := conv.scaleNote(); text != "" {
		r.note("%s", text)
	}
	if text := conv.standardNote(r.Options.Normalize); text != "" && r.Like[spec.Name] == nil {
		r.note("%s", text)
	}
	if conv.filled > 0 {
		r.note("%d values of %s were missing: --missing %s", conv.filled, spec.Name, conv.rule)
	}
	r.Manifest.Files = append(r.Manifest.Files, ref)
	c.Scale, c.Standard, c.Elements, c.Missing, c.Files = conv.scale, conv.standard, spec.Elements, uint64(conv.filled), []string{ref.Name}
	c.Categories = spec.Values
	if conv.labelling != nil {
		r.describeLabels(&c, conv)
	}
	r.Manifest.Columns = append(r.Manifest.Columns, c)
}

// describeLabels says in column and schema what labels are.
func (r *Job) describeLabels(c *store.ColumnInfo, conv *Converter) {
	schema := &r.Manifest.Schema
	if conv.spec.Dim > 1 {
		c.Elements = nil // are the labels' names
	}
	switch l := conv.labelling; {
	case l.numbers:
		c.Numbers = true
	case l.sets != nil:
		if c.Sets = l.sets.bits; c.Sets != nil {
			schema.Classes, schema.ClassNames = l.sets.labels, l.sets.names
		}
	default:
		schema.Classes = max(schema.Classes, int(conv.LabelMax)+1)
		if n := len(r.Desc.ClassNames); n > 0 {
			schema.Classes, schema.ClassNames = n, r.Desc.ClassNames
		}
	}
}

// fileBaseMax is the longest part of a file name that a column's name becomes; what is longer is
// told apart by a hash.
const fileBaseMax = 150

// FileBase turns a column's name into part of a file name.
func FileBase(name string) string {
	b := []byte("column-")
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			b = append(b, c)
		default: // distinct names give distinct files
			b = append(b, fmt.Sprintf("%%%02x", c)...)
		}
	}
	if len(b) > fileBaseMax {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		b = append(b[:fileBaseMax-17], fmt.Sprintf("-%016x", h.Sum64())...)
	}
	return string(b)
}
