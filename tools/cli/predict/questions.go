package predict

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/gstore/gstore/gpu/eval"
	opts "github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// asked stands for what a question asks for.
const asked = "?"

// questions is what is asked, found to be sound, in an unlinked file of 16 bytes each: node, relation, 1 where heads are asked for.
type questions struct {
	table *spill.Table
	n     uint64
}

const questionBytes = 16

// questionsBatch is how many lines are looked up together.
const questionsBatch = 4096

// lineMax bounds a line of input, in bytes.
const lineMax = 1 << 20

// readQuestions reads what is asked; links says that it is links, not nodes. The caller closes them.
func (p *prediction) readQuestions(ctx context.Context, links bool) (q *questions, err error) {
	lines, from := io.Reader(nil), "the command line"
	switch {
	case len(p.args) > 0 && links:
		lines = strings.NewReader(strings.Join(p.args, "\t"))
	case len(p.args) > 0:
		lines = strings.NewReader(strings.Join(p.args, "\n"))
	case p.input == "" || p.input == "-":
		lines, from = p.env.Stdin, "standard input"
		if f, ok := p.env.Stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			what := "ids"
			if links {
				what = "questions such as: head relation ?"
			}
			fmt.Fprintf(p.env.Stderr, "gstore: reading %s, one a line, until Ctrl-D\n", what)
		}
	default:
		f, err := os.Open(p.input)
		if err != nil {
			return nil, fmt.Errorf("--input: %w", err)
		}
		defer func() { _ = f.Close() }() // read only
		lines, from = f, p.input
	}
	q = &questions{}
	if q.table, err = spill.New(0, questionBytes, false, p.st.ScratchDir()); err != nil {
		return nil, err
	}
	r := &questionReader{p: p, from: from, q: q, links: links, relations: map[string]store.RelationID{}}
	for i, x := range p.st.Manifest().Schema.Relations {
		r.relations[x.Name] = store.RelationID(i)
	}
	sc := bufio.NewScanner(lines)
	sc.Buffer(make([]byte, 0, 64<<10), lineMax)
	for n := 1; err == nil && sc.Scan(); n++ {
		if line := strings.TrimSuffix(sc.Text(), "\r"); strings.TrimSpace(line) != "" {
			err = r.line(ctx, n, line)
		}
	}
	if err == nil {
		err = sc.Err()
	}
	if err == nil {
		err = r.flush(ctx)
	}
	if err == nil && q.n == 0 {
		err = command.Usagef("%s asks for nothing", from)
	}
	if err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

// questionReader turns lines into questions.
type questionReader struct {
	p         *prediction
	from      string
	links     bool
	relations map[string]store.RelationID
	q         *questions

	names []string // of the nodes of lines that are not written yet
	lines []int
	found []eval.Question // their relations and sides
}

// line takes a line of input.
func (r *questionReader) line(ctx context.Context, n int, line string) error {
	name, k := strings.TrimSpace(line), eval.Question{}
	if r.links {
		var err error
		if name, k, err = r.triple(line); err != nil {
			return r.bad(n, "%v", err)
		}
	}
	r.names, r.lines, r.found = append(r.names, name), append(r.lines, n), append(r.found, k)
	if len(r.names) < questionsBatch {
		return nil
	}
	return r.flush(ctx)
}

// bad says what is wrong with a line: a usage error on the command line.
func (r *questionReader) bad(n int, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if len(r.p.args) > 0 {
		return command.Usagef("%s", what)
	}
	return fmt.Errorf("%s, line %d: %s", r.from, n, what)
}

// triple reads head, relation, tail.
func (r *questionReader) triple(line string) (name string, k eval.Question, err error) {
	fields := strings.Split(line, "\t")
	if len(fields) < 2 {
		fields = strings.Fields(line)
	}
	switch only := r.p.relation; {
	case len(fields) == 2 && only != "": // the one that the model predicts
		fields = []string{fields[0], only, fields[1]}
	case len(fields) == 2 && len(r.relations) == 1: // the only relation
		fields = []string{fields[0], r.p.st.Manifest().Schema.Relations[0].Name, fields[1]}
	case len(fields) == 3 && only != "" && fields[1] != only:
		return "", k, fmt.Errorf("%q: the model predicts relation %s alone", line, only)
	}
	if len(fields) != 3 || (fields[0] == asked) == (fields[2] == asked) {
		return "", k, fmt.Errorf("%q: expected head, relation and tail, one end of them ? for what is asked, with tabs between if names have blanks", line)
	}
	relation, ok := r.relations[fields[1]]
	if !ok {
		var names []string
		for _, x := range r.p.st.Manifest().Schema.Relations {
			names = append(names, x.Name)
		}
		const few = 12
		hint := fmt.Sprintf("gstore inspect %s --json lists all %d", r.p.st.Dir(), len(names))
		if len(names) <= few {
			hint = fmt.Sprintf("it has %q", names)
		}
		if near := opts.Nearest(fields[1], names); near != "" {
			hint = "did you mean " + near + "?"
		}
		return "", k, fmt.Errorf("the store has no relation %q: %s", fields[1], hint)
	}
	k.Relation, k.Heads, name = relation, fields[0] == asked, fields[0]
	if k.Heads {
		name = fields[2]
	}
	return name, k, nil
}

// flush looks the nodes up and writes the questions.
func (r *questionReader) flush(ctx context.Context) error {
	ids := make([]store.NodeID, len(r.names))
	if err := r.p.st.LookupTexts(ctx, r.names, ids); err != nil {
		return err
	}
	if i := slices.Index(ids, store.NoNode); i >= 0 {
		return r.bad(r.lines[i], "the store has no node %q", r.names[i])
	}
	var b []byte
	for i, k := range r.found {
		side := uint32(0)
		if k.Heads {
			side = 1
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(ids[i]))
		b = binary.LittleEndian.AppendUint32(b, uint32(k.Relation))
		b = binary.LittleEndian.AppendUint32(b, side)
	}
	if err := r.q.table.Write(b, r.q.n); err != nil {
		return err
	}
	r.q.n += uint64(len(r.found))
	r.names, r.lines, r.found = r.names[:0], r.lines[:0], r.found[:0]
	return nil
}

// each calls f with the questions, at most batch at a time; first is the number of the first of them, from 0.
func (q *questions) each(batch int, f func(first uint64, list []eval.Question) error) error {
	var list []eval.Question
	var b []byte
	for at := uint64(0); at < q.n; at += uint64(len(list)) {
		n := int(min(uint64(batch), q.n-at))
		b = slices.Grow(b[:0], n*questionBytes)[:n*questionBytes]
		if err := q.table.Read(b, at); err != nil {
			return err
		}
		list = list[:0]
		for r := b; len(r) > 0; r = r[questionBytes:] {
			list = append(list, eval.Question{Node: store.NodeID(binary.LittleEndian.Uint64(r)), Relation: store.RelationID(binary.LittleEndian.Uint32(r[8:])), Heads: r[12] == 1})
		}
		if err := f(at, list); err != nil {
			return err
		}
	}
	return nil
}

func (q *questions) close() {
	if q != nil {
		q.table.Close()
	}
}
