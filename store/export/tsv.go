package export

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// tsvSink writes tab-separated text with a header line:
//
//	edges.tsv: src, dst, relation (its name), then the other edge columns
//	train.tsv, NAME.tsv: head, relation, tail, without a header line  (knowledge graphs)
//	edges_NAME.tsv                                                   (edge lists of others)
//	nodes.tsv: id, then the columns; splits by name, rows of several numbers as NAME.0, NAME.1, …
type tsvSink struct{ x *exporter }

type tsvEdges struct {
	*file
	c         *cursor
	relations []string
	triples   bool
	columns   []*store.ColumnInfo
	line      []byte
}

func (s *tsvSink) edges(name string, _ uint64) (edgeSink, error) {
	x := s.x
	columns, relation := x.edgeColumns()
	e := &tsvEdges{triples: x.triples()}
	if relation != nil {
		e.relations = x.relationNames()
		for _, r := range e.relations {
			if err := plainText([]byte(r), "\t\n\r"); err != nil {
				return nil, err
			}
		}
	}
	file := "edges"
	switch {
	case e.triples && name == "":
		file = "train"
	case e.triples:
		file = fileName(name)
	case name == "":
		e.columns = columns
	default:
		file = "edges_" + fileName(name)
	}
	file += ".tsv"
	if name == "" {
		if !e.triples {
			x.edgeFields = x.edgeFieldsOf(true, e.columns, relation != nil)
		}
	} else {
		file = x.out.free(strings.TrimSuffix(file, ".tsv"), ".tsv")
	}
	var err error
	if e.file, err = x.out.create(file); err != nil {
		return nil, err
	}
	e.c = e.cursor(0)
	if e.triples {
		return e, nil
	}
	e.line = append(e.line, "src\tdst"...)
	if relation != nil {
		e.line = append(e.line, "\trelation"...)
	}
	for _, c := range e.columns {
		e.line = appendNames(e.line, c.Name, c.Dim)
	}
	if _, err := e.c.Write(append(e.line, '\n')); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// appendNames appends a tab and a name for each number of a row.
func appendNames(line []byte, name string, dim int) []byte {
	if dim == 1 {
		return append(append(line, '\t'), name...)
	}
	for d := range dim {
		line = fmt.Appendf(line, "\t%s.%d", name, d)
	}
	return line
}

func (e *tsvEdges) add(b *edgeBatch) error {
	end := func(line []byte, ints []uint64, text [][]byte, i int) ([]byte, error) {
		if text == nil {
			return strconv.AppendUint(line, ints[i], 10), nil
		}
		return append(line, text[i]...), plainText(text[i], "\t\n\r")
	}
	for i := range b.len() {
		var err error
		line := e.line[:0]
		if line, err = end(line, b.Src, b.SrcText, i); err != nil {
			return err
		}
		line = append(line, '\t')
		if e.triples {
			line = append(append(line, e.relations[b.Relations[i]]...), '\t')
		}
		if line, err = end(line, b.Dst, b.DstText, i); err != nil {
			return err
		}
		if e.relations != nil && !e.triples {
			line = append(append(line, '\t'), e.relations[b.Relations[i]]...)
		}
		for c, info := range e.columns {
			w := info.RowBytes()
			line = appendNumbers(line, info.Elem, b.Columns[c][i*w:(i+1)*w])
		}
		e.line = append(line, '\n')
		if _, err := e.c.Write(e.line); err != nil {
			return err
		}
	}
	e.rows += uint64(b.len())
	return nil
}

// appendNumbers appends each element of b after a tab, as short as reads back the same.
func appendNumbers(line []byte, t blocks.ElemType, b []byte) []byte {
	le := binary.LittleEndian
	for size := t.Size(); len(b) >= size; b = b[size:] {
		line = append(line, '\t')
		switch t {
		case blocks.Float32:
			line = strconv.AppendFloat(line, float64(math.Float32frombits(le.Uint32(b))), 'g', -1, 32)
		case blocks.Float64, blocks.Float16, blocks.BFloat16:
			line = strconv.AppendFloat(line, t.Float64(b), 'g', -1, 64)
		case blocks.Uint64:
			line = strconv.AppendUint(line, le.Uint64(b), 10)
		case blocks.Int64:
			line = strconv.AppendInt(line, int64(le.Uint64(b)), 10)
		default:
			line = strconv.AppendInt(line, int64(t.Float64(b)), 10)
		}
	}
	return line
}

type tsvNodes struct {
	*file
	c       *cursor
	columns []converter
	line    []byte
	values  [][]byte
}

func (s *tsvSink) nodes(columns []NodeColumn) (nodeSink, error) {
	n := &tsvNodes{values: make([][]byte, len(columns)), line: []byte("id")}
	var err error
	if n.file, err = s.x.out.create("nodes.tsv"); err != nil {
		return nil, err
	}
	n.c = n.cursor(0)
	s.x.nodeFields = fieldsOf([]string{"id"}, true, columns)
	for i := range columns {
		n.columns = append(n.columns, converter{c: &columns[i], to: columns[i].output(false)})
		n.line = appendNames(n.line, columns[i].Name, columns[i].Dim)
	}
	if _, err := n.c.Write(append(n.line, '\n')); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *tsvNodes) add(b *nodeBatch) error {
	for c := range n.columns {
		n.values[c] = n.columns[c].rows(b.Rows[c])
	}
	parts := store.SplitNames()
	for i := range b.N {
		line := n.line[:0]
		if b.Ints != nil {
			line = strconv.AppendUint(line, b.Ints[i], 10)
		} else {
			id := b.text(i)
			if err := plainText(id, "\t\n\r"); err != nil {
				return err
			}
			line = append(line, id...)
		}
		for c := range n.columns {
			k := &n.columns[c]
			w := k.c.Dim * k.to.Size()
			row := n.values[c][i*w : (i+1)*w]
			if k.c.Role == store.RoleSplit && int(row[0]) < len(parts) {
				line = append(append(line, '\t'), parts[row[0]]...)
				continue
			}
			line = appendNumbers(line, k.to, row)
		}
		n.line = append(line, '\n')
		if _, err := n.c.Write(n.line); err != nil {
			return err
		}
	}
	n.file.rows += uint64(b.N)
	return nil
}
