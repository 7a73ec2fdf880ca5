package baseline

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
)

// placeSample is the place of the random draws (see keyed) of samples.
const placeSample = 0x62617365 // "base"

// sampler counts the labelled nodes of a split, and draws some.
type sampler struct {
	st           *store.Store
	m            *store.Manifest
	o            *Options
	label, split string
	key          keyed.Key
	testing      string    // the split whose nodes test
	value        uint8     // likewise
	nodes        [4]uint64 // labelled ones by split
}

func newSampler(st *store.Store, o *Options) (*sampler, error) {
	m := st.Manifest()
	split, err := m.SplitColumn(o.Split)
	if err != nil {
		return nil, err
	}
	labels := m.Labels()
	if labels == nil {
		return nil, fmt.Errorf("%w: a column of role %s", store.ErrNotFound, store.RoleLabel)
	}
	return &sampler{st: st, m: m, o: o, label: labels.Name, split: split.Name, key: keyed.New(o.Model.Seed).With(placeSample)}, nil
}

func (s *sampler) nodes64(split uint8) int64 { return int64(s.nodes[split]) }

// each calls fn for every labelled node of a split, by partition.
func (s *sampler) each(ctx context.Context, fn func(node store.NodeID, split uint8, label int32)) error {
	var labels, splits []byte
	for p := range s.m.Partitions {
		var err error
		if labels, err = s.st.ReadColumn(ctx, s.label, store.PartitionID(p), labels); err != nil {
			return err
		}
		if splits, err = s.st.ReadColumn(ctx, s.split, store.PartitionID(p), splits); err != nil {
			return err
		}
		for i, of := range splits {
			if l := int32(binary.LittleEndian.Uint32(labels[4*i:])); of != store.SplitNone && l >= 0 {
				fn(s.m.Partitions[p].First+store.NodeID(i), of, l)
			}
		}
	}
	return nil
}

// counts counts the nodes of each split, and sets what the most frequent class is worth.
func (s *sampler) counts(ctx context.Context, r *Result) error {
	var counts [4][]uint64
	for i := range counts {
		counts[i] = make([]uint64, s.m.Schema.Classes)
	}
	var far [4]float64 // of each split: the numbers' distances from the training nodes' mean
	scale, sets, of := s.o.Model.Numbers, s.m.LabelSets(), []int{}
	err := s.each(ctx, func(_ store.NodeID, split uint8, label int32) {
		switch {
		case scale != nil:
			s.nodes[split&3]++
			far[split&3] += math.Abs(float64(blocks.CodedNumber(label)) - float64(scale.Mean))
		case sets != nil && int(label) < sets.Len():
			for _, l := range sets.Of(label, of[:0]) {
				counts[split&3][l]++
			}
			s.nodes[split&3]++
		case sets == nil && int(label) < s.m.Schema.Classes:
			counts[split&3][label]++
			s.nodes[split&3]++
		}
	})
	if err != nil {
		return err
	}
	s.testing, s.value = "test", store.SplitTest
	if s.nodes[store.SplitTest] == 0 {
		s.testing, s.value = "valid", store.SplitValid
	}
	if r.Split = s.testing; s.nodes[s.value] == 0 || s.nodes[store.SplitTrain] == 0 {
		return fmt.Errorf("%w: labelled nodes to train and to test", store.ErrNotFound)
	}
	if scale != nil {
		mean, mae := float64(scale.Mean), far[s.value]/float64(s.nodes[s.value])
		r.Mean, r.MeanMAE = &mean, &mae
		return nil
	}
	if sets != nil {
		r.Constant = bestSaid(counts[store.SplitTrain], s.nodes[store.SplitTrain])
		f1 := constantF1(r.Constant, counts[s.value], s.nodes[s.value])
		r.ConstantF1 = &f1
		return nil
	}
	train := counts[store.SplitTrain]
	r.Majority = slices.Index(train, slices.Max(train))
	r.MajorityAccuracy = float64(counts[s.value][r.Majority]) / float64(s.nodes[s.value])
	return nil
}

// bestSaid are the labels that are best said of every one of some nodes, of which so many have each: the most frequent ones, as many as the
// micro-averaged F1 is the largest with.
func bestSaid(have []uint64, nodes uint64) []int {
	order := make([]int, len(have))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(have[b], have[a]) })
	most, best := 0, 0.
	for n := range len(order) + 1 {
		if f1 := constantF1(order[:n], have, nodes); f1 > best {
			most, best = n, f1
		}
	}
	return order[:most]
}

// constantF1 is the micro-averaged F1 of who says some labels of every one of some nodes, of which so many have each.
func constantF1(said []int, have []uint64, nodes uint64) float64 {
	var all, right uint64
	for _, n := range have {
		all += n
	}
	for _, j := range said {
		right += have[j]
	}
	if right == 0 {
		return 0
	}
	return 2 * float64(right) / float64(uint64(len(said))*nodes+all)
}

// data is a sample: rows of features and labels of its nodes, those that train first.
type data struct {
	slab               *blockio.Slab
	release            []func()
	tables             []gpu.Tensor
	labels             []int32
	train, valid, test places
}

func (d *data) close() error {
	for _, f := range d.release {
		f()
	}
	return d.slab.Free()
}

// draw draws and reads a sample.
func (s *sampler) draw(ctx context.Context, dev gpu.Device, w work) (_ *data, err error) {
	nodes, labels, parts, err := s.choose(ctx, w)
	if err != nil {
		return nil, err
	}
	d := &data{labels: labels}
	for i, of := range parts {
		switch of {
		case store.SplitTrain:
			d.train = append(d.train, uint32(i))
		case store.SplitValid:
			d.valid = append(d.valid, uint32(i))
		}
		if of == s.value {
			d.test = append(d.test, uint32(i))
		}
	}
	var bytes int64
	columns := make([]*store.ColumnInfo, len(s.o.Features))
	for i, name := range s.o.Features {
		if columns[i], err = s.m.Column(name); err != nil {
			return nil, err
		}
		bytes += int64(len(nodes)*columns[i].RowBytes()+63) &^ 63
	}
	if d.slab, err = blockio.AllocSlab(bytes, blockio.SlabOptions{}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	rest := d.slab.Bytes()
	for _, c := range columns {
		n := len(nodes) * c.RowBytes()
		b, err := s.st.Features(ctx, c.Name, nodes, rest[:n:n])
		if err != nil {
			return nil, err
		}
		t, release, err := nn.MapTable(dev, c.Name, b, len(nodes), c.Dim, c.RowBytes(), c.Elem, c.Scale)
		if err != nil {
			return nil, err
		}
		d.tables, d.release = append(d.tables, t), append(d.release, release)
		rest = rest[min((n+63)&^63, len(rest)):]
	}
	return d, nil
}

// chosen is a node of a sample.
type chosen struct {
	hash  uint64
	node  store.NodeID
	split uint8
	label int32
}

// choose draws nodes without replacement: of each split those with the smallest numbers of a keyed generator, so many as w says.
func (s *sampler) choose(ctx context.Context, w work) (nodes []store.NodeID, labels []int32, parts []uint8, err error) {
	want := [4]int{store.SplitTrain: w.train, store.SplitValid: w.valid}
	want[s.value] = max(want[s.value], w.test)
	var of [4][]chosen
	keep := func(split uint8) {
		slices.SortFunc(of[split], func(a, b chosen) int {
			switch {
			case a.hash < b.hash:
				return -1
			case a.hash > b.hash:
				return 1
			}
			return 0
		})
		of[split] = of[split][:min(len(of[split]), want[split])]
	}
	err = s.each(ctx, func(node store.NodeID, split uint8, label int32) {
		if split > store.SplitTest || s.o.Model.Numbers == nil && int(label) >= s.m.LabelValues() {
			return
		}
		if of[split] = append(of[split], chosen{s.key.At(uint64(node)), node, split, label}); len(of[split]) >= 2*want[split]+1024 {
			keep(split)
		}
	})
	if err != nil {
		return nil, nil, nil, err
	}
	for split := range uint8(4) {
		keep(split)
		for _, c := range of[split] {
			nodes, labels, parts = append(nodes, c.node), append(labels, c.label), append(parts, c.split)
		}
	}
	return nodes, labels, parts, nil
}
