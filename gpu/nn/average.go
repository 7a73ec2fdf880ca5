package nn

import "github.com/gstore/gstore/gpu"

// averageTail is η of the averages: at step t they weigh steps by about (s/t)^η, so that a tenth of the steps, the last ones, count most,
// however many there are.
const averageTail = 9

// OpenAverage makes room for averages of the values over steps, by polynomial decay (Shamir and Zhang, "Stochastic Gradient Descent for
// Non-smooth Optimization", 2013, section 4), which [Params.SaveState] then keeps too. They begin with the first step.
func (p *Params) OpenAverage() (err error) {
	p.average, err = p.dev.Alloc(max(4*int64(p.rows), 4))
	return err
}

func (p *Params) averages() gpu.Tensor { return gpu.MatrixOf(p.average, 0, 1, p.rows) }

// Average follows an optimiser step: the averages move to the values by (η+1)/(t+η). Gradients are lost.
func (p *Params) Average(q *gpu.Queue) {
	value, average, step := p.whole(rangeValue), p.averages(), p.whole(rangeGrad)
	if p.steps <= 1 {
		q.Copy(average, value)
		return
	}
	q.Copy(step, value)
	q.Axpy(-1, average, step)
	q.Axpy(float32(averageTail+1)/float32(p.steps+averageTail), step, average)
}

// SwapAverage exchanges the values and their averages: once to use these, and once more to train on. Gradients are lost.
func (p *Params) SwapAverage(q *gpu.Queue) {
	value, average, spare := p.whole(rangeValue), p.averages(), p.whole(rangeGrad)
	q.Copy(spare, value)
	q.Copy(value, average)
	q.Copy(average, spare)
}
