package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store/budget"
)

// similarity finds the nodes whose states below a model's last layer are most similar to a node's. The states of all nodes are computed when
// they are first asked for, once.
type similarity struct {
	begin sync.Once
	ready chan struct{} // closed when they are there, or err says why not
	err   error

	turn   sync.Mutex // of the finder
	states *train.Evaluation
	finder *eval.Similar
}

// busy says that an answer will be there later.
type busy struct{ text string }

func (b *busy) Error() string { return b.text }

// similarTo answers which nodes are most similar to some.
func (m *nodeModel) similarTo(ctx context.Context, s *server, x *state, questions []eval.Question,
	o eval.FinderOptions) ([][]eval.Answer, error) {
	all := &m.similar
	s.background(x, &all.begin, all.ready, func(ctx context.Context) {
		if all.err = all.open(ctx, s, x, m); all.err != nil {
			s.log.Error("states of all nodes", "error", all.err)
		}
	})
	select {
	case <-all.ready:
	case <-ctx.Done():
		return nil, errors.Join(&busy{"the states of all nodes are computed first, once: try again in a while"},
			ctx.Err())
	}
	if all.err != nil {
		return nil, fmt.Errorf("the states of all nodes: %w", all.err)
	}
	all.turn.Lock()
	defer all.turn.Unlock()
	if err := ctx.Err(); err != nil { // it waited too long
		return nil, err
	}
	f, err := all.finder.As(o)
	if err != nil {
		return nil, err
	}
	return askAll(ctx, f, questions)
}

// askAll asks a finder in as many questions at a time as it is best asked.
func askAll(ctx context.Context, f *eval.Finder, questions []eval.Question) (answers [][]eval.Answer, err error) {
	for batch := range slices.Chunk(questions, max(1, f.Batch())) {
		part, err := f.Ask(ctx, batch)
		if err != nil {
			return nil, err
		}
		answers = append(answers, part...)
	}
	return answers, nil
}

// open computes the states, within the state's share for models.
func (all *similarity) open(ctx context.Context, s *server, x *state, m *nodeModel) (err error) {
	memory, room := int64(0), int64(0)
	if s.room.models > 0 {
		memory = budget.ProgramBytes + s.room.models
	}
	least, err := eval.SimilarBytes(x.st, m.cp.Model.StateDim(), mostAnswers)
	if err != nil {
		return err
	}
	all.states, err = m.cp.Evaluate(ctx, x.st, s.devs[0], train.EvaluateOptions{MemoryBytes: memory,
		Held: []budget.Holder{{Name: "answers", Bytes: least}}, Embeddings: true})
	if err != nil {
		return s.roomFor(err, "computing the states of all nodes", modelsOfNodes)
	}
	held, err := all.states.Trim()
	if err != nil {
		return err
	}
	if memory > 0 {
		room = max(1, s.room.models-held)
	}
	all.finder, err = eval.OpenSimilar(ctx, x.st, s.devs[0], all.states.Embeddings(), eval.Cosine,
		eval.RankerOptions{Threads: len(s.devs), Top: mostAnswers, MemoryBytes: room})
	return err
}

// close frees the states. Nobody asks any more.
func (all *similarity) close() (err error) {
	if all.finder != nil {
		err = all.finder.Close()
	}
	if all.states != nil {
		err = errors.Join(err, all.states.Close())
	}
	return err
}

// finds is a model that has vectors of all nodes.
type finds interface {
	model
	similarTo(ctx context.Context, s *server, x *state, questions []eval.Question,
		o eval.FinderOptions) ([][]eval.Answer, error)
}

// nearestRequest asks for the nodes that are most similar to some.
type nearestRequest struct {
	Model string `json:"model" doc:"its name; left out: the default"`
	IDs   []id   `json:"nodes"`
	By    string `json:"by" doc:"cosine (default) or dot"`
	Top   int    `json:"top" doc:"at most 1000; 0: 10"`
}

func (k *nearestRequest) options() (o eval.FinderOptions, err error) {
	o.Kind = k.By
	if o.Kind == "" {
		o.Kind = eval.Cosine
	}
	if o.Kind != eval.Cosine && o.Kind != eval.Dot {
		return o, badf("by %q: expected %s or %s", k.By, eval.Cosine, eval.Dot)
	}
	o.Top, err = checkTop(k.Top)
	return o, err
}

func (x *state) questionsOf(ctx context.Context, ids []id) ([]eval.Question, error) {
	if err := checkIDs(len(ids)); err != nil {
		return nil, err
	}
	questions := make([]eval.Question, len(ids))
	return questions, x.ask(ctx, ids, questions)
}

// nearest answers POST /v1/nearest.
func (s *server) nearest(ctx context.Context, x *state, r *http.Request) (any, error) {
	var k nearestRequest
	if err := decode(r, &k); err != nil {
		return nil, err
	}
	m, err := modelOf[finds](x, k.Model)
	if err != nil {
		return nil, err
	}
	o, err := k.options()
	if err != nil {
		return nil, err
	}
	questions, err := x.questionsOf(ctx, k.IDs)
	if err != nil {
		return nil, err
	}
	answers, err := m.similarTo(ctx, s, x, questions, o)
	if err != nil {
		return nil, err
	}
	return x.named(ctx, m, questions, answers)
}
