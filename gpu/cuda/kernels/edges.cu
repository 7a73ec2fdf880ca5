// Values of edges: [edges × heads] without gaps. A warp a destination.
#include "gs.h"

// bounds is messages.cu's. Every loop below that has warp operations is the same for all lanes.

KERNEL edge_weights(const int *indptr, const int *indices, const int *srcDegrees, const int *dstDegrees, int loops, int symmetric, int sampled, int n, int numSrc,
		int edges, float *out, unsigned op, Status *status) {
	Group g(32);
	for (int64_t d = g.row; d < n; d += g.step) {
		int lo, hi;
		bounds(indptr, d, edges, lo, hi, g.lane == 0, op, status);
		double w = 1, norm = 1;
		int count = hi - lo - loops;
		if (sampled && count > 0) w = double(dstDegrees[d]) / double(count);
		if (symmetric) norm = 1 / sqrt(double(dstDegrees[d]) + 1);
		for (int e = lo + g.lane; e < hi; e += 32) {
			double v = e < lo + loops ? norm : w * norm;
			if (symmetric) {
				unsigned s = unsigned(indices[e]);
				if (s >= unsigned(numSrc)) {
					fail(status, op, unsigned(e), s, unsigned(numSrc));
					continue;
				}
				v /= sqrt(double(srcDegrees[s]) + 1);
			}
			out[e] = float(v);
		}
	}
}
EXPORT_KERNEL(edge_weights)

// edge_add: out[e][h] = leaky(src[s][h] + dst[d][h] + edge[e][h]), which is 0 where edge is null; it may be out.
KERNEL edge_add(const int *indptr, const int *indices, const float *src, int64_t srcStride, const float *dst, int64_t dstStride, const float *edge, float slope, int heads,
		int n, int numSrc, int edges, float *out, unsigned op, Status *status) {
	Group g(32);
	for (int64_t d = g.row; d < n; d += g.step) {
		int lo, hi;
		bounds(indptr, d, edges, lo, hi, g.lane == 0, op, status);
		for (int i = g.lane; i < (hi - lo) * heads; i += 32) {
			int e = lo + i / heads, h = i % heads;
			unsigned s = unsigned(indices[e]);
			if (s >= unsigned(numSrc)) fail(status, op, unsigned(e), s, unsigned(numSrc));
			else out[int64_t(e) * heads + h] = gs_leaky(src[s * srcStride + h] + dst[d * dstStride + h] + (edge ? edge[int64_t(e) * heads + h] : 0), slope);
		}
	}
}
EXPORT_KERNEL(edge_add)

// edge_dot: out[e][h] = head h of src[s] · head h of dst[d], by `lanes` lanes each.
KERNEL edge_dot(const int *indptr, const int *indices, const float *src, int64_t srcStride, const float *dst, int64_t dstStride, int heads, int width, int lanes, int n,
		int numSrc, int edges, float *out, unsigned op, Status *status) {
	Group g(32);
	for (int64_t d = g.row; d < n; d += g.step) {
		int lo, hi;
		bounds(indptr, d, edges, lo, hi, g.lane == 0, op, status);
		int count = (hi - lo) * heads;
		for (int first = 0; first < count; first += 32 / lanes) { // 32/lanes pairs of edge and head at once
			int i = first + g.lane / lanes, lane = g.lane % lanes;
			float sum = 0;
			if (i < count) {
				int e = lo + i / heads, h = i % heads;
				unsigned s = unsigned(indices[e]);
				if (s < unsigned(numSrc)) {
					const float *x = src + s * srcStride + h * width, *y = dst + d * dstStride + h * width;
					for (int j = lane; j < width; j += lanes) sum += x[j] * y[j];
				} else if (lane == 0) {
					fail(status, op, unsigned(e), s, unsigned(numSrc));
				}
			}
			for (int k = lanes / 2; k > 0; k /= 2) sum += __shfl_xor_sync(allLanes, sum, k);
			if (i < count && lane == 0) out[int64_t(lo) * heads + i] = sum;
		}
	}
}
EXPORT_KERNEL(edge_dot)

// edge_softmax: the values of a destination's edges become their softmax, head by head.
KERNEL edge_softmax(const int *indptr, int heads, int n, int edges, float *x, unsigned op, Status *status) {
	Group g(32);
	for (int64_t d = g.row; d < n; d += g.step) {
		int lo, hi;
		bounds(indptr, d, edges, lo, hi, g.lane == 0, op, status);
		if (lo == hi) continue;
		for (int h = 0; h < heads; h++) {
			float *at = x + h, top = -gs_inf(), sum = 0;
			for (int e = lo + g.lane; e < hi; e += 32) top = gs_max(top, at[int64_t(e) * heads]);
			top = warpMax(top);
			for (int e = lo + g.lane; e < hi; e += 32) {
				float v = expf(at[int64_t(e) * heads] - top);
				at[int64_t(e) * heads] = v;
				sum += v;
			}
			float by = 1 / warpSum(sum);
			for (int e = lo + g.lane; e < hi; e += 32) at[int64_t(e) * heads] *= by;
		}
	}
}
EXPORT_KERNEL(edge_softmax)

// edge_softmax_backward: d = a·(d − Σ a·d).
KERNEL edge_softmax_backward(const int *indptr, int heads, int n, int edges, const float *a, float *x, unsigned op, Status *status) {
	Group g(32);
	for (int64_t d = g.row; d < n; d += g.step) {
		int lo, hi;
		bounds(indptr, d, edges, lo, hi, g.lane == 0, op, status);
		for (int h = 0; h < heads; h++) {
			float sum = 0;
			for (int64_t e = lo + g.lane; e < hi; e += 32) sum += a[e * heads + h] * x[e * heads + h];
			sum = warpSum(sum);
			for (int64_t e = lo + g.lane; e < hi; e += 32) x[e * heads + h] = a[e * heads + h] * (x[e * heads + h] - sum);
		}
	}
}
EXPORT_KERNEL(edge_softmax_backward)

// power is the x-th power of two, x ≤ 0; 0 where that is far below what a float can be.
__device__ inline float power(float x) { return x > -200 ? ldexpf(1, int(x)) : x != x ? x : 0; }

// split makes of a score the exponent of two of e^score, and what is left of the score beside it.
__device__ inline void split(float score, float &exponent, float &rest) {
	double e = rint(double(score) * 1.4426950408889634);
	exponent = float(e), rest = float(double(score) - e * 0.69314718055994531);
}

// online_weights: the first half of online attention (after Milakov and Gimelshein, 2018, Algorithm 3): the weights
// e^score/2^peak of the new edges, the new peak, which is the exponent of two of the largest e^score, and total, and by what the
// sums so far shrink. Totals are added up edge by edge, so that a list in pieces gives the bits of a whole one.
KERNEL online_weights(const int *indptr, const int *indices, const float *srcScore, int64_t srcStride, const float *dstScore, int64_t dstStride, const float *edgeScore,
		float slope, int heads, int n, int numSrc, int edges, float *peak, int64_t peakStride, float *total, int64_t totalStride, float *weights, float *shrinks, unsigned op, Status *status) {
	Group g(32);
	for (int64_t d = g.row; d < n; d += g.step) {
		int lo, hi;
		bounds(indptr, d, edges, lo, hi, g.lane == 0, op, status);
		for (int h = 0; h < heads; h++) {
			float oldPeak = peak[d * peakStride + h], oldTotal = total[d * totalStride + h], shrink = 1;
			float top = oldTotal == 0 ? -gs_inf() : oldPeak;
			for (int e = lo + g.lane; e < hi; e += 32) {
				unsigned s = unsigned(indices[e]);
				float v = 0, exponent, rest;
				if (s < unsigned(numSrc)) v = gs_leaky(srcScore[s * srcStride + h] + dstScore[d * dstStride + h] + (edgeScore ? edgeScore[int64_t(e) * heads + h] : 0), slope);
				else fail(status, op, unsigned(e), s, unsigned(numSrc));
				weights[int64_t(e) * heads + h] = v;
				split(v, exponent, rest);
				top = gs_max(top, exponent);
			}
			top = warpMax(top); // also: all lanes have read peak and total
			if (oldTotal != 0) shrink = power(oldPeak - top);
			for (int64_t e = lo + g.lane; e < hi; e += 32) {
				float exponent, rest;
				split(weights[e * heads + h], exponent, rest);
				weights[e * heads + h] = expf(rest) * power(exponent - top);
			}
			if (g.lane == 0) {
				if (lo < hi) peak[d * peakStride + h] = top;
				shrinks[d * heads + h] = shrink;
			}
		}
		__syncwarp();
		for (int h = g.lane; h < heads; h += 32) {
			float sum = total[d * totalStride + h] * shrinks[d * heads + h];
			for (int64_t e = lo; e < hi; e++) sum += weights[e * heads + h];
			total[d * totalStride + h] = sum;
		}
		__syncwarp();
	}
}
EXPORT_KERNEL(online_weights)
