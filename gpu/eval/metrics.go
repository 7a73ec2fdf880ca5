package eval

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
)

// Confusion counts nodes by their label and what a model predicts.
type Confusion struct {
	Classes int
	Counts  []int64 // [label·Classes + prediction]
}

func newConfusion(classes int) *Confusion {
	return &Confusion{classes, make([]int64, classes*classes)}
}

// At returns how many nodes of class label were predicted to be of class predicted.
func (c *Confusion) At(label, predicted int) int64 { return c.Counts[label*c.Classes+predicted] }

// Correct returns the nodes that were predicted right.
func (c *Confusion) Correct() (n int64) {
	for k := range c.Classes {
		n += c.At(k, k)
	}
	return n
}

// BalancedAccuracy is the mean, over the classes that occur among labels, of the share of a class's nodes that were predicted right; 0
// without nodes.
func (c *Confusion) BalancedAccuracy() float64 {
	var recalls mean
	for k := range c.Classes {
		var of int64
		for j := range c.Classes {
			of += c.At(k, j)
		}
		recalls.add(float64(c.At(k, k)) / float64(of)) // 0/0 is none
	}
	if recalls.n == 0 {
		return 0
	}
	return recalls.value()
}

// F1 returns the harmonic mean of precision and recall, 2tp/(2tp+fp+fn): macro, the mean over
// the classes that occur among labels or predictions, and micro, of the sums over classes. Where
// every node has one label and one prediction, micro is the accuracy. Both are 0 without nodes.
func (c *Confusion) F1() (macro, micro float64) {
	var seen int
	var hits, misses int64
	for k := range c.Classes {
		var fp, fn int64
		for j := range c.Classes {
			if j != k {
				fn += c.At(k, j)
				fp += c.At(j, k)
			}
		}
		tp := c.At(k, k)
		hits, misses = hits+tp, misses+fp+fn
		if tp+fp+fn > 0 {
			seen++
			macro += 2 * float64(tp) / float64(2*tp+fp+fn)
		}
	}
	if seen == 0 {
		return 0, 0
	}
	return macro / float64(seen), 2 * float64(hits) / float64(2*hits+misses)
}

// scores holds, for every node of a split, what a model says for each class, class after
// class, in memory or in a file: 4 bytes a node and class.
type scores struct {
	first   int // class; of two classes the second alone is held
	classes int // held
	nodes   uint64
	table   *spill.Table
	sets    *store.LabelSets // where a node has several labels; else nil
	labels  []uint32         // of the nodes added; off the heap
	slab    *blockio.Slab
	n       int // nodes added
	column  []float32
}

// newScores makes room for the nodes of a split, of which some may have no label.
func newScores(classes int, nodes uint64, sets *store.LabelSets, inMemory bool, dir string) (_ *scores, err error) {
	s := &scores{classes: classes, nodes: nodes, sets: sets}
	if classes == 2 && sets == nil {
		s.first, s.classes = 1, 1
	}
	if nodes == 0 {
		return s, nil
	}
	if s.table, err = spill.New(nodes*uint64(s.classes), 4, inMemory, dir); err != nil {
		return nil, err
	}
	if s.slab, err = blockio.AllocSlab(int64(nodes)*4, blockio.SlabOptions{}); err == nil {
		s.labels, err = blocks.View[uint32](s.slab.Bytes()[:nodes*4])
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *scores) close() {
	s.table.Close()
	if s.slab != nil {
		_ = s.slab.Free() // anonymous memory; a failure only leaks it
	}
}

// add appends the labelled ones of some nodes: logits are rows of all classes.
func (s *scores) add(logits []float32, labels []int32) error {
	width := len(logits) / max(1, len(labels))
	n := 0
	for _, l := range labels {
		if l >= 0 {
			n++
		}
	}
	if uint64(s.n+n) > s.nodes {
		return fmt.Errorf("evaluation: more than the %d nodes of a split", s.nodes)
	}
	for c := range s.classes {
		s.column = s.column[:0]
		for i, l := range labels {
			switch row := logits[i*width : (i+1)*width]; {
			case l < 0:
			case s.sets != nil:
				s.column = append(s.column, row[c])
			default:
				s.column = append(s.column, logOdds(row, s.first+c))
			}
		}
		if len(s.column) == 0 {
			return nil
		}
		if err := s.table.Write(blocks.Bytes(s.column), uint64(c)*s.nodes+uint64(s.n)); err != nil {
			return err
		}
	}
	for _, l := range labels {
		if l >= 0 {
			s.labels[s.n] = uint32(l)
			s.n++
		}
	}
	return nil
}

// logOdds returns log(p/(1−p)) of class c under the softmax: in the order of p, but
// without its saturation at 1.
func logOdds(logits []float32, c int) float32 {
	top := math.Inf(-1)
	for k, v := range logits {
		if k != c {
			top = max(top, float64(v))
		}
	}
	if math.IsInf(top, 0) {
		return float32(float64(logits[c]) - top)
	}
	sum := 0.
	for k, v := range logits {
		if k != c {
			sum += math.Exp(float64(v) - top)
		}
	}
	return float32(float64(logits[c]) - top - math.Log(sum))
}

// areas returns the area under the ROC curve and the average precision: of the second of two classes, or the mean over
// classes of each against the rest. Classes without nodes, and of the former those with all of them, are left out; NaN if
// none is left. Both are exact, equal scores are one threshold; one class's scores are sorted at a time, 8 bytes a node.
func (s *scores) areas(ctx context.Context) (auc, precision float64, err error) {
	if s.n == 0 {
		return math.NaN(), math.NaN(), nil
	}
	slab, err := blockio.AllocSlab(int64(s.n)*12, blockio.SlabOptions{})
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = slab.Free() }()
	keys, err := blocks.View[uint64](slab.Bytes()[:8*s.n])
	if err != nil {
		return 0, 0, err
	}
	raw := slab.Bytes()[8*s.n : 12*s.n]
	var areas, precisions mean
	for c := range s.classes {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		if err := s.table.Read(raw, uint64(c)*s.nodes); err != nil {
			return 0, 0, err
		}
		class := uint32(s.first + c)
		for i, v := range asFloat32(raw) {
			keys[i] = uint64(ordered(v)) << 1
			if s.sets == nil && s.labels[i] == class || s.sets != nil && s.sets.Has(int32(s.labels[i]), c) {
				keys[i] |= 1
			}
		}
		slices.Sort(keys)
		areas.add(areaUnderROC(keys))
		precisions.add(averagePrecision(keys))
	}
	return areas.value(), precisions.value(), nil
}

// mean is that of the numbers added; NaN is none.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(x float64) {
	if !math.IsNaN(x) {
		m.sum, m.n = m.sum+x, m.n+1
	}
}

func (m *mean) value() float64 { return m.sum / float64(m.n) } // 0/0 is NaN

// ordered maps a float to an integer of the same order, −0 to that of 0.
func ordered(v float32) uint32 {
	if v == 0 {
		v = 0
	}
	b := math.Float32bits(v)
	if b>>31 == 1 {
		return ^b
	}
	return b | 1<<31
}

// areaUnderROC returns, of ascending keys, scores with a lowest bit that is 1 for positives, the
// share of pairs of a positive and a negative that they order right, equal scores counting
// half (the Mann–Whitney statistic); NaN without a pair.
func areaUnderROC(keys []uint64) float64 {
	var below, right, positives float64 // negatives seen, pairs in order
	for i := 0; i < len(keys); {
		var pos, neg float64
		for score := keys[i] >> 1; i < len(keys) && keys[i]>>1 == score; i++ {
			if keys[i]&1 == 1 {
				pos++
			} else {
				neg++
			}
		}
		right += pos * (below + neg/2)
		below, positives = below+neg, positives+pos
	}
	return right / (positives * below)
}

// averagePrecision returns, of ascending keys as areaUnderROC takes them, Σ (R_k − R_{k−1})·P_k over the distinct scores from the largest
// on, R and P being recall and precision of all nodes with that score or a larger one: scikit-learn's average_precision_score. NaN
// without a positive.
func averagePrecision(keys []uint64) float64 {
	var sum, positives, seen float64
	for i := len(keys); i > 0; {
		var pos float64
		for score := keys[i-1] >> 1; i > 0 && keys[i-1]>>1 == score; i-- {
			pos += float64(keys[i-1] & 1)
			seen++
		}
		positives += pos
		sum += pos * (positives / seen)
	}
	return sum / positives
}

// AUCBytes returns the memory that [Metrics].AUC of some splits takes: 4 bytes a node of each, and 12 of the largest.
// split is a column's name, "" the store's first.
func AUCBytes(ctx context.Context, src Source, split string, splits []string) (int64, error) {
	column, err := src.Manifest().SplitColumn(split)
	if err != nil {
		return 0, fmt.Errorf("evaluation: %w", err)
	}
	counts, _, err := countSplits(ctx, src, column.Name)
	if err != nil {
		return 0, err
	}
	var all, largest uint64
	for _, s := range splits {
		n := counts[store.SplitValue(s)]
		all, largest = all+n, max(largest, n)
	}
	return 4*int64(all) + 12*int64(largest), nil
}

// countSplits returns how many nodes have each value of a split column, and the bytes read.
func countSplits(ctx context.Context, src Source, column string) (counts map[uint8]uint64, read int64, err error) {
	counts = map[uint8]uint64{}
	var b []byte
	for p := range src.Manifest().Partitions {
		if b, err = src.ReadColumn(ctx, column, store.PartitionID(p), b); err != nil {
			return nil, read, err
		}
		stored, err := src.ColumnBytes(column, store.PartitionID(p))
		if err != nil {
			return nil, read, err
		}
		read += stored
		for _, v := range b {
			counts[v]++
		}
	}
	return counts, read, nil
}
