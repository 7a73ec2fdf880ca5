package kernels

// What the processor and its memory can do at best, for benchmarks to compare with.

// PeakFMA does rounds of fused multiply-adds in registers on every thread of p and
// returns the floating-point operations done; 0 if the instruction set has none.
func PeakFMA(p *Pool, rounds int) float64 {
	k := p.kernels()
	if k.peakFMA == nil || rounds < 1 {
		return 0
	}
	p.For(p.Threads(), 1, func(int, int) { k.peakFMA(rounds) })
	return float64(p.Threads()) * float64(rounds) * float64(k.peakFlops)
}

// MaxUint32 returns the greatest element of x, 0 if there is none: a loop that
// does little but read memory in sequence.
func MaxUint32(p *Pool, x []uint32) uint32 {
	const grain = 1 << 18
	k := p.kernels()
	parts := make([]uint32, (len(x)+grain-1)/grain)
	p.For(len(x), grain, func(lo, hi int) { parts[lo/grain] = k.maxUint32(x[lo:hi]) })
	return k.maxUint32(parts)
}
