package train

import (
	"slices"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// nothing completes mini-batches whose neighbours are in memory, left out, or part of the input as a precomputed hop.
type nothing struct{}

func (nothing) enter(*buffer.MacroBatch) error { return nil }
func (nothing) find(*minibatch) error          { return nil }
func (nothing) complete(*minibatch)            {}

// histories complete layers by the states that neighbours out of memory had at the epoch's start.
type histories struct {
	t   *trainer
	set history.Set
	of  []func(x *minibatch) *nn.History // by layer of set, found before
}

// newHistories chooses how each layer is completed. groupers are of models of relations, else nil.
func newHistories(t *trainer, set history.Set, groupers []nn.Grouper) *histories {
	s := &histories{t: t, set: set}
	for i, h := range set {
		var of func(x *minibatch) *nn.History
		switch {
		case h.Attention:
			a := &attention{t: t, layer: h}
			of = a.of
		case h.Relations > 0: // a block a layer
			groupers[i].More = h.More
			of = func(x *minibatch) *nn.History {
				relations, dst := groupers[h.Layer].Groups()
				return h.Of(t.queue, x.pass.Arena, relations, dst)
			}
		default:
			of = func(x *minibatch) *nn.History { return h.Of(t.queue, x.pass.Arena, nil, nil) }
		}
		s.of = append(s.of, of)
	}
	return s
}

func (s *histories) enter(mb *buffer.MacroBatch) error { return s.set.Enter(mb) }

// find implements completer. There is a block for each layer that reads neighbours, and the last one's destinations are the seeds.
func (s *histories) find(x *minibatch) error {
	for _, h := range s.set {
		last := len(x.Blocks) - len(s.t.model.Layers()) + h.Input + h.Layer
		if err := h.Find(x.Input[:x.Blocks[last].NumDst]); err != nil {
			return err
		}
	}
	return nil
}

func (s *histories) complete(x *minibatch) {
	for _, of := range s.of {
		x.pass.Histories = append(x.pass.Histories, of(x))
	}
}

// attention completes a last layer's.
type attention struct {
	t      *trainer
	layer  *history.Layer
	absent nn.AbsentEdges
}

// of returns what completes the destinations that were found last. A mini-batch has a sample of their neighbours in memory, so that the
// absent ones count as many times as they are to these.
func (s *attention) of(x *minibatch) *nn.History {
	q, a, k := s.t.queue, x.pass.Arena, &x.Blocks[len(x.Blocks)-1]
	of := s.layer.Of(q, a, nil, nil)
	counts := weighAbsent(slices.Clone(s.layer.Divisors), k)
	c := s.t.model.Config()
	s.absent.Complete(q, a, of, k.NumSrc, k.Indptr, k.Indices, counts, c.AttentionHeads())
	return of
}

func weighAbsent(counts []float32, k *mini.Block) []float32 {
	for d := range counts {
		if drawn := k.Indptr[d+1] - k.Indptr[d]; drawn > 0 {
			counts[d] *= float32(drawn) / float32(k.Degrees[d])
		}
	}
	return counts
}

// probed lets a probe look at what layers aggregate.
type probed struct {
	completer
	probe *probe
}

func (s *probed) complete(x *minibatch) {
	s.completer.complete(x)
	looked := s.probe.look(x.pass, x.mb, x.Batch)
	x.checks = append(x.checks, func() error { looked(); return nil })
}
