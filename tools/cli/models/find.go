// Package models finds what training left in a store, and writes and reads models of other programs: safetensors beside a
// description.
package models

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/store/table"
	"github.com/gstore/gstore/tools/cli/command"
)

// File is where run n's model of node classification lies by default.
func File(dir string, n uint64) string {
	return filepath.Join(dir, store.RunsDir, store.ModelFile(n))
}

// CheckpointFlag adds --checkpoint of commands that use a model.
func CheckpointFlag(fs *pflag.FlagSet, checkpoint *string) {
	fs.StringVar(checkpoint, "checkpoint", "", "model file, exported model (its folder or .safetensors file; Python's gstore.save_model writes such of PyTorch's), or the number of a run of this store (default: the run that was best on validation nodes); link prediction: number of a checkpoint that the table keeps")
}

// held says which runs of a store have models.
func held(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, store.RunsDir, "*"+store.ModelExtension))
	var runs []int
	for _, f := range files {
		if n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(f), store.ModelExtension)); err == nil {
			runs = append(runs, n)
		}
	}
	if len(runs) == 0 {
		return "no run has one"
	}
	slices.Sort(runs)
	return fmt.Sprintf("of runs %v there are models", runs)
}

// Find returns the path of a model of node classification or of edges at moments and says which one it is: checkpoint is a file or folder of [Load] or a run's number, or ""
// for the run that was best on validation nodes, of the store's version if one was trained on it.
func Find(ctx context.Context, st *store.Store, checkpoint string) (path, which string, err error) {
	dir := st.Dir()
	if n, err := strconv.ParseUint(checkpoint, 10, 64); err == nil {
		if _, err := os.Stat(File(dir, n)); errors.Is(err, os.ErrNotExist) {
			return "", "", fmt.Errorf("%w: run %d of %s has no model: %s", store.ErrNotFound, n, dir, held(dir))
		}
		return File(dir, n), fmt.Sprintf("run %d", n), nil
	}
	if checkpoint != "" {
		return checkpoint, checkpoint, nil
	}
	h, err := store.ReadHistory(ctx, dir, store.Options{})
	if err != nil {
		return "", "", err
	}
	var best struct {
		run      uint64
		here     bool    // trained on the version that is asked for
		accuracy float64 // or what falls as the error grows
		mae      float64 // −1: none
		task     string  // of targets of rows
	}
	runs := 0
	replaced := map[string]bool{} // tables of later runs
	for _, r := range slices.Backward(h.Runs) {
		s := struct {
			Valid float64 `json:"valid_accuracy"`
			MAE   float64 `json:"valid_mae"`      // of labels that are numbers
			F1    float64 `json:"valid_micro_f1"` // of several labels a node
			Table string  `json:"table"`          // of learned vectors
			Task  string  `json:"task"`           // of targets of rows, and their kind
			Kind  string  `json:"kind"`
			Ranks struct {
				MRR       float64 `json:"mrr"`     // of edges at moments
				AUC       float64 `json:"roc_auc"` // of targets of rows
				Precision float64 `json:"average_precision"`
				Accuracy  float64 `json:"accuracy"`
				MAP       float64 `json:"map_at_k"`
				MAE       float64 `json:"mae"`
			} `json:"valid"`
		}{Valid: -1, MAE: -1, F1: -1}
		s.Ranks.MRR = -1 // a run without validation says nothing
		if _, err := os.Stat(File(dir, r.Number)); r.Command != "train" || err != nil || json.Unmarshal(r.Summary, &s) != nil {
			continue
		}
		if replaced[s.Table] { // its vectors are gone
			continue
		}
		replaced[s.Table] = s.Table != ""
		if best.run > 0 && s.Task != best.task { // the last run says what is asked
			continue
		}
		s.Valid = max(s.Valid, s.Ranks.MRR, s.F1)
		switch r := &s.Ranks; s.Kind {
		case database.Regression:
			s.MAE = r.MAE
		case database.Binary:
			s.Valid = r.AUC
		case database.Multiclass:
			s.Valid = r.Accuracy
		case database.Multilabel:
			s.Valid = r.Precision
		case database.Recommendation:
			s.Valid = r.MAP
		}
		if s.MAE >= 0 {
			s.Valid = 1 / (1 + s.MAE)
		}
		runs++
		here := r.Version == st.Manifest().Version
		if best.run == 0 || here && !best.here || here == best.here && s.Valid > best.accuracy {
			best.run, best.here, best.accuracy, best.mae, best.task = r.Number, here, s.Valid, s.MAE, s.Task
		}
	}
	if best.run == 0 {
		m := st.Manifest()
		if _, err := m.TimeColumn(); err != nil && m.Labels() == nil && len(m.EdgeLists) == 0 {
			return "", "", fmt.Errorf("%w: %s has no trained model, and no labels or lists of edges to train one with: ingest them with the graph (docs/formats.md says how), or give --checkpoint FILE", store.ErrNotFound, dir)
		}
		return "", "", fmt.Errorf("%w: %s has no trained model: run gstore train %s, or give --checkpoint FILE", store.ErrNotFound, dir, dir)
	}
	which = fmt.Sprintf("run %d", best.run)
	switch {
	case runs > 1 && best.accuracy < 0: // none has validation nodes
		which += fmt.Sprintf(", the last of %d: none has validation nodes; --checkpoint N takes another", runs)
	case runs > 1 && best.task != "":
		which += fmt.Sprintf(", of %d of %s the best in validation; --checkpoint N takes another", runs, best.task)
	case runs > 1 && best.mae >= 0:
		which += fmt.Sprintf(", of %d the best on validation nodes (MAE %s); --checkpoint N takes another", runs, command.FormatNumber(best.mae))
	case runs > 1:
		which += fmt.Sprintf(", of %d the best on validation nodes (%.2f %%); --checkpoint N takes another", runs, 100*best.accuracy)
	}
	return File(dir, best.run), which, nil
}

// TableName is the table of embeddings that a name means: "" is the only one of the store's version, or else the only one, or of several
// the one called as training calls it by default.
func TableName(ctx context.Context, st *store.Store, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	infos, err := table.Describe(ctx, st.Dir(), store.Options{})
	if err != nil {
		return "", err
	}
	const usual = "embeddings"
	var here, all []string
	for _, t := range infos {
		if t.Some { // vectors that a model of nodes learned
			continue
		}
		if t.Version == st.Manifest().Version {
			here = append(here, t.Name)
		}
		all = append(all, t.Name)
	}
	switch {
	case len(here) == 1:
		return here[0], nil
	case len(here) == 0 && len(all) == 1:
		return all[0], nil
	case slices.Contains(all, usual) || len(all) == 0:
		return usual, nil
	}
	return "", command.Usagef("the store has several tables of embeddings: name one of %s", strings.Join(all, ", "))
}

// VersionOfTable returns st, or in its place, opened by o, the version of the store that the table of a name belongs to: its embeddings are
// of that version's nodes. It says so.
func VersionOfTable(ctx context.Context, e *command.Env, st *store.Store, o store.Options, name, checkpoint string) (*store.Store, error) {
	t, err := OpenTable(ctx, st, name, checkpoint)
	var other *table.VersionError
	if !errors.As(err, &other) {
		if err == nil {
			err = t.Close()
		}
		return st, err
	}
	o.Version = other.Of
	its, err := store.Open(st.Dir(), o)
	if err != nil {
		return st, err
	}
	was, is := its.Manifest(), st.Manifest()
	e.Warn(fmt.Sprintf("table %s was trained on version %d of the store (%d nodes, %d edges), and answers for that; what came with version %d (%d nodes, %d edges) it learns by training again",
		other.Table, was.Version, was.Nodes, was.Edges, is.Version, is.Nodes, is.Edges))
	return its, st.Close()
}

// OpenTrained is [OpenTable] with the run behind the table, of which it has an epoch, or a part of one.
func OpenTrained(ctx context.Context, st *store.Store, name, checkpoint string) (*table.Table, *link.Checkpointed, error) {
	t, err := OpenTable(ctx, st, name, checkpoint)
	if err != nil {
		return nil, nil, err
	}
	run, err := link.Load(ctx, t)
	if err == nil && run.Epochs == 0 && !run.Middle {
		err = fmt.Errorf("%w: table %s has no trained epoch yet, its numbers are random: a run that trains it makes a checkpoint after each, and gstore train --resume goes on with one that was ended",
			store.ErrNotFound, t.Name())
	}
	if err != nil {
		return nil, nil, errors.Join(err, t.Close())
	}
	return t, run, nil
}

// OpenTable opens a table of embeddings for reading, also while a run trains it, at a checkpoint by its number, "" = the last one. One of another version of the
// store is an error, unless its model has no embeddings: then its checkpoints alone may be read.
func OpenTable(ctx context.Context, st *store.Store, name, checkpoint string) (*table.Table, error) {
	name, err := TableName(ctx, st, name)
	if err != nil {
		return nil, err
	}
	o := table.Options{Name: name, ReadOnly: true, Beside: true, AnyVersion: true}
	if checkpoint != "" {
		if o.Checkpoint, err = strconv.ParseUint(checkpoint, 10, 64); err != nil {
			return nil, command.Usagef("--checkpoint %q: expected the number of a checkpoint of table %s", checkpoint, name)
		}
	}
	t, err := table.Open(ctx, st, o)
	if err != nil && o.Checkpoint == 0 && isMissing(err) {
		return nil, fmt.Errorf("%w: train first: gstore train %s", err, st.Dir())
	}
	if err != nil {
		return nil, err
	}
	if other := t.CheckVersion(st.Manifest()); other != nil {
		run, err := link.Load(ctx, t)
		if err != nil || !run.Config.NoEmbeddings {
			return nil, errors.Join(other, t.Close())
		}
	}
	return t, nil
}
