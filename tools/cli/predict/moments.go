package predict

import (
	"context"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/temporal"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// moments answers where nodes' next edges lead, by a model of edges at moments.
func (p *prediction) moments(ctx context.Context, path string) error {
	switch {
	case p.nearest != "":
		return command.Usagef("--nearest is not for models of edges at moments, which %s is", path)
	case len(p.args) == 0 && p.input == "":
		return command.Usagef("name the nodes whose next edges are asked for, behind the store or in --input")
	}
	cp, err := temporal.LoadFile(path)
	if err != nil {
		return err
	}
	q, err := p.readQuestions(ctx, false)
	if err != nil {
		return err
	}
	defer q.close()
	var nodes []store.NodeID
	if err := q.each(answersBatch, func(_ uint64, list []eval.Question) error {
		for _, k := range list {
			nodes = append(nodes, k.Node)
		}
		return nil
	}); err != nil {
		return err
	}
	names, _, err := p.names()
	if err != nil {
		return err
	}
	defer names.Close()
	id := column{name: "node", kind: words, wide: 16}
	if p.st.Manifest().IDs.Kind != store.IDsStrings {
		id.kind, id.wide = integers, 10
	}
	next := id
	next.name = "next"
	out, err := p.open([]column{id, {"rank", integers, 1}, next, {"score", numbers, 10}})
	if err != nil {
		return err
	}
	cfg := cp.Config
	cfg.Threads, cfg.MemoryBytes = p.threads, int64(p.mem)
	err = temporal.Predict(ctx, p.st, p.dev, cp, cfg, nodes, p.top, func(i int, answers []temporal.Answer) error {
		asked := []store.NodeID{nodes[i]}
		for _, a := range answers {
			asked = append(asked, a.Node)
		}
		ints, strings, err := names.Of(ctx, asked)
		if err != nil {
			return err
		}
		name := func(k int) any {
			if ints != nil {
				return ints[k]
			}
			return string(strings[k])
		}
		for rank, a := range answers {
			if err := out.add(name(0), uint64(rank+1), name(rank+1), a.Score); err != nil {
				return err
			}
		}
		return nil
	})
	if err = out.end(err); err != nil {
		return err
	}
	p.finish(out.n)
	return nil
}
