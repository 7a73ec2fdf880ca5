package serve

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// targetsRequest asks about rows of a database as of a moment.
type targetsRequest struct {
	Model string `json:"model" doc:"its name; left out: the default"`
	Keys  []id   `json:"rows" doc:"keys of rows of the table that the model is of"`
	At    string `json:"at" doc:"a date or a time: nothing later is read; left out: now"`

	// Of recommendations.
	Top   int    `json:"top" doc:"recommendations: how many; 0: as many as the task says"`
	Known string `json:"known" doc:"recommendations: keep, or leave_out rows that the entity has to do with already"`
}

// targetAnswer is what a model says of a row.
type targetAnswer struct {
	Row           string             `json:"row"`
	Value         *float32           `json:"value,omitempty" doc:"a probability, or a number"`
	Class         string             `json:"class,omitempty"`
	Labels        *[]string          `json:"labels,omitempty"`
	Probabilities map[string]float32 `json:"probabilities,omitempty"`
	Best          []linkAnswer       `json:"best,omitempty"`
}

type targetsAnswer struct {
	Version uint64         `json:"version"`
	Model   string         `json:"model"`
	Table   string         `json:"table"`
	Target  string         `json:"target"`
	At      string         `json:"at"`
	Rows    []targetAnswer `json:"rows"`
}

// open reads a request, and finds its rows.
func (k *targetsRequest) open(ctx context.Context, x *state, r *http.Request, recommends bool) (m *targetModel,
	a *targetsAnswer, questions []targets.Question, err error) {
	if err := decode(r, k); err != nil {
		return nil, nil, nil, err
	}
	if m, err = modelOf[*targetModel](x, k.Model); err != nil {
		return nil, nil, nil, err
	}
	task := &m.cp.Task
	if recommends != (task.Kind == database.Recommendation) {
		return nil, nil, nil, badf("the model is of %s: it answers %s", task.Kind, m.info.Answers[0])
	}
	if err := checkIDs(len(k.Keys)); err != nil {
		return nil, nil, nil, err
	}
	moment := time.Now().Unix()
	if k.At != "" {
		if moment, err = targets.ParseMoment(k.At); err != nil {
			return nil, nil, nil, badf("at: %v", err)
		}
	}
	ids := make([]id, len(k.Keys))
	for i, key := range k.Keys {
		ids[i] = id(store.TypePrefix(task.Table) + strings.TrimPrefix(string(key), store.TypePrefix(task.Table)))
	}
	nodes, err := x.ids.nodes(ctx, ids)
	if err != nil {
		return nil, nil, nil, err
	}
	a = &targetsAnswer{Version: x.st.Manifest().Version, Model: m.info.Which, Table: task.Table, Target: task.Target,
		At: time.Unix(moment, 0).UTC().Format(time.RFC3339)}
	for i, v := range nodes {
		questions = append(questions, targets.Question{Node: v, Moment: moment})
		a.Rows = append(a.Rows, targetAnswer{Row: strings.TrimPrefix(string(ids[i]), store.TypePrefix(task.Table))})
	}
	return m, a, questions, nil
}

func (s *server) targets(ctx context.Context, x *state, r *http.Request) (any, error) {
	var k targetsRequest
	m, a, questions, err := k.open(ctx, x, r, false)
	if err != nil {
		return nil, err
	}
	if k.Top != 0 || k.Known != "" {
		return nil, badf("top and known are for recommendations")
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	if err := ctx.Err(); err != nil { // it waited too long
		return nil, err
	}
	says, err := m.open.Predict(ctx, questions)
	if err != nil {
		return nil, err
	}
	classes := m.cp.Task.Classes
	each := max(len(classes), 1)
	for i := range a.Rows {
		own, of := says[i*each:(i+1)*each], &a.Rows[i]
		if len(classes) == 0 {
			of.Value = &own[0]
			continue
		}
		of.Probabilities = map[string]float32{}
		labels := []string{}
		for c, p := range own {
			if of.Probabilities[classes[c]] = p; p > .5 {
				labels = append(labels, classes[c])
			}
		}
		if m.cp.Task.Kind == database.Multilabel {
			of.Labels = &labels
		} else {
			of.Class = classes[slices.Index(own, slices.Max(own))]
		}
	}
	return a, nil
}

func (s *server) recommend(ctx context.Context, x *state, r *http.Request) (any, error) {
	var k targetsRequest
	m, a, questions, err := k.open(ctx, x, r, true)
	if err != nil {
		return nil, err
	}
	switch {
	case k.Top < 0 || k.Top > mostAnswers:
		return nil, badf("top %d: expected 0 to %d", k.Top, mostAnswers)
	case k.Top == 0:
		k.Top = m.cp.Task.K
	}
	others, err := leavesOut(k.Known)
	if err != nil {
		return nil, err
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	if err := ctx.Err(); err != nil { // it waited too long
		return nil, err
	}
	lists, err := m.open.Recommend(ctx, questions, k.Top, others)
	if err != nil {
		return nil, err
	}
	for i, list := range lists {
		nodes := make([]store.NodeID, len(list))
		for j, of := range list {
			nodes[j] = of.Node
		}
		names, err := x.ids.names(ctx, nodes)
		if err != nil {
			return nil, err
		}
		a.Rows[i].Best = []linkAnswer{}
		for j, of := range list {
			name, _ := names[j].(string)
			_, key, _ := strings.Cut(name, ":")
			a.Rows[i].Best = append(a.Rows[i].Best, linkAnswer{key, of.Score})
		}
	}
	return a, nil
}
