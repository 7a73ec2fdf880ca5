package training

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/train/reach"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// noticed is the share of training nodes without a neighbour from which train warns of them.
const noticed = .1

// tellNeighbours says how many training nodes have no neighbour where these are many, and refuses a model that nobody named where all
// are. told says it in any case.
func (o *trainOptions) tellNeighbours(e *command.Env, m *store.Manifest, told bool) func(reach.Seen) error {
	return func(s reach.Seen) error {
		e.Event("neighbours", command.Fields(s))
		if s.Training == 0 {
			return nil
		}
		text := missing(&s, m)
		switch named := slices.Contains(o.node.Given, "model"); {
		case s.Without == s.Training && !named:
			return command.Usagef("%s: a model of the graph would learn from the nodes' own features alone. %s; --model mlp trains on features alone, and a model that is named with --model is trained all the same",
				text, remedy(&s))
		case s.Share() >= noticed:
			e.Warn(fmt.Sprintf("%s. %s", text, remedy(&s)))
		case told && !e.JSON:
			fmt.Fprintf(e.Told(), "neighbours: %s\n", text)
		}
		return nil
	}
}

// missing says how many training nodes have no neighbour.
func missing(s *reach.Seen, m *store.Manifest) string {
	var of string
	switch {
	case s.Without == 0:
		return "every training node has a neighbour in layer 1"
	case s.Without == s.Training && m.Edges == 0:
		return fmt.Sprintf("no training node has a neighbour in layer 1: the graph has no edges (training nodes: %d)", s.Training)
	case s.Without == s.Training:
		of = fmt.Sprintf("none of %s has a neighbour in layer 1", options.Count(int(s.Training), "training node"))
	default:
		of = fmt.Sprintf("%.3g %% of training nodes (%d of %d) have no neighbour in layer 1", 100*s.Share(), s.Without, s.Training)
	}
	switch {
	case s.Isolated == s.Without:
		return of + ": no edge joins them to another node"
	case s.Isolated == 0:
		return of + ": messages flow along edges, and none leads to them"
	}
	return fmt.Sprintf("%s: messages flow along edges, and none leads to them, nor does one lead from %d of them", of, s.Isolated)
}

// remedy is what to do about training nodes without a neighbour.
func remedy(s *reach.Seen) string {
	if s.Isolated == s.Without {
		return "gstore inspect shows how many edges the store has, and of which nodes: were some left out at ingest?"
	}
	return "--model rsage reads edges in both directions; so does every model on a store made with gstore ingest --undirected"
}
