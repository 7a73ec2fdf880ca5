package kernels

import "math"

// AdamOptions is one step of Adam (Kingma and Ba, 2015, Algorithm 1). The
// weight decay is added to the gradient, as in PyTorch's Adam.
type AdamOptions struct {
	LR, Beta1, Beta2, Epsilon float32
	WeightDecay               float32
	Step                      int // 1 for the first step
}

// adamConstants are a step's constants, derived in float64.
type adamConstants struct {
	beta1, rest1, beta2, rest2 float32 // rest = 1−beta
	decay                      float32
	lr                         float32 // LR / (1−Beta1^Step)
	inv2                       float32 // 1 / sqrt(1−Beta2^Step)
	eps                        float32
}

func (o AdamOptions) constants() adamConstants {
	step := float64(max(o.Step, 1))
	return adamConstants{
		beta1: o.Beta1, rest1: float32(1 - float64(o.Beta1)),
		beta2: o.Beta2, rest2: float32(1 - float64(o.Beta2)),
		decay: o.WeightDecay,
		lr:    float32(float64(o.LR) / (1 - math.Pow(float64(o.Beta1), step))),
		inv2:  float32(1 / math.Sqrt(1-math.Pow(float64(o.Beta2), step))),
		eps:   o.Epsilon,
	}
}

// Adam updates param and its moments m and v with grad. All have one length.
func Adam(p *Pool, o AdamOptions, param, grad, m, v []float32) {
	checkLen("grad", len(grad), len(param))
	checkLen("m", len(m), len(param))
	checkLen("v", len(v), len(param))
	k, c := p.kernels(), o.constants()
	p.For(len(param), elementGrain, func(lo, hi int) {
		k.adam(param[lo:hi], m[lo:hi], v[lo:hi], grad[lo:hi], c.beta1, c.rest1, c.beta2, c.rest2, c.decay, c.lr, c.inv2, c.eps)
	})
}

// AdagradOptions is one step of Adagrad (Duchi et al., 2011).
type AdagradOptions struct {
	LR, Epsilon float32
	WeightDecay float32 // added to the gradient
}

// Adagrad adds grad² to sum and subtracts LR·grad/(√sum+Epsilon) from param.
func Adagrad(p *Pool, o AdagradOptions, param, grad, sum []float32) {
	checkLen("grad", len(grad), len(param))
	checkLen("sum", len(sum), len(param))
	k := p.kernels()
	p.For(len(param), elementGrain, func(lo, hi int) {
		k.adagrad(param[lo:hi], sum[lo:hi], grad[lo:hi], o.LR, o.Epsilon, o.WeightDecay)
	})
}

// SGDOptions is one step of stochastic gradient descent.
type SGDOptions struct {
	LR          float32
	WeightDecay float32 // added to the gradient
	Momentum    float32 // of the velocity; 0: none
}

// SGD sets velocity = Momentum·velocity + grad and param −= LR·velocity, as
// PyTorch does. velocity may be nil if Momentum is 0.
func SGD(p *Pool, o SGDOptions, param, grad, velocity []float32) {
	checkLen("grad", len(grad), len(param))
	k := p.kernels()
	if o.Momentum == 0 {
		p.For(len(param), elementGrain, func(lo, hi int) {
			k.sgd(param[lo:hi], grad[lo:hi], o.LR, o.WeightDecay)
		})
		return
	}
	checkLen("velocity", len(velocity), len(param))
	p.For(len(param), elementGrain, func(lo, hi int) {
		k.sgdMomentum(param[lo:hi], velocity[lo:hi], grad[lo:hi], o.LR, o.WeightDecay, o.Momentum)
	})
}
