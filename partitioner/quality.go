package partitioner

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
)

// QualityOptions of [Measure]. The zero value of a field means its default.
type QualityOptions struct {
	// Classes as in Options.Classes: which nodes are training nodes, and their labels; nil: all, unlabelled.
	Classes []uint16
	// Resident is how many partitions a macro-batch has beside the pinned ones. Default 1/8 of them, at least 1.
	Resident int
	// Hops are the layers of the model. Default 2.
	Hops int
	Seed uint64
	// BytesPerNode (features, labels) and BytesPerEntry (topology) weigh partitions. Default 0 and 8.
	BytesPerNode, BytesPerEntry int64
}

// Spread says how evenly something lies over the partitions that are not pinned.
type Spread struct {
	Min  float64 `json:"min"`
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
	// MaxOverMean is 1 when all are equal; 0 if there is nothing.
	MaxOverMean float64 `json:"max_over_mean"`
}

// Divergence is the total variation distance, 0 to 1, between the labels of some training
// nodes and of all: the share of them that would need another label.
type Divergence struct {
	Mean float64 `json:"mean"` // partitions count by their training nodes
	Max  float64 `json:"max"`
	// Each is of every partition that is not pinned, by its id (0 without training nodes), or of every macro-batch drawn.
	Each []float64 `json:"each,omitempty"`
}

// Quality is what an assignment means for training out of core.
type Quality struct {
	Nodes      uint64 `json:"nodes"`
	Edges      uint64 `json:"edges"` // undirected
	Partitions int    `json:"partitions"`
	Pinned     int    `json:"pinned_partitions"`
	PinnedNode uint64 `json:"pinned_nodes"`
	Resident   int    `json:"resident_partitions"` // of those not pinned, in a macro-batch
	Training   uint64 `json:"training_nodes"`

	// CutEdges join two different partitions, pinned ones included; CutRate is their share.
	CutEdges uint64  `json:"cut_edges"`
	CutRate  float64 `json:"cut_rate"`
	// LostRate is the share of edges cut whose ends are both not pinned: a macro-batch may miss them.
	LostRate float64 `json:"lost_rate"`

	// ResidentShare[h−1] is the expected share of a training node's walks of h
	// steps that stay in a macro-batch: its partition, the pinned ones, and
	// Resident−1 others drawn at random. Hop 1 is exact (the mean over training nodes of the share of their neighbours);
	// further ones are estimated by walks, and left out for a graph without random access.
	ResidentShare []float64 `json:"resident_share"`

	Labels          int        `json:"labels"`
	PartitionLabels Divergence `json:"partition_label_divergence"`
	// MacroBatchLabels are of 64 random macro-batches of Resident partitions.
	MacroBatchLabels Divergence `json:"macrobatch_label_divergence"`

	NodeSpread     Spread `json:"node_spread"`
	EntrySpread    Spread `json:"entry_spread"`
	TrainingSpread Spread `json:"training_spread"`
	ByteSpread     Spread `json:"byte_spread"`

	// KeptByPartition is each partition's share of neighbours that are in it or pinned.
	KeptByPartition []float64 `json:"kept_by_partition"`
}

const (
	walksMax        = 1 << 18 // of each length, over all training nodes
	macroBatchDraws = 64
)

// Measure reads the graph once, and walks on it if it can. Memory is O(partitions × labels) beside the assignment's 4 bytes a node.
func Measure(ctx context.Context, g graph.Graph, a Assigner, o QualityOptions) (*Quality, error) {
	if g.Nodes() != a.Nodes() || o.Classes != nil && uint64(len(o.Classes)) != a.Nodes() {
		return nil, fmt.Errorf("%w: %d nodes assigned, %d in the graph, %d classes", ErrOption, a.Nodes(), g.Nodes(), len(o.Classes))
	}
	pinnedCount := len(a.Pinned())
	k := a.Partitions() - pinnedCount // pinned ones are the last
	if o.Resident == 0 {
		o.Resident = max(k/8, 1)
	}
	if o.Resident < 1 || o.Resident > k {
		return nil, fmt.Errorf("%w: %d resident of %d partitions", ErrOption, o.Resident, k)
	}
	if o.Hops == 0 {
		o.Hops = 2
	}
	if o.BytesPerEntry == 0 {
		o.BytesPerEntry = 8
	}
	m := newMeasure(a, o, float64(o.Resident))
	q := &Quality{
		Nodes: a.Nodes(), Partitions: a.Partitions(), Pinned: pinnedCount, Resident: o.Resident,
	}
	if err := m.scan(ctx, g); err != nil {
		return nil, fmt.Errorf("measure partitions: %w", err)
	}
	total := 0.0
	for p, e := range m.entries {
		total += e
		if p >= k {
			q.PinnedNode += uint64(m.nodes[p])
		}
	}
	q.Edges, q.CutEdges, q.Training = uint64(total/2), m.cut/2, m.trainingNodes
	if total > 0 {
		q.CutRate, q.LostRate = float64(m.cut)/total, float64(m.lost)/total
	}
	q.ResidentShare = []float64{m.share()}
	if access, ok := g.(graph.RandomAccess); ok {
		for h := 2; h <= o.Hops; h++ {
			q.ResidentShare = append(q.ResidentShare, m.walk(access, h))
		}
	}
	bytes := make([]float64, k)
	for p := range k {
		bytes[p] = m.nodes[p]*float64(o.BytesPerNode) + m.entries[p]*float64(o.BytesPerEntry)
		q.KeptByPartition = append(q.KeptByPartition, m.kept[p]/math.Max(m.entries[p], 1))
	}
	q.NodeSpread, q.EntrySpread = spread(m.nodes[:k]), spread(m.entries[:k])
	q.TrainingSpread, q.ByteSpread = spread(m.training[:k]), spread(bytes)
	q.Labels = m.labels
	q.PartitionLabels, q.MacroBatchLabels = m.divergence()
	return q, nil
}

type measure struct {
	o        QualityOptions
	k        int     // partitions that are not pinned
	resident float64 // of these, in a macro-batch
	part     []blocks.PartitionID

	nodes, entries, kept, training []float64 // by partition
	cut, lost                      uint64    // entries
	trainingNodes, withNeighbours  uint64
	firstHop                       float64
	labels                         int
	byLabel                        []float64 // [partition][label] training nodes
}

func newMeasure(a Assigner, o QualityOptions, resident float64) *measure {
	p := a.Partitions()
	return &measure{
		o: o, k: p - len(a.Pinned()), resident: resident, part: Materialize(a).part,
		nodes: make([]float64, p), entries: make([]float64, p), kept: make([]float64, p), training: make([]float64, p),
	}
}

// share is ResidentShare of one hop, after scan.
func (m *measure) share() float64 { return m.firstHop / math.Max(float64(m.withNeighbours), 1) }

func (m *measure) isTraining(v uint32) bool { return m.o.Classes == nil || m.o.Classes[v] > 0 }

// present is the chance that a partition other than the d distinct ones already asked for is resident,
// beside the training node's own.
func (m *measure) present(d int) float64 {
	if m.k-1-d <= 0 {
		return 1
	}
	return math.Max(0, (m.resident-float64(1+d))/float64(m.k-1-d))
}

func (m *measure) scan(ctx context.Context, g graph.Graph) error {
	for _, c := range m.o.Classes {
		m.labels = max(m.labels, int(c))
	}
	m.byLabel = make([]float64, len(m.nodes)*m.labels)
	other := m.present(0)
	return graph.EachNode(ctx, g, func(v uint32, neighbours []uint32) {
		own := m.part[v]
		inside, pinned := 0, 0
		for _, u := range neighbours { // without a branch on what nobody can guess
			p := m.part[u]
			if p == own {
				inside++
			}
			if int(p) >= m.k {
				pinned++
			}
		}
		if int(own) >= m.k {
			pinned -= inside
		}
		n := len(neighbours)
		m.nodes[own]++
		m.entries[own] += float64(n)
		m.kept[own] += float64(inside + pinned)
		m.cut += uint64(n - inside)
		if int(own) < m.k {
			m.lost += uint64(n - inside - pinned)
		}
		if !m.isTraining(v) {
			return
		}
		m.training[own]++
		m.trainingNodes++
		if m.labels > 0 {
			m.byLabel[int(own)*m.labels+int(m.o.Classes[v])-1]++
		}
		if n > 0 {
			m.withNeighbours++
			chance := other
			if int(own) >= m.k { // a pinned node is trained in some partition's step
				chance = m.resident / float64(m.k)
			}
			m.firstHop += (float64(inside+pinned) + chance*float64(n-inside-pinned)) / float64(n)
		}
	})
}

// walk estimates the expected share of walks of h steps whose nodes are all resident.
func (m *measure) walk(g graph.RandomAccess, h int) float64 {
	nodes := uint64(len(m.part))
	every := max(1, m.trainingNodes*4/walksMax)
	perNode := max(1, min(64, walksMax/max(m.trainingNodes, 1)))
	visited := make([]blocks.PartitionID, 0, h+1)
	var sum, walks float64
	seen, draw := uint64(0), graph.Mix(m.o.Seed+uint64(h))
	for v := range nodes {
		if !m.isTraining(uint32(v)) || g.Degree(uint32(v)) == 0 {
			continue
		}
		if seen++; seen%every != 0 {
			continue
		}
		for range perNode {
			at, chance := uint32(v), 1.0
			visited = append(visited[:0], m.part[v])
			distinct := 0
			if int(m.part[v]) >= m.k {
				distinct = -1
			}
			for range h {
				draw += 0x9e3779b97f4a7c15
				at = g.Neighbour(at, int(graph.Mix(draw)%uint64(g.Degree(at))))
				p := m.part[at]
				if int(p) >= m.k || contains(visited, p) {
					continue
				}
				chance *= m.present(distinct)
				distinct++
				visited = append(visited, p)
			}
			sum += chance
			walks++
		}
	}
	return sum / math.Max(walks, 1)
}

func contains(list []blocks.PartitionID, p blocks.PartitionID) bool {
	for _, x := range list {
		if x == p {
			return true
		}
	}
	return false
}

func spread(x []float64) Spread {
	s := Spread{Min: math.Inf(1)}
	for _, v := range x {
		s.Min, s.Max, s.Mean = min(s.Min, v), max(s.Max, v), s.Mean+v/float64(len(x))
	}
	if s.Mean > 0 {
		s.MaxOverMean = s.Max / s.Mean
	}
	return s
}

// divergence compares the labels of partitions, and of seeded random macro-batches, with all.
func (m *measure) divergence() (partitions, macroBatches Divergence) {
	if m.labels == 0 {
		return
	}
	all := make([]float64, m.labels)
	for i, n := range m.byLabel {
		all[i%m.labels] += n
	}
	row := func(p int) []float64 { return m.byLabel[p*m.labels : (p+1)*m.labels] }
	weight := 0.0
	for p := range m.k { // by its training nodes: a partition with few matters little
		d := totalVariation(row(p), all)
		partitions.Mean += d * m.training[p]
		partitions.Max = max(partitions.Max, d)
		partitions.Each = append(partitions.Each, d)
		weight += m.training[p]
	}
	partitions.Mean /= max(weight, 1)
	sum := make([]float64, m.labels)
	for draw := range macroBatchDraws {
		clear(sum)
		perm := graph.NewPermutation(uint64(m.k), m.o.Seed+uint64(draw))
		for i := range m.o.Resident {
			for l, n := range row(int(perm.At(uint64(i)))) {
				sum[l] += n
			}
		}
		d := totalVariation(sum, all)
		macroBatches.Mean += d / macroBatchDraws
		macroBatches.Max = max(macroBatches.Max, d)
		macroBatches.Each = append(macroBatches.Each, d)
	}
	return
}

func totalVariation(x, y []float64) float64 {
	var sx, sy, d float64
	for i := range x {
		sx, sy = sx+x[i], sy+y[i]
	}
	if sx == 0 || sy == 0 {
		return 0
	}
	for i := range x {
		d += math.Abs(x[i]/sx-y[i]/sy) / 2
	}
	return d
}
