package export

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/parquets"
	"github.com/gstore/gstore/store"
)

// parquetSink writes Parquet files, compressed by Snappy:
//
//	edges.parquet: src, dst (int64 or string), relation (string), then the other edge columns
//	edges_NAME.parquet: an edge list
//	nodes.parquet: id, then the columns; splits by name, rows of several numbers as lists
type parquetSink struct{ x *exporter }

// parquetGroupBytes is about how much of all columns a row group holds, which is what the
// library keeps in memory.
const parquetGroupBytes = 32 << 20

// parquetValues is the most values handed to the library at once: 24 bytes each.
const parquetValues = 1 << 14

// parquetFile is one file: columns are appended to in turn, rows of a batch at a time.
type parquetFile struct {
	*file
	w       *parquet.GenericWriter[any]
	group   parquets.Group
	columns []*parquet.ColumnWriter
	values  []parquet.Value
	bytes   int64 // since the last row group
	limit   int64
}

// column declares the next column.
func (p *parquetFile) column(name string, node parquet.Node) error {
	if !p.group.Add(name, node) {
		return fmt.Errorf("%w: two Parquet columns are called %q", ErrOptions, name)
	}
	return nil
}

// numbers declares a column of rows of dim numbers.
func (p *parquetFile) numbers(name string, t blocks.ElemType, dim int) error {
	node, err := parquetNode(t)
	if err == nil && dim > 1 {
		node = parquet.List(node)
	}
	if err != nil {
		return err
	}
	return p.column(name, node)
}

func parquetNode(t blocks.ElemType) (parquet.Node, error) {
	switch t {
	case blocks.Float32, blocks.Float16, blocks.BFloat16:
		return parquet.Leaf(parquet.FloatType), nil
	case blocks.Float64:
		return parquet.Leaf(parquet.DoubleType), nil
	case blocks.Int8:
		return parquet.Int(8), nil
	case blocks.Uint8:
		return parquet.Uint(8), nil
	case blocks.Uint16:
		return parquet.Uint(16), nil
	case blocks.Int32:
		return parquet.Int(32), nil
	case blocks.Uint32:
		return parquet.Uint(32), nil
	case blocks.Int64:
		return parquet.Int(64), nil
	case blocks.Uint64:
		return parquet.Uint(64), nil
	}
	return nil, fmt.Errorf("%w: no Parquet type for %v", ErrOptions, t)
}

// create makes the file; declare names its columns.
func (s *parquetSink) create(name string, declare func(p *parquetFile) error) (_ *parquetFile, err error) {
	p := &parquetFile{limit: min(parquetGroupBytes, s.x.room/8)}
	if err := declare(p); err != nil {
		return nil, err
	}
	if p.file, err = s.x.out.create(name + ".parquet"); err != nil {
		return nil, err
	}
	p.w = parquet.NewGenericWriter[any](p.cursor(0), parquet.NewSchema("gstore", &p.group), parquet.Compression(&parquet.Snappy),
		parquet.CreatedBy("gstore", "", ""))
	p.columns = p.w.ColumnWriters()
	return p, nil
}

// put appends n rows of per values each to column c.
func (p *parquetFile) put(c, n, per int, value func(row, k int) parquet.Value) error {
	step := max(1, parquetValues/per)
	for at := 0; at < n; at += step {
		p.values = p.values[:0]
		for row := at; row < min(at+step, n); row++ {
			for k := range per {
				v := value(row, k)
				if per > 1 {
					v = v.Level(min(k, 1), 1, c)
				} else {
					v = v.Level(0, 0, c)
				}
				p.values = append(p.values, v)
				if v.Kind() == parquet.ByteArray {
					p.bytes += int64(len(v.ByteArray()))
				}
			}
		}
		p.bytes += 8 * int64(len(p.values))
		if _, err := p.columns[c].WriteRowValues(p.values); err != nil {
			return fmt.Errorf("export %s: %w", p.name, err)
		}
	}
	return nil
}

// putNumbers appends n rows of dim numbers.
func (p *parquetFile) putNumbers(c, n, dim int, t blocks.ElemType, rows []byte) error {
	size, le := t.Size(), binary.LittleEndian
	return p.put(c, n, dim, func(row, k int) parquet.Value {
		b := rows[(row*dim+k)*size:]
		switch t {
		case blocks.Float32:
			return parquet.FloatValue(math.Float32frombits(le.Uint32(b)))
		case blocks.Float16, blocks.BFloat16:
			return parquet.FloatValue(float32(t.Float64(b)))
		case blocks.Float64:
			return parquet.DoubleValue(t.Float64(b))
		case blocks.Int64, blocks.Uint64:
			return parquet.Int64Value(int64(le.Uint64(b)))
		}
		return parquet.Int32Value(int32(int64(t.Float64(b)))) // unsigned ones by their bits
	})
}

// putIDs appends integer or string ids.
func (p *parquetFile) putIDs(c, n int, ints []uint64, text func(i int) []byte) error {
	return p.put(c, n, 1, func(row, _ int) parquet.Value {
		if ints != nil {
			return parquet.Int64Value(int64(ints[row]))
		}
		return parquet.ByteArrayValue(text(row))
	})
}

// end ends a batch of n rows.
func (p *parquetFile) end(n int) error {
	p.rows += uint64(n)
	if p.bytes < p.limit {
		return nil
	}
	p.bytes = 0
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("export %s: %w", p.name, err)
	}
	return nil
}

func (p *parquetFile) close() error {
	return errors.Join(p.w.Close(), p.file.close())
}

// idNode is the type of external ids.
func (s *parquetSink) idNode() parquet.Node {
	switch s.x.m.IDs.Kind {
	case store.IDsStrings:
		return parquet.String()
	case store.IDsIntegers:
		return parquet.Uint(64)
	}
	return parquet.Int(64)
}

type parquetEdges struct {
	*parquetFile
	relations []string
	columns   []*store.ColumnInfo
}

func (s *parquetSink) edges(name string, _ uint64) (edgeSink, error) {
	e := &parquetEdges{}
	columns, relation := s.x.edgeColumns()
	if relation != nil {
		e.relations = s.x.relationNames()
	}
	file := "edges"
	if name != "" {
		file = strings.TrimSuffix(s.x.out.free("edges_"+fileName(name), ".parquet"), ".parquet")
	} else {
		e.columns = columns
		s.x.edgeFields = s.x.edgeFieldsOf(false, columns, relation != nil)
	}
	var err error
	e.parquetFile, err = s.create(file, func(p *parquetFile) error {
		errs := []error{p.column("src", s.idNode()), p.column("dst", s.idNode())}
		if relation != nil {
			errs = append(errs, p.column("relation", parquet.Encoded(parquet.String(), &parquet.RLEDictionary)))
		}
		for _, c := range e.columns {
			errs = append(errs, p.numbers(c.Name, c.Elem, c.Dim))
		}
		return errors.Join(errs...)
	})
	return e, err
}

func (e *parquetEdges) add(b *edgeBatch) error {
	n := b.len()
	at := 0
	next := func() int { at++; return at - 1 }
	if err := e.putIDs(next(), n, b.Src, func(i int) []byte { return b.SrcText[i] }); err != nil {
		return err
	}
	if err := e.putIDs(next(), n, b.Dst, func(i int) []byte { return b.DstText[i] }); err != nil {
		return err
	}
	if e.relations != nil {
		c := next()
		if err := e.put(c, n, 1, func(i, _ int) parquet.Value { return parquet.ByteArrayValue([]byte(e.relations[b.Relations[i]])) }); err != nil {
			return err
		}
	}
	for k, info := range e.columns {
		if err := e.putNumbers(next(), n, info.Dim, info.Elem, b.Columns[k]); err != nil {
			return err
		}
	}
	return e.end(n)
}

type parquetNodes struct {
	*parquetFile
	columns []converter
}

func (s *parquetSink) nodes(columns []NodeColumn) (nodeSink, error) {
	n := &parquetNodes{}
	s.x.nodeFields = fieldsOf([]string{"id"}, false, columns)
	for i := range columns {
		n.columns = append(n.columns, converter{c: &columns[i], to: columns[i].output(false)})
	}
	var err error
	n.parquetFile, err = s.create("nodes", func(p *parquetFile) error {
		errs := []error{p.column("id", s.idNode())}
		for _, k := range n.columns {
			if k.c.Role == store.RoleSplit {
				errs = append(errs, p.column(k.c.Name, parquet.Encoded(parquet.String(), &parquet.RLEDictionary)))
			} else {
				errs = append(errs, p.numbers(k.c.Name, k.to, k.c.Dim))
			}
		}
		return errors.Join(errs...)
	})
	return n, err
}

func (n *parquetNodes) add(b *nodeBatch) error {
	if err := n.putIDs(0, b.N, b.Ints, b.text); err != nil {
		return err
	}
	parts := store.SplitNames()
	for c := range n.columns {
		k := &n.columns[c]
		var err error
		if rows := k.rows(b.Rows[c]); k.c.Role == store.RoleSplit {
			err = n.put(c+1, b.N, 1, func(i, _ int) parquet.Value {
				return parquet.ByteArrayValue([]byte(parts[min(int(rows[i]), len(parts)-1)]))
			})
		} else {
			err = n.putNumbers(c+1, b.N, k.c.Dim, k.to, rows)
		}
		if err != nil {
			return err
		}
	}
	return n.end(b.N)
}
