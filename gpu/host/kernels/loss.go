package kernels

import (
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
)

// lossGrain is the number of rows of a partial sum of the loss.
const lossGrain = 64

// SoftmaxCrossEntropy returns the sum over the rows with a label ≥ 0 of the
// negative log probability of the label under softmax(logits), and how many
// of those rows have their greatest logit (the first of equals) at the label. If grad
// has the shape of logits, it is set to the gradient of the mean loss: (softmax − one-hot)
// / number of labelled rows, and 0 in the other rows; a grad of no rows is left out.
// grad may be logits itself. labels[i] < logits.Cols.
func SoftmaxCrossEntropy(p *Pool, logits Matrix, labels []int32, grad Matrix) (loss float64, correct int) {
	logits.check("logits")
	checkLen("labels", len(labels), logits.Rows)
	labelled := 0
	for i, l := range labels {
		if l >= 0 {
			labelled++
		}
		if int(l) >= logits.Cols {
			panic(fmt.Sprintf("kernels: label %d in row %d, but there are %d classes", l, i, logits.Cols))
		}
	}
	return softmaxLoss(p, logits, func(i int) int { return int(labels[i]) }, grad, 1/float32(max(labelled, 1)))
}

// NumberLoss returns the sums over the rows with a label ≥ 0, the code of a number, of Huber's loss and of |d|, d being the
// distance between outputs [n×1] and (number − mean)/deviation: d²/2, beyond 1 |d| − 1/2. grad, which may be outputs, becomes
// the gradient of the mean loss, and 0 in the other rows.
func NumberLoss(mean, deviation float32, outputs Matrix, labels []int32, grad Matrix) (loss, distance float64) {
	outputs.check("outputs")
	checkLen("labels", len(labels), outputs.Rows)
	grad.checkShape("grad", outputs.Rows, 1)
	labelled := 0
	for _, l := range labels {
		if l >= 0 {
			labelled++
		}
	}
	by := 1 / float32(max(labelled, 1))
	for i, l := range labels {
		to := grad.Row(i)
		if l < 0 {
			to[0] = 0
			continue
		}
		d := outputs.Row(i)[0] - (blocks.CodedNumber(l)-mean)/deviation
		far := max(d, -d)
		if distance += float64(far); far > 1 {
			loss += float64(far) - .5
			to[0] = by
			if d < 0 {
				to[0] = -by
			}
			continue
		}
		loss += float64(d) * float64(d) / 2
		to[0] = d * by
	}
	return loss, distance
}

// MultiLabelLoss returns the sums over the rows with a label ≥ 0, the number of a set of labels, of the mean over labels of the binary
// cross-entropy, and of the share of labels that the row says right: those with a logit above 0 are said. sets has ⌈columns/32⌉
// words a set, bit j%32 of word j/32 being label j. grad, which may be logits, becomes the gradient of the mean over rows, and 0 in
// the other rows.
func MultiLabelLoss(p *Pool, sets []int32, logits Matrix, labels []int32, grad Matrix) (loss, right float64) {
	logits.check("logits")
	checkLen("labels", len(labels), logits.Rows)
	grad.checkShape("grad", logits.Rows, logits.Cols)
	words, labelled := (logits.Cols+31)/32, 0
	for i, l := range labels {
		if l >= 0 {
			labelled++
		}
		if (int(l)+1)*words > len(sets) {
			panic(fmt.Sprintf("kernels: label %d in row %d, but there are %d sets", l, i, len(sets)/words))
		}
	}
	if logits.Rows == 0 {
		return 0, 0
	}
	k, by := p.kernels(), 1/(float32(max(labelled, 1))*float32(logits.Cols))
	type partial struct{ loss, right float64 }
	parts := make([]partial, (logits.Rows-1)/lossGrain+1)
	p.For(logits.Rows, lossGrain, func(lo, hi int) {
		far := p.floats(logits.Cols)
		defer p.putFloats(far)
		var s partial
		for i := lo; i < hi; i++ {
			to := grad.Row(i)
			if labels[i] < 0 {
				clear(to)
				continue
			}
			row, set := logits.Row(i), sets[int(labels[i])*words:]
			for j, x := range row {
				far[j] = min(x, -x)
			}
			k.expSum(far, far, 0) // exp(−|x|)
			var sum float64
			right, product := 0, 1.
			for j, x := range row {
				y, e := set[j/32]>>(j%32)&1 == 1, far[j]
				if y == (x > 0) {
					right++
				}
				if product *= 1 + float64(e); product > 1e300 {
					sum, product = sum+math.Log(product), 1
				}
				// log(1 + exp(−|x|)) is added with the others' of the row, above.
				sigmoid := 1 / (1 + e)
				if x <= 0 {
					sigmoid = e / (1 + e)
				}
				if sum += float64(max(x, 0)); y {
					sum -= float64(x)
					sigmoid--
				}
				to[j] = sigmoid * by
			}
			s.loss += (sum + math.Log(product)) / float64(logits.Cols)
			s.right += float64(right) / float64(logits.Cols)
		}
		parts[lo/lossGrain] = s
	})
	for _, s := range parts {
		loss, right = loss+s.loss, right+s.right
	}
	return loss, right
}

// SoftmaxFirst is the loss of rows whose first column is the truth, and grad, which
// has the shape of scores and may be scores, the gradient of the rows' sum, not of their mean.
func SoftmaxFirst(p *Pool, scores, grad Matrix) (loss float64, first int) {
	scores.check("scores")
	return softmaxLoss(p, scores, func(int) int { return 0 }, grad, 1)
}

// softmaxLoss sets grad to by·(softmax − one-hot).
func softmaxLoss(p *Pool, logits Matrix, labelOf func(row int) int, grad Matrix, by float32) (loss float64, correct int) {
	wantGrad := grad.Rows != 0
	if wantGrad {
		grad.checkShape("grad", logits.Rows, logits.Cols)
	}
	if logits.Rows == 0 || logits.Cols == 0 {
		return 0, 0
	}
	k := p.kernels()
	type partial struct {
		loss    float64
		correct int
	}
	parts := make([]partial, (logits.Rows-1)/lossGrain+1)
	p.For(logits.Rows, lossGrain, func(lo, hi int) {
		tmp := p.floats(logits.Cols)
		defer p.putFloats(tmp)
		var s partial
		for i := lo; i < hi; i++ {
			row, label := logits.Row(i), labelOf(i)
			if label < 0 {
				if wantGrad {
					clear(grad.Row(i))
				}
				continue
			}
			top := k.rowMax(row)
			at := row[label]
			if at == top && firstAt(row, top) == label {
				s.correct++
			}
			out := tmp
			if wantGrad {
				out = grad.Row(i)
			}
			sum := k.expSum(out, row, top)
			s.loss += math.Log(float64(sum)) - float64(at-top)
			if wantGrad {
				k.scale(out, by/sum)
				out[label] -= by
			}
		}
		parts[lo/lossGrain] = s
	})
	for _, s := range parts {
		loss += s.loss
		correct += s.correct
	}
	return loss, correct
}

func firstAt(x []float32, v float32) int {
	for i, e := range x {
		if e == v {
			return i
		}
	}
	return -1
}
