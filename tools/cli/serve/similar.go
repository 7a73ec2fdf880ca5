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
	"github.com/gstore/gstore/store"
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

// withStates calls f with the finder of all nodes' states, and with what reads them, once they are there.
func (m *nodeModel) withStates(ctx context.Context, s *server, x *state, f func(of *eval.Finder, rows rowReader) error) error {
	all := &m.similar
	s.background(x, &all.begin, all.ready, func(ctx context.Context) {
		if all.err = all.open(ctx, s, x, m); all.err != nil {
			s.log.Error("states of all nodes", "error", all.err)
		}
	})
	select {
	case <-all.ready:
	case <-ctx.Done():
		return errors.Join(&busy{"the states of all nodes are computed first, once: try again in a while"},
			ctx.Err())
	}
	if all.err != nil {
		return fmt.Errorf("the states of all nodes: %w", all.err)
	}
	all.turn.Lock()
	defer all.turn.Unlock()
	if err := ctx.Err(); err != nil { // it waited too long
		return err
	}
	return f(all.finder.Finder, all.states.Embeddings().Read)
}

// answersOf asks a model questions of a kind.
func (s *server) answersOf(ctx context.Context, x *state, m finds, questions []eval.Question,
	o eval.FinderOptions) (answers [][]eval.Answer, err error) {
	err = m.withStates(ctx, s, x, func(of *eval.Finder, _ rowReader) error {
		f, err := of.As(o)
		if err == nil {
			answers, err = askAll(ctx, f, questions)
		}
		return err
	})
	return answers, err
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

// finds is a model that has vectors of all nodes, of which one request asks at a time.
type finds interface {
	model
	withStates(ctx context.Context, s *server, x *state, f func(of *eval.Finder, rows rowReader) error) error
}

// rowReader reads vectors of a partition's nodes from one on.
type rowReader = func(ctx context.Context, p store.PartitionID, first uint64, to []byte) error

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
	answers, err := s.answersOf(ctx, x, m, questions, o)
	if err != nil {
		return nil, err
	}
	return x.named(ctx, m, questions, answers)
}

// embeddingsRequest asks for the vectors of nodes.
type embeddingsRequest struct {
	Model string `json:"model" doc:"its name; left out: the default"`
	IDs   []id   `json:"nodes"`
}

type embeddingsAnswer struct {
	Version    uint64            `json:"version"`
	Model      string            `json:"model"`
	Embeddings []embeddingAnswer `json:"embeddings"`
}

type embeddingAnswer struct {
	ID     any       `json:"id"`
	Vector []float32 `json:"vector" doc:"a model of nodes: its state below the last layer; of links: the node's embedding, or its encoder's state"`
}

// embeddings answers POST /v1/embeddings.
func (s *server) embeddings(ctx context.Context, x *state, r *http.Request) (any, error) {
	var k embeddingsRequest
	if err := decode(r, &k); err != nil {
		return nil, err
	}
	m, err := modelOf[finds](x, k.Model)
	if err != nil {
		return nil, err
	}
	if err := checkIDs(len(k.IDs)); err != nil {
		return nil, err
	}
	nodes, names, err := x.ids.known(ctx, k.IDs)
	if err != nil {
		return nil, err
	}
	a := embeddingsAnswer{Version: x.st.Manifest().Version, Model: m.about().Which}
	err = m.withStates(ctx, s, x, func(of *eval.Finder, rows rowReader) error {
		dim := of.Dim()
		done, err := s.answers.carry(ctx, int64(len(nodes)*dim)*numberBytes)
		if err != nil {
			return err
		}
		defer done()
		vectors, err := of.Vectors(ctx, nodes, rows)
		for i := 0; err == nil && i < len(nodes); i++ {
			a.Embeddings = append(a.Embeddings, embeddingAnswer{names[i], vectors[i*dim : (i+1)*dim]})
		}
		return err
	})
	return a, err
}
