package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/infer"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/gpu/temporal"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/adjacency"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/store/table"
	"github.com/gstore/gstore/tools/cli/models"
)

// Kinds of models.
const (
	kindNodes   = "nodes"
	kindLinks   = "links"
	kindTargets = "targets"
)

// errNoModel says that nothing was asked for and there is none: look-ups are served.
var errNoModel = errors.New("no model")

// adjacencyBytes are the bytes of lists: the least, with what making them takes, and whole.
func adjacencyBytes(m *store.Manifest) (least, whole int64) {
	least, whole = adjacency.Bytes(m)
	return least + adjacency.PassBytes, whole + adjacency.PassBytes
}

// listsBytes is what a state's lists may take.
func (s *server) listsBytes(st *store.Store) (int64, error) {
	if s.o.mem == 0 {
		return 0, nil
	}
	if least, _ := adjacencyBytes(st.Manifest()); least > s.room.lists { // of a version that grew
		return 0, fmt.Errorf("%w: the edges of %d nodes take %d bytes at least, %d are there: serve it with more --mem", store.ErrBudget, st.Manifest().Nodes, least, s.room.lists)
	}
	return s.room.lists, nil
}

// found is a model as it lies in a store, before it is opened.
type found struct {
	path  string // "": a table of embeddings
	which string
}

// find finds the model that the command names; errNoModel where it names none and there is none.
func (s *server) find(ctx context.Context, st *store.Store, of modelFlag) (f found, err error) {
	if st.Manifest().Task() == store.TaskLink {
		var t *table.Table
		if t, _, err = models.OpenTrained(ctx, st, "", of.checkpoint); err == nil {
			f.which = fmt.Sprintf("table %s, checkpoint %d", t.Name(), t.LastCheckpoint().Number)
			err = t.Close()
		}
	} else if f.path, f.which, err = models.Find(ctx, st, of.checkpoint); err == nil {
		f.which, _, _ = strings.Cut(f.which, ",")
	}
	switch {
	case of.checkpoint != "":
	case errors.Is(err, store.ErrNotFound):
		err = errNoModel
	case err == nil && f.path != "" && temporal.IsFile(f.path):
		s.log.Warn("no model is served: the store's best one predicts edges at moments; gstore predict answers by it", "model", f.path)
		err = errNoModel
	}
	return f, err
}

// findAll finds the models that there are, by their names.
func (s *server) findAll(ctx context.Context, st *store.Store) (map[string]found, error) {
	all := map[string]found{}
	for _, of := range s.o.models {
		f, err := s.find(ctx, st, of)
		switch {
		case errors.Is(err, errNoModel):
		case err != nil && of.name != defaultModel:
			return nil, fmt.Errorf("model %s: %w", of.name, err)
		case err != nil:
			return nil, err
		default:
			all[of.name] = f
		}
	}
	return all, nil
}

// openModel opens a model.
func (s *server) openModel(ctx context.Context, snap *snapshot, of modelFlag, f found) (model, error) {
	info := modelInfo{Name: of.name, Which: f.which}
	switch {
	case f.path == "":
		return s.openLinks(ctx, snap, of, info)
	case temporal.IsFile(f.path):
		return nil, fmt.Errorf("%w: %s predicts edges at moments, which is not served: gstore predict answers by it",
			store.ErrInvalid, f.path)
	case targets.IsFile(f.path):
		return s.openTargets(ctx, snap, f.path, info)
	}
	return s.openNodes(ctx, snap, f.path, info)
}

// nodeModel says something of nodes, several requests at a time.
type nodeModel struct {
	info modelInfo
	cp   *train.Checkpoint
	pool *pool[*infer.Model]
	near func(e *eval.Evaluator) eval.Near

	similar similarity
	survey  survey
}

func (s *server) openNodes(ctx context.Context, snap *snapshot, path string, info modelInfo) (model, error) {
	cp, err := models.Load(s.e, snap.st.Manifest(), path)
	if err != nil {
		return nil, err
	}
	held := 3 * int64(len(cp.Params)) * int64(len(s.devs)) // values, gradients and what is loaded
	if s.room.models > 0 && held > s.room.models {
		return nil, fmt.Errorf("%w: the model's parameters take %d bytes %d times, %d are there: serve it with more --mem or fewer --threads", store.ErrBudget, held/int64(len(s.devs)), len(s.devs), s.room.models)
	}
	info.Kind, info.Layers = kindNodes, fmt.Sprintf("%s, %d layers", cp.Model.Kind().Name, cp.Model.Layers)
	info.Answers, info.Classes = []string{pathPredict, pathExplain, pathNearest, pathEmbeddings}, cp.Classes(snap.st.Manifest())
	m := &nodeModel{info: info, cp: cp}
	m.near = func(e *eval.Evaluator) eval.Near { return e.ByLists(snap.st, snap.lists) }
	m.similar.ready, m.survey.ready = make(chan struct{}), make(chan struct{})
	next := 0
	m.pool, err = newPool(len(s.devs), func() (*infer.Model, error) {
		next++
		return infer.Open(ctx, snap.st, s.devs[next-1], cp)
	}, (*infer.Model).Close)
	return m, err
}

func (m *nodeModel) about() modelInfo { return m.info }

func (m *nodeModel) close() error {
	return errors.Join(m.similar.close(), m.pool.close((*infer.Model).Close))
}

// linkModel finds links and similar nodes, one batch of questions at a time.
type linkModel struct {
	info     modelInfo
	table    *table.Table
	model    *link.Model
	finder   *eval.Finder
	relation string // the only one that it predicts; "": all
	turn     sync.Mutex

	survey survey
}

// mostAnswers is how many answers a question may ask for.
const mostAnswers = 1000

func (s *server) openLinks(ctx context.Context, snap *snapshot, of modelFlag, info modelInfo) (_ model, err error) {
	t, run, err := models.OpenTrained(ctx, snap.st, "", of.checkpoint)
	if err != nil {
		return nil, err
	}
	m := &linkModel{table: t, relation: run.Config.Relation, survey: survey{ready: make(chan struct{})}}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	memory := int64(0)
	if s.room.models > 0 {
		memory = budget.ProgramBytes + s.room.models
	}
	if m.model, err = link.Open(ctx, snap.st, s.devs[0], t, run,
		eval.RankerOptions{MemoryBytes: memory, Threads: len(s.devs), Top: mostAnswers}); err != nil {
		return nil, err
	}
	if m.finder, err = m.model.Find(ctx, eval.FinderOptions{}); err != nil {
		return nil, err
	}
	info.Kind, info.Layers, info.Answers = kindLinks, run.Config.Model, []string{pathLinks, pathNearest, pathEmbeddings}
	m.info = info
	return m, nil
}

func (m *linkModel) about() modelInfo { return m.info }

func (m *linkModel) close() (err error) {
	if m.finder != nil {
		m.finder.Close()
	}
	if m.model != nil {
		err = m.model.Close()
	}
	return errors.Join(err, m.table.Close())
}

// withStates calls f with the finder and what reads embeddings; of links and of similar nodes the states are the same.
func (m *linkModel) withStates(ctx context.Context, _ *server, _ *state, f func(of *eval.Finder, rows rowReader) error) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	if err := ctx.Err(); err != nil { // it waited too long
		return err
	}
	return f(m.finder, m.table.ReadRows)
}

// targetModel predicts targets of rows of a database, one request at a time.
type targetModel struct {
	info modelInfo
	cp   *targets.Checkpoint
	open *targets.Answerer
	turn sync.Mutex
}

// mostRows is how many rows a request may ask about.
const mostRows = 1000

func (s *server) openTargets(ctx context.Context, snap *snapshot, path string, info modelInfo) (model, error) {
	cp, err := targets.LoadFile(path)
	if err != nil {
		return nil, err
	}
	cfg := cp.Config
	if cfg.Threads = len(s.devs); s.room.models > 0 {
		cfg.MemoryBytes = budget.ProgramBytes + s.room.models
	}
	m := &targetModel{cp: cp}
	if m.open, err = targets.OpenAnswerer(ctx, snap.st, s.devs[0], cp, cfg, mostRows); err != nil {
		return nil, err
	}
	info.Kind, info.Layers = kindTargets, string(cp.Task.Kind)+" of "+cp.Task.Table
	if info.Answers, info.Classes = []string{pathTargets}, cp.Task.Classes; cp.Task.Kind == database.Recommendation {
		info.Answers = []string{pathRecommend}
	}
	m.info = info
	return m, nil
}

func (m *targetModel) about() modelInfo { return m.info }

func (m *targetModel) close() error { return m.open.Close() }
