package ingest

import (
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/partitioner/graph"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/edges"
)

// slack is how much more than an even share of edges a partition, or a pair of them, is taken to hold before edges are counted. Where they
// are more uneven than that, and it matters, checkUneven counts them.
const slack = 1.25

// edgesKnown is how many edges will be read; 0 where that is not known yet.
func (r *Job) edgesKnown() int64 {
	n := max(r.Desc.Edges, r.State.Counted, 0)
	if r.Options.SelfLoops == SelfLoopsAdd {
		n += int64(r.State.Nodes)
	}
	return n
}

// payload is how many bytes an edge has beside its key while it is sorted.
func (r *Job) payload() int {
	rules := r.rules()
	l := r.Layout
	if l == nil {
		var err error
		if l, err = edges.NewLayout(r.evenSizes(), rules.PayloadBits(), 1<<30); err != nil {
			return rules.PayloadBytes()
		}
	}
	if l.InlineBits > 0 {
		return 0
	}
	return rules.PayloadBytes()
}

// evenSizes are the nodes of each partition where they are filled evenly.
func (r *Job) evenSizes() []uint32 {
	n := r.State.Nodes
	p := uint64(r.partitions(n))
	sizes := make([]uint32, p)
	for k := range sizes {
		sizes[k] = uint32(min((n+p-1-uint64(k))/p, math.MaxUint32))
	}
	return sizes
}

// sortBytes is what edges take where sorting the largest bucket takes so many bytes. Chunks that are not sorted yet take at most three
// quarters of it, and no more than all records and a chunk being filled for each worker and partition.
func (r *Job) sortBytes(need int64) int64 {
	n := max(r.edgesMost(), int64(r.State.EdgesRead))
	if n == 0 {
		return 4 * need
	}
	open := int64(r.Options.Threads+1) * int64(r.partitions(r.State.Nodes)) * (256 << 10)
	return min(4*need, need+n*int64(8+r.payload())*17/16+open)
}

// bucketBytes is what edges are likely to take, by the bucket of edges between two partitions that is sorted at once.
func (r *Job) bucketBytes() int64 {
	n, p := r.edgesMost(), int64(r.partitions(r.State.Nodes))
	if n == 0 {
		return 0
	}
	bucket := n
	switch {
	case r.counts != nil:
		bucket = r.counts.largest
	case p == 1:
	case r.looksAtGraph(): // most edges are inside of partitions
		bucket = min(n, int64(slack*float64(n/p)))
	default: // undirected, a bucket holds the edges both ways
		bucket = min(n, int64(slack*float64(2*n/p/p)))
	}
	return r.sortBytes(edges.SortNeed(bucket, r.payload()))
}

// looksAtGraph reports whether the partitioner reads edges.
func (r *Job) looksAtGraph() bool {
	return r.Assigner == nil && (r.Options.Partitioner.NeedsGraph() || r.Options.pins())
}

// graphFixed is what is in memory beside the graph and the partitioner.
func (r *Job) graphFixed() int64 {
	return int64(runtimeBytes) + SourceBytes + r.State.DictionaryBytes + 2*int64(r.State.Nodes) // classes, or which nodes train
}

// phasesBytes is the smallest budget for the phases beside those of which LeastBytes knows: the partitioner, and what is done with the
// store later. What depends on edges that are not counted yet is taken as it mostly is at worst.
func (r *Job) phasesBytes() (least int64) {
	if !r.whole {
		return 0
	}
	if nodes := r.State.Nodes; r.looksAtGraph() {
		o := r.partitionerOptions(r.partitions(nodes))
		if r.training != nil {
			nodes = r.training.Rest()
			o.Nodes = nodes
		}
		least = r.graphFixed() + r.partitionerNeed(&o, nodes).Stream + graph.SpilledBytes(nodes)
	}
	if r.Options.Later != nil {
		least = max(least, r.Options.Later.LeastBytes(r.planned()))
	}
	return least
}

// planned is the manifest that the store will have, as far as it is known, without files.
func (r *Job) planned() *store.Manifest {
	m := &store.Manifest{Nodes: r.State.Nodes}
	m.Schema.Undirected = r.Options.Undirected
	for _, t := range r.Desc.NodeTypes {
		m.Schema.NodeTypes = append(m.Schema.NodeTypes, store.NodeType{Name: t.Name, Count: uint64(max(t.Count, 0))})
	}
	for _, name := range r.relationNames() {
		m.Schema.Relations = append(m.Schema.Relations, store.Relation{Name: name})
	}
	for _, c := range r.Desc.NodeColumns {
		elem := c.Elem
		if c.Role == store.RoleFeature {
			elem = r.Options.FeatureElemOf(c)
		}
		m.Columns = append(m.Columns, store.ColumnInfo{Name: c.Name, Role: c.Role, Elem: elem, Dim: c.Dim, NodeType: c.NodeType})
	}
	rules := r.rules()
	if n := rules.RelationBytes(); n > 0 {
		elem := blocks.Uint8
		if n == 2 {
			elem = blocks.Uint16
		}
		m.Columns = append(m.Columns, store.ColumnInfo{Name: "relation", Role: store.RoleRelation, Elem: elem, Dim: 1})
	}
	if len(r.Manifest.Topology) > 0 { // edges are written
		m.Partitions = r.Manifest.Partitions
	} else {
		m.Partitions = r.plannedPartitions()
	}
	for _, p := range m.Partitions {
		m.Edges += p.Edges
	}
	return m
}

// plannedPartitions are partitions of which edges are not counted yet.
func (r *Job) plannedPartitions() (parts []store.PartitionInfo) {
	sizes := r.evenSizes()
	if r.Layout != nil {
		sizes = r.Layout.Sizes
	}
	rules := r.rules()
	n, p := float64(r.edgesMost()), float64(len(sizes))
	more := 1.0
	if p > 1 {
		more = slack
	}
	add := func(nodes uint64, edges float64) {
		info := store.PartitionInfo{Nodes: nodes, Edges: uint64(edges)}
		if k := len(parts); k > 0 {
			info.First = parts[k-1].First + store.NodeID(parts[k-1].Nodes)
		}
		parts = append(parts, info)
	}
	for k, size := range sizes {
		if r.counts != nil && k < len(r.counts.into) {
			add(uint64(size), float64(r.counts.into[k]))
			continue
		}
		share := 1 / p
		if rules.Undirected { // an edge is with the later of its ends' partitions
			share = float64(2*k+1) / p / p
		}
		nodes := uint64(size)
		if r.Layout == nil && r.looksAtGraph() {
			nodes = min(r.State.Nodes, uint64(math.Ceil(float64(size)*(1+partitioner.DefaultSlack))))
		}
		add(nodes, min(n, more*share*n))
	}
	if r.Layout == nil && (r.Options.pins() || r.Options.HubsTrain) { // hubs have many of the edges
		hubs := max(r.Options.Hubs, 1./64) // the most that are pinned unasked
		add(uint64(math.Ceil(hubs*float64(r.State.Nodes))), n/2)
	}
	return parts
}
