package predict

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/tools/cli/command"
)

// entities answers what a training table asked of rows of a database, by a model of targets: of those that are named, by their keys, or those
// of a table.
func (p *prediction) entities(ctx context.Context, path string) error {
	if p.nearest != "" {
		return command.Usagef("--nearest is not for models of targets of rows, which %s is", path)
	}
	if p.input != "" {
		return command.Usagef("--input is not for models of targets of rows: --entities takes a table (CSV, TSV, Parquet) with their keys")
	}
	if len(p.args) > 0 == (p.rows != "") {
		return command.Usagef("name the rows that are asked about, by their keys behind the store, or in a table by --entities")
	}
	cp, err := targets.LoadFile(path)
	if err != nil {
		return err
	}
	asked, err := p.askedRows(ctx, &cp.Task)
	if err != nil {
		return err
	}
	ids := make([]store.NodeID, len(asked.Keys))
	if err := p.st.LookupStrings(ctx, asked.Keys, ids); err != nil {
		return err
	}
	questions := make([]targets.Question, len(ids))
	for i, id := range ids {
		if id == store.NoNode {
			return fmt.Errorf("%w: table %s has no row of key %q", store.ErrNotFound, cp.Table, p.key(asked.Keys[i]))
		}
		questions[i] = targets.Question{Node: id, Moment: asked.Times[i]}
	}
	cfg := cp.Config
	cfg.Threads, cfg.MemoryBytes = p.threads, int64(p.mem)
	done := p.env.Working("predicting")
	answers, err := targets.Predict(ctx, p.st, p.dev, cp, cfg, questions)
	done()
	if err != nil {
		return err
	}
	out, err := p.open([]column{{cp.Task.Entity, words, 12}, {cp.Task.Time, words, 19}, {cp.Task.Target, numbers, 10}})
	if err != nil {
		return err
	}
	for i, a := range answers {
		if err = out.add(p.key(asked.Keys[i]), time.Unix(asked.Times[i], 0).UTC().Format(time.DateTime), a); err != nil {
			break
		}
	}
	if err = out.end(err); err != nil {
		return err
	}
	p.finish(out.n)
	return nil
}

// key is a row's key without its table.
func (p *prediction) key(id string) string {
	_, key, _ := strings.Cut(id, ":")
	return key
}

// askedRows are the rows that are asked about and when: each at --at, or at its own time in their table.
func (p *prediction) askedRows(ctx context.Context, task *database.Task) (asked *database.Targets, err error) {
	at, err := targets.ParseMoment(p.at)
	if err != nil {
		return nil, command.Usagef("--at: %v", err)
	}
	asked = &database.Targets{}
	if p.rows != "" {
		if asked, err = task.ReadFile(ctx, p.rows, false); err != nil {
			return nil, err
		}
	}
	for _, key := range p.args {
		asked.Keys, asked.Times = append(asked.Keys, task.Table+":"+strings.TrimPrefix(key, task.Table+":")), append(asked.Times, math.MaxInt64)
	}
	for i := range asked.Times {
		if p.at != "" {
			asked.Times[i] = at
		}
		if asked.Times[i] == math.MaxInt64 {
			return nil, command.Usagef("--at says as of when to predict: a date such as 2026-11-01 (a table of --entities may have a column %q instead)", task.Time)
		}
	}
	return asked, nil
}
