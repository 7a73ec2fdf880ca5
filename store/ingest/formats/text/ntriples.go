package text

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// nTriples is a file of RDF's N-Triples or N-Quads (W3C Recommendations, 2014), a statement on each line: subject, predicate, object, and of
// quads the graph, which is not looked at. A statement whose object is a resource or a blank node is an edge of the predicate's relation; one
// whose object is a literal, such as a name or a year, is none.
type nTriples struct {
	fs   vfs.FS
	path string
	o    table.Options
	bad  atomic.Int64
}

// OpenNTriples opens a file of N-Triples or N-Quads. The ids of nodes and the names of relations are the resources' addresses, without the
// angle brackets around them.
func OpenNTriples(fs vfs.FS, path string, o table.Options) (ingest.Source, error) {
	if o.Columns != nil || o.Header != nil || o.IDs != "" && o.IDs != store.IDsStrings {
		return nil, fmt.Errorf("%w: N-Triples have the fields that they have: --columns, --header and --ids do not go with them", ingest.ErrOptions)
	}
	n := &nTriples{fs: fs, path: path, o: o}
	text, err := firstLines(fs, path)
	if err != nil {
		return nil, err
	}
	literal := ""
	for number := 1; len(text) > 0; number++ {
		var line []byte
		line, text = NextLine(text)
		edge, object, err := statement(line)
		if err != nil && o.SkipBadMax == 0 {
			return nil, ingest.Inputf(fmt.Sprintf("%s: line %d", path, number), "%v", err)
		}
		if err == nil && object != nil && edge == nil && literal == "" {
			literal = string(object)
		}
	}
	s := parts.New("ntriples", path)
	s.AddFiles(path)
	s.Desc.IDs, s.Desc.HasRelation, s.Desc.Task = store.IDsStrings, true, store.TaskLink
	s.Desc.Uses = table.ColumnUses(path, []string{"subject", "predicate", "object"}, []string{"source", "relation", "destination"})
	if literal != "" {
		s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("statements of literals, such as %.60s, are left out", literal))
	}
	s.EdgeStreams = []parts.Edges{n.edges}
	return s, nil
}

func (n *nTriples) edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	n.bad.Store(0)
	batches, lines := make([]ingest.EdgeBatch, env.Threads), make([][]uint64, env.Threads)
	return parallelBlocks(ctx, env, n.fs, n.path, Dialect{}, func(worker int, b Block) error {
		e := &batches[worker]
		e.Src.Reset()
		e.Dst.Reset()
		e.RelationNames.Reset()
		at := lines[worker][:0]
		number := b.Line
		for rest := b.Data; len(rest) > 0; number++ {
			var line []byte
			line, rest = NextLine(rest)
			edge, _, err := statement(line)
			if err != nil {
				err = ingest.Inputf(fmt.Sprintf("%s: line %d", n.path, number), "%v", err)
				if n.bad.Add(1) > n.o.SkipBadMax {
					return err
				}
				if n.o.OnBad != nil {
					n.o.OnBad(err)
				}
				continue
			}
			if edge != nil {
				e.Src.Append(edge[0])
				e.RelationNames.Append(edge[1])
				e.Dst.Append(edge[2])
				at = append(at, number)
			}
		}
		lines[worker] = at
		if len(at) == 0 {
			return nil
		}
		e.At = ingest.Position{File: n.path, Unit: "line", Index: b.Line, Lines: at}
		return emit(worker, e)
	})
}

var errStatement = errors.New("expected <subject> <predicate> <object> . of N-Triples")

// statement is the edge of a line: subject, predicate and object; nil where the line is empty or a comment, and where its object is a literal.
func statement(line []byte) (edge [][]byte, object []byte, err error) {
	line = trim(line)
	if len(line) == 0 || line[0] == '#' {
		return nil, nil, nil
	}
	var terms [3][]byte
	rest := line
	for k := range terms {
		if terms[k], rest, err = term(rest, k == 2); err != nil {
			return nil, nil, err
		}
	}
	if len(rest) > 0 && rest[0] != '.' { // the graph of a quad
		if _, rest, err = term(rest, false); err != nil {
			return nil, nil, err
		}
	}
	if len(rest) == 0 || rest[0] != '.' || len(trim(rest[1:])) > 0 && trim(rest[1:])[0] != '#' {
		return nil, nil, fmt.Errorf("column %d: %.40q, %w", len(line)-len(rest)+1, rest, errStatement)
	}
	if terms[2][0] == '"' {
		return nil, terms[2], nil
	}
	for k, t := range terms {
		if t[0] == '<' {
			terms[k] = t[1 : len(t)-1]
		}
		if len(terms[k]) == 0 {
			return nil, nil, fmt.Errorf("an empty address, %w", errStatement)
		}
	}
	return terms[:], terms[2], nil
}

// term cuts the first term off b, and the blanks behind it. A literal is cut with its language or its type.
func term(b []byte, literal bool) (t, rest []byte, err error) {
	end := -1
	switch {
	case len(b) == 0:
	case b[0] == '<':
		end = bytes.IndexByte(b, '>') + 1
	case b[0] == '_' && len(b) > 1 && b[1] == ':':
		if end = bytes.IndexAny(b, " \t"); end < 0 {
			end = len(b)
		}
		if b[end-1] == '.' { // the end of the line, without a blank before it
			end--
		}
	case b[0] == '"' && literal:
		for end = 1; end < len(b) && b[end] != '"'; end++ {
			if b[end] == '\\' {
				end++
			}
		}
		if end++; end > len(b) {
			end = -1
			break
		}
		if end < len(b) && b[end] == '@' {
			for end < len(b) && b[end] != ' ' && b[end] != '\t' && b[end] != '.' {
				end++
			}
		} else if bytes.HasPrefix(b[end:], []byte("^^<")) {
			if n := bytes.IndexByte(b[end:], '>'); n > 0 {
				end += n + 1
			}
		}
	}
	if end <= 0 {
		return nil, nil, fmt.Errorf("%.40q, %w", b, errStatement)
	}
	return b[:end], trim(b[end:]), nil
}
