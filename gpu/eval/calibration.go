package eval

import "math"

// CalibrationBins is into how many parts of equal width probabilities are divided, as Guo and others do.
const CalibrationBins = 15

// Calibration compares how sure a model is with how often it is right (Guo and others, "On Calibration of Modern Neural Networks", ICML
// 2017, section 2): of classes the probability of the predicted one, of several labels a node that of each label.
type Calibration struct {
	Count [CalibrationBins]int64   // of predictions, by their probability
	Sure  [CalibrationBins]float64 // sums of it
	Right [CalibrationBins]int64   // how many were right, or of labels how many are the node's
}

func (c *Calibration) add(probability float32, right bool) {
	k := min(CalibrationBins-1, int(probability*CalibrationBins))
	if k < 0 { // it is no number
		return
	}
	c.Count[k]++
	c.Sure[k] += float64(probability)
	if right {
		c.Right[k]++
	}
}

// Bin is the mean probability and the share of right ones of a part; NaN of one without any.
func (c *Calibration) Bin(k int) (sure, right float64) {
	n := float64(c.Count[k])
	return c.Sure[k] / n, float64(c.Right[k]) / n
}

// Error is the expected calibration error (eq. 3): by how much the two differ in the mean over predictions. NaN without any.
func (c *Calibration) Error() float64 {
	var n int64
	off := 0.
	for k, count := range c.Count {
		n += count
		off += math.Abs(c.Sure[k] - float64(c.Right[k]))
	}
	return off / float64(n)
}

// calibrate adds a node's outputs to split i.
func (r *evaluation) calibrate(i int, logits []float32, label int32) {
	c := r.metrics[i].Calibration
	switch {
	case c == nil || label < 0:
	case r.sets != nil:
		for j, x := range logits {
			c.add(float32(1/(1+math.Exp(-float64(x)))), r.sets.Has(label, j))
		}
	default:
		class, p := predict(logits)
		c.add(p, class == label)
	}
}
