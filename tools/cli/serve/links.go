package serve

import (
	"context"
	"net/http"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/store"
)

// asked stands for what a question asks for.
const asked = "?"

// linksRequest asks which nodes complete edges: heads or tails are ?.
type linksRequest struct {
	Model     string         `json:"model" doc:"its name; left out: the default"`
	Questions []linkQuestion `json:"questions"`
	Top       int            `json:"top" doc:"how many answers to each question, at most 1000; 0: 10"`
	Known     string         `json:"known" doc:"keep, or leave_out links that the store has"`
}

type linkQuestion struct {
	Head     id     `json:"head" doc:"an id, or ? if it is asked for"`
	Relation string `json:"relation" doc:"left out: the only one"`
	Tail     id     `json:"tail" doc:"an id, or ? if it is asked for"`
}

// linkAnswers are the best answers to a question.
type linkAnswers struct {
	Head     any          `json:"head,omitempty"`
	Relation string       `json:"relation,omitempty"`
	Tail     any          `json:"tail,omitempty"`
	Node     any          `json:"node,omitempty"`
	Best     []linkAnswer `json:"best"`
}

type linkAnswer struct {
	ID    any     `json:"id"`
	Score float32 `json:"score"`
}

type linksAnswer struct {
	Version uint64        `json:"version"`
	Model   string        `json:"model"`
	Answers []linkAnswers `json:"answers"`
}

// checkTop is how many answers are asked for, 10 unless a request says.
func checkTop(top int) (int, error) {
	switch {
	case top == 0:
		return 10, nil
	case top < 0 || top > mostAnswers:
		return 0, badf("top %d: expected 1 to %d", top, mostAnswers)
	}
	return top, nil
}

// leavesOut reads whether what is known is left out of answers.
func leavesOut(known string) (bool, error) {
	if known != "" && known != "keep" && known != "leave_out" {
		return false, badf("known %q: expected keep or leave_out", known)
	}
	return known == "leave_out", nil
}

func (s *server) links(ctx context.Context, x *state, r *http.Request) (any, error) {
	var k linksRequest
	if err := decode(r, &k); err != nil {
		return nil, err
	}
	m, err := modelOf[*linkModel](x, k.Model)
	if err != nil {
		return nil, err
	}
	var o eval.FinderOptions
	if o.Top, err = checkTop(k.Top); err != nil {
		return nil, err
	}
	if o.Unknown, err = leavesOut(k.Known); err != nil {
		return nil, err
	}
	if err := checkIDs(len(k.Questions)); err != nil {
		return nil, err
	}
	schema := &x.st.Manifest().Schema
	ids, questions := make([]id, len(k.Questions)), make([]eval.Question, len(k.Questions))
	for i := range k.Questions {
		q := &k.Questions[i]
		if (q.Head == asked) == (q.Tail == asked) {
			return nil, badf("question %d: expected head, relation and tail, head or tail %q", i+1, asked)
		}
		if ids[i] = q.Head; q.Head == asked {
			ids[i], questions[i].Heads = q.Tail, true
		}
		switch {
		case q.Relation == "" && m.relation != "":
			q.Relation = m.relation
		case q.Relation == "" && len(schema.Relations) == 1:
			q.Relation = schema.Relations[0].Name
		case m.relation != "" && q.Relation != m.relation:
			return nil, badf("question %d: the model predicts relation %s alone", i+1, m.relation)
		}
		if questions[i].Relation, err = schema.RelationNamed(q.Relation); err != nil {
			return nil, badRequestOf(err)
		}
	}
	if err := x.ask(ctx, ids, questions); err != nil {
		return nil, err
	}
	answers, err := s.answersOf(ctx, x, m, questions, o)
	if err != nil {
		return nil, err
	}
	a, err := x.named(ctx, m, questions, answers)
	if err != nil {
		return nil, err
	}
	for i, q := range questions {
		of := &a.Answers[i]
		if of.Relation = relationName(x.st.Manifest(), q.Relation); q.Heads {
			of.Head, of.Tail = asked, of.Node
		} else {
			of.Head, of.Tail = of.Node, asked
		}
		of.Node = nil
	}
	return a, nil
}

// ask puts nodes into questions by their ids.
func (x *state) ask(ctx context.Context, ids []id, questions []eval.Question) error {
	nodes, err := x.ids.nodes(ctx, ids)
	for i, v := range nodes {
		questions[i].Node = v
	}
	return err
}

// named are the answers to questions, by their nodes' ids.
func (x *state) named(ctx context.Context, m model, questions []eval.Question, answers [][]eval.Answer) (*linksAnswer, error) {
	var nodes []store.NodeID
	for i, q := range questions {
		nodes = append(nodes, q.Node)
		for _, a := range answers[i] {
			nodes = append(nodes, a.Node)
		}
	}
	names, err := x.ids.names(ctx, nodes)
	if err != nil {
		return nil, err
	}
	all := &linksAnswer{Version: x.st.Manifest().Version, Model: m.about().Which}
	for _, list := range answers {
		of := linkAnswers{Node: names[0], Best: []linkAnswer{}}
		for i, a := range list {
			of.Best = append(of.Best, linkAnswer{names[i+1], a.Score})
		}
		names = names[len(list)+1:]
		all.Answers = append(all.Answers, of)
	}
	return all, nil
}
