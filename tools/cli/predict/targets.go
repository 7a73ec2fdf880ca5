package predict

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/export"
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
	if cp.Task.Kind == database.Recommendation {
		return p.recommend(ctx, cp, cfg, asked, questions)
	}
	for _, name := range []string{"top", "filter"} {
		if slices.Contains(p.changed, name) {
			return command.Usagef("--%s is for models that recommend rows, and %s predicts %s", name, path, cp.Task.Target)
		}
	}
	done := p.env.Working("predicting")
	answers, err := targets.Predict(ctx, p.st, p.dev, cp, cfg, questions)
	done()
	if err != nil {
		return err
	}
	out, err := p.open(targetColumns(&cp.Task))
	if err != nil {
		return err
	}
	each := max(len(cp.Task.Classes), 1)
	for i, key := range asked.Keys {
		row := []any{p.key(key), moment(asked.Times[i])}
		if err = out.add(append(row, targetValues(&cp.Task, answers[i*each:(i+1)*each])...)...); err != nil {
			break
		}
	}
	if err = out.end(err); err != nil {
		return err
	}
	p.finish(out.n)
	return nil
}

// recommend answers which rows of a table are best for those that are asked about, a row to each.
func (p *prediction) recommend(ctx context.Context, cp *targets.Checkpoint, cfg targets.Config, asked *database.Targets, questions []targets.Question) error {
	names, _, err := p.names()
	if err != nil {
		return err
	}
	defer names.Close()
	top := cp.Task.K
	if slices.Contains(p.changed, "top") {
		top = p.top
	}
	done := p.env.Working("predicting")
	answers, err := targets.Recommend(ctx, p.st, p.dev, cp, cfg, questions, top, p.filter == filterKnown)
	done()
	if err != nil {
		return err
	}
	out, err := p.open([]column{{cp.Task.Entity, words, 12}, {cp.Task.Time, words, 19}, {"rank", integers, 4}, {cp.Task.Target, words, 12}, {"score", numbers, 10}})
	if err != nil {
		return err
	}
	for i, list := range answers {
		if err = p.recommended(ctx, out, names, p.key(asked.Keys[i]), moment(asked.Times[i]), list); err != nil {
			break
		}
	}
	if err = out.end(err); err != nil {
		return err
	}
	p.finish(out.n)
	return nil
}

// recommended writes what is recommended for an entity at a moment.
func (p *prediction) recommended(ctx context.Context, out *rows, names *export.Names, entity, at string, list []targets.Recommended) error {
	var nodes []store.NodeID
	for _, r := range list {
		nodes = append(nodes, r.Node)
	}
	_, ids, err := names.Of(ctx, nodes)
	if err != nil {
		return err
	}
	for k, r := range list {
		if err := out.add(entity, at, uint64(k+1), p.key(string(ids[k])), r.Score); err != nil {
			return err
		}
	}
	return nil
}

// moment is a time as answers have it.
func moment(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.DateTime) }

// targetColumns are what is answered: the target, of a classification of several with its probability and that of each class, which tables for
// people leave out.
func targetColumns(t *database.Task) []column {
	columns := []column{{t.Entity, words, 12}, {t.Time, words, 19}, {t.Target, numbers, 10}}
	switch t.Kind {
	case database.Multiclass:
		columns[2] = column{t.Target, words, 16}
		columns = append(columns, column{"probability", numbers, 11})
	case database.Multilabel:
		columns[2] = column{t.Target, words, 24}
	}
	for _, c := range t.Classes {
		columns = append(columns, column{"p_" + c, numbers, 0})
	}
	return columns
}

// targetValues are the values of those of an answer.
func targetValues(t *database.Task, answer []float32) (values []any) {
	switch t.Kind {
	case database.Multiclass:
		best := slices.Index(answer, slices.Max(answer))
		values = append(values, t.Classes[best], answer[best])
	case database.Multilabel:
		var said []string
		for k, p := range answer {
			if p > .5 {
				said = append(said, t.Classes[k])
			}
		}
		values = append(values, strings.Join(said, "|"))
	}
	for _, x := range answer {
		values = append(values, x)
	}
	return values
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
		if asked, err = task.ReadFile(ctx, p.rows); err != nil {
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
