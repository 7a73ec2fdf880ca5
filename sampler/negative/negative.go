// Package negative draws negative examples for link tasks: nodes that replace
// the head or the tail of a batch's edges.
//
// As in MariusGNN (sections 2 and 7.1) a batch is cut into chunks, and the edges
// of a chunk share their negatives: C chunks of N negatives give every edge N
// of them while only C·N nodes are gathered and scored as one matrix product.
// Negatives come from the nodes in memory, or of some partitions ([Pool.Only]), uniformly, in proportion to degree, or a
// mixture.
//
// Draws are keyed by (seed, epoch, step, pass, batch, side, chunk), count nodes by
// internal id and edges in the macro-batch's fixed order, so that they do not depend on threads
// or on which slot of the buffer a partition lies in.
//
//	n, err := negative.New(negative.Config{Count: 500, Chunks: 10, DegreeShare: .5, Seed: 1})
//	…
//	pool, err := negative.NewPool(macroBatch)
//	for c := range 10 {
//		rows = n.Sample(rows, pool, pool, key, negative.Tail, c)
//	}
package negative

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// ErrNoNodes says that a macro-batch has no nodes to draw from.
var ErrNoNodes = errors.New("no nodes to draw negatives from")

// Side is the end of an edge that is replaced. Each has draws of its own.
type Side uint8

// Sides.
const (
	Tail Side = iota
	Head
)

// Config says how many negatives are drawn and from which distribution.
type Config struct {
	Count  int // negatives of each chunk, ≥ 1
	Chunks int // of a batch; 0 means 1
	// DegreeShare of each chunk's negatives, rounded, is drawn in proportion to
	// degree, the rest uniformly; 0 = all uniform, 1 = all by degree.
	DegreeShare float64
	Seed        uint64
}

// Sampler draws negatives. It is safe for concurrent use.
type Sampler struct {
	cfg      Config
	run      keyed.Key
	byDegree int // of each chunk: the first so many
}

// New returns a sampler, or an error naming the field of cfg that is wrong.
func New(cfg Config) (*Sampler, error) {
	if cfg.Chunks == 0 {
		cfg.Chunks = 1
	}
	switch {
	case cfg.Count < 1 || cfg.Chunks < 1 || cfg.Count > math.MaxInt32/cfg.Chunks:
		return nil, fmt.Errorf("negative.Config: Count %d in %d Chunks: want at least 1 of each, and fewer than 2^31 together", cfg.Count, cfg.Chunks)
	case !(cfg.DegreeShare >= 0 && cfg.DegreeShare <= 1):
		return nil, fmt.Errorf("negative.Config: DegreeShare %g: want a share from 0 to 1", cfg.DegreeShare)
	}
	return &Sampler{
		cfg:      cfg,
		run:      keyed.New(cfg.Seed).With(0x6e6567), // apart from the neighbours' draws of the same seed
		byDegree: int(math.Round(cfg.DegreeShare * float64(cfg.Count))),
	}, nil
}

// Len is the number of a batch's negatives for one side: Chunks × Count.
func (s *Sampler) Len() int { return s.cfg.Chunks * s.cfg.Count }

// Sample appends the rows of chunk c's negatives of a batch to dst, one from pool and one from other by turns, which may be the
// same. A row may occur more than once, and may be the true end of an edge: see [Mask].
func (s *Sampler) Sample(dst []uint32, pool, other *Pool, key mini.Key, side Side, c int) []uint32 {
	r := s.run.With(uint64(key.Epoch)).With(uint64(key.Step)).With(uint64(key.Pass)).With(uint64(key.Batch)).With(uint64(side)).Rand(uint64(c))
	for i := range s.cfg.Count {
		if i < s.byDegree && len(pool.ends) > 0 {
			dst = append(dst, pool.byDegree(&r))
		} else {
			dst = append(dst, pool.uniform(&r))
		}
		pool, other = other, pool
	}
	return dst
}

// Pool is what negatives of one macro-batch are drawn from. It refers to the
// macro-batch's memory and is valid as long; it is safe for concurrent use.
type Pool struct {
	partitions []buffer.ResidentPartition
	before     []uint64 // nodes of the partitions before each; the last entry is their sum
	// Ends of edges: a uniformly random one is a node in proportion to its degree.
	// In.Indices are edges' sources; Out.Indices, if there, their destinations.
	ends [][]uint32
	part bool // ends are of other nodes too
	// rows are those of each partition that may be drawn, and keep says which these are; nil: all.
	rows [][]uint32
	keep func(row uint32) bool
}

// NewPool prepares drawing from the nodes of mb. By degree means by the number of resident
// edges that leave a node, and with mb.Out of edges either way.
func NewPool(mb *buffer.MacroBatch) (*Pool, error) {
	p := &Pool{partitions: mb.Partitions, before: make([]uint64, 1, len(mb.Partitions)+1)}
	for _, part := range mb.Partitions {
		p.before = append(p.before, p.before[len(p.before)-1]+uint64(part.Nodes))
	}
	if p.before[len(p.before)-1] == 0 {
		return nil, fmt.Errorf("%w: %d partitions are resident, all of them empty", ErrNoNodes, len(mb.Partitions))
	}
	for _, a := range []*buffer.Adjacency{mb.In, mb.Out} {
		if a == nil {
			continue
		}
		if n := edges(a, mb.Partitions); n > 0 {
			p.ends = append(p.ends, a.Indices[:n])
		}
	}
	return p, nil
}

// Only returns the pool of those partitions of p, by position among the macro-batch's, that in has set; nil if they have no
// nodes.
func (p *Pool) Only(in []bool) *Pool {
	o := &Pool{before: make([]uint64, 1, len(p.before)), ends: p.ends, part: true}
	for i, part := range p.partitions {
		if in[i] {
			o.partitions = append(o.partitions, part)
			if p.rows != nil {
				o.rows, o.keep = append(o.rows, p.rows[i]), p.keep
			}
			o.before = append(o.before, o.before[len(o.before)-1]+p.before[i+1]-p.before[i])
		}
	}
	if o.before[len(o.before)-1] == 0 {
		return nil
	}
	return o
}

// Where returns the pool of those nodes of p, which is not of Where, that keep is true of, 4 bytes each; nil if there are none.
func (p *Pool) Where(keep func(row uint32) bool) *Pool {
	o := &Pool{partitions: p.partitions, before: make([]uint64, 1, len(p.before)), ends: p.ends, part: true, keep: keep, rows: [][]uint32{}}
	for _, part := range p.partitions {
		var rows []uint32
		for row := part.Base; row < part.Base+part.Nodes; row++ {
			if keep(row) {
				rows = append(rows, row)
			}
		}
		o.rows = append(o.rows, rows)
		o.before = append(o.before, o.before[len(o.before)-1]+uint64(len(rows)))
	}
	if o.before[len(o.before)-1] == 0 {
		return nil
	}
	return o
}

// edges returns how many entries of a.Indices are edges: spans fill a prefix
// of it without gaps, and what lies beyond is room for larger steps.
func edges(a *buffer.Adjacency, partitions []buffer.ResidentPartition) int64 {
	end := int64(0)
	for _, p := range partitions {
		for _, s := range a.Spans[p.Base:][:p.Nodes] {
			end = max(end, s.End)
		}
	}
	return end
}

// uniform draws a resident node.
func (p *Pool) uniform(r *keyed.Rand) uint32 {
	last := len(p.before) - 1
	k := r.Below(p.before[last])
	i := sort.Search(last, func(i int) bool { return p.before[i+1] > k })
	if p.rows != nil {
		return p.rows[i][k-p.before[i]]
	}
	return p.partitions[i].Base + uint32(k-p.before[i])
}

// degreeTries bounds how often an end in other partitions is drawn again, where few edges lead into the pool's.
const degreeTries = 64

// byDegree draws an end of a resident edge: of either direction in turn at random.
func (p *Pool) byDegree(r *keyed.Rand) uint32 {
	for range degreeTries {
		ends := p.ends[0]
		if len(p.ends) > 1 {
			ends = p.ends[r.Below(uint64(len(p.ends)))]
		}
		if row := ends[r.Below(uint64(len(ends)))]; !p.part || p.has(row) {
			return row
		}
	}
	return p.uniform(r)
}

// has reports whether a row is one of the pool's nodes.
func (p *Pool) has(row uint32) bool {
	return slices.ContainsFunc(p.partitions, func(part buffer.ResidentPartition) bool { return row-part.Base < part.Nodes }) && (p.keep == nil || p.keep(row))
}

// Mask calls hit for every pair of an edge of a chunk and a negative that is the edge's own true end: scores to leave out
// of the loss. ends are the rows of the chunk's replaced ends, negatives are Sample's.
func Mask(ends, negatives []uint32, hit func(edge, negative int)) {
	for e, end := range ends {
		for n, row := range negatives {
			if row == end {
				hit(e, n)
			}
		}
	}
}
