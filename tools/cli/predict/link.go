package predict

import (
	"context"
	"errors"
	"fmt"

	"github.com/schollz/progressbar/v3"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/export"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/models"
)

// answersBatch bounds the answers whose names are looked up together.
const answersBatch = 1 << 16

// parquetBytes is what the library takes beside a program that writes text.
const parquetBytes = 24 << 20

// link answers questions for links, or similar nodes, by a table of embeddings.
func (p *prediction) link(ctx context.Context) (err error) {
	if p.nearest == "" && len(p.args) == 1 {
		return command.Usagef("%q: expected head, relation and tail, one end of them ? for what is asked, or --nearest cosine for similar nodes", p.args[0])
	}
	t, run, err := models.OpenTrained(ctx, p.st, p.table, p.checkpoint)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	p.relation = run.Config.Relation
	p.which = fmt.Sprintf("table %s, checkpoint %d, after %d epochs", run.Config.Table, t.LastCheckpoint().Number, run.Epochs)
	names, held, err := p.names()
	if err != nil {
		return err
	}
	defer names.Close()
	m, err := link.Open(ctx, p.st, p.dev, t, run, eval.RankerOptions{MemoryBytes: int64(p.mem), Threads: p.threads, Top: p.top}, held...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	q, err := p.readQuestions(ctx, p.nearest == "")
	if err != nil {
		return err
	}
	defer q.close()
	o := eval.FinderOptions{Kind: p.nearest, Unknown: p.filter == filterKnown}
	done := p.env.Working("computing all nodes' states")
	f, err := m.Find(ctx, o)
	done()
	if err != nil {
		return err
	}
	defer f.Close()
	err = p.answer(ctx, q, f, names)
	p.read = m.BytesRead()
	return err
}

// progress starts a bar, unless the answers go where it would be drawn.
func (p *prediction) progress(total int64, what string) *progressbar.ProgressBar {
	if p.out == "" {
		return progressbar.NewOptions64(total, progressbar.OptionSetVisibility(false))
	}
	return p.env.Progress(total, what)
}

// names opens the finder of external ids, and says what it and the output hold.
func (p *prediction) names() (_ *export.Names, held []budget.Holder, err error) {
	least, err := export.NamesBytes(p.st)
	if err != nil {
		return nil, nil, err
	}
	held = []budget.Holder{{Name: "ids", Bytes: least}}
	if p.format == formatParquet {
		held = append(held, budget.Holder{Name: "parquet", Bytes: parquetBytes})
	}
	for _, h := range held {
		p.heldBytes += h.Bytes
	}
	room := int64(1 << 28)
	if p.mem > 0 {
		room = 0
	}
	return export.OpenNames(p.st, room), held, nil
}

// answer writes the answers to all questions.
func (p *prediction) answer(ctx context.Context, q *questions, f *eval.Finder, names *export.Names) error {
	id := column{name: "node", kind: words, wide: 16}
	if p.st.Manifest().IDs.Kind != store.IDsStrings {
		id.kind, id.wide = integers, 10
	}
	of := func(name string) column { c := id; c.name = name; return c }
	var columns []column
	if p.nearest == "" {
		columns = []column{{"question", integers, 1}, {"rank", integers, 1}, of("head"), {"relation", words, 12}, of("tail"), {"score", numbers, 10}}
	} else {
		columns = []column{of("node"), {"rank", integers, 1}, of("nearest"), {p.nearest, numbers, 10}}
	}
	out, err := p.open(columns)
	if err != nil {
		return err
	}
	bar := p.progress(int64(q.n), "questions")
	relations := p.st.Manifest().Schema.Relations
	err = q.each(max(1, min(f.Batch(), answersBatch/p.top)), func(first uint64, list []eval.Question) error {
		answers, err := f.Ask(ctx, list)
		if err != nil {
			return err
		}
		var nodes []store.NodeID
		for i, k := range list {
			nodes = append(nodes, k.Node)
			for _, a := range answers[i] {
				nodes = append(nodes, a.Node)
			}
		}
		ints, strings, err := names.Of(ctx, nodes)
		if err != nil {
			return err
		}
		name := func(i int) any {
			if ints != nil {
				return ints[i]
			}
			return string(strings[i])
		}
		at := 0
		for i, k := range list {
			own := at
			at++
			for rank, a := range answers[i] {
				head, tail := name(own), name(at)
				at++
				switch {
				case p.nearest != "":
					err = out.add(head, uint64(rank+1), tail, a.Score)
				case k.Heads:
					head, tail = tail, head
					fallthrough
				default:
					err = out.add(first+uint64(i)+1, uint64(rank+1), head, relations[k.Relation].Name, tail, a.Score)
				}
				if err != nil {
					return err
				}
			}
		}
		return bar.Add(len(list))
	})
	_ = bar.Finish()
	if err = out.end(err); err != nil {
		return err
	}
	p.finish(out.n)
	return nil
}
