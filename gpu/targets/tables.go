package targets

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// tables are the parts of a training table.
type tables struct {
	task               *database.Task
	train, valid, test *database.Targets
}

func readTables(ctx context.Context, dir string) (t tables, err error) {
	if dir == "" {
		return t, store.Invalid(errors.New("train: targets of rows: no training table: --targets names its folder"))
	}
	if t.task, err = database.OpenTask(nil, dir); err != nil {
		return t, err
	}
	if t.train, err = t.task.Read(ctx, "train"); err == nil {
		if t.valid, err = t.task.Read(ctx, "valid"); err == nil {
			t.test, err = t.task.Read(ctx, "test")
		}
	}
	return t, err
}

// words counts what stands in targets that are words.
func (t *tables) words() (n int) {
	for _, p := range []*database.Targets{t.train, t.valid, t.test} {
		for _, words := range p.Words {
			n += 1 + len(words)
		}
	}
	return n
}

func (t *tables) rows() int { return len(t.train.Keys) + len(t.valid.Keys) + len(t.test.Keys) }

// checkTask says whether a store has the tables that a task is about.
func checkTask(m *store.Manifest, t *database.Task) error {
	var names []string
	for _, n := range m.Schema.NodeTypes {
		names = append(names, n.Name)
	}
	for _, of := range []struct{ what, table string }{{"the entities are", t.Table}, {"what is recommended are", t.Items}} {
		if of.table != "" && !slices.Contains(names, of.table) {
			return fmt.Errorf("train: targets of rows: %w: %s rows of table %q, and the store's tables are %q", store.ErrInvalid, of.what, of.table, names)
		}
	}
	return nil
}
