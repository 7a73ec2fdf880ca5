// Operations on single elements, and steps of optimisers.
#include "gs.h"

// Matrices with gaps: one row per group of lanes.
KERNEL copy_rows(float *dst, int64_t dstStride, const float *src, int64_t srcStride, int n, int dim, int lanes) {
	Group g(lanes);
	for (int64_t i = g.row; i < n; i += g.step)
		for (int j = g.lane; j < dim; j += lanes) dst[i * dstStride + j] = src[i * srcStride + j];
}
EXPORT_KERNEL(copy_rows)

KERNEL fill_rows(float *dst, int64_t stride, float value, int n, int dim, int lanes) {
	Group g(lanes);
	for (int64_t i = g.row; i < n; i += g.step)
		for (int j = g.lane; j < dim; j += lanes) dst[i * stride + j] = value;
}
EXPORT_KERNEL(fill_rows)

KERNEL divide_rows(float *x, int64_t stride, const float *divisors, int n, int dim, int lanes) {
	Group g(lanes);
	for (int64_t i = g.row; i < n; i += g.step) {
		float d = divisors[i];
		if (d == 0) continue;
		float by = 1 / d;
		for (int j = g.lane; j < dim; j += lanes) x[i * stride + j] *= by;
	}
}
EXPORT_KERNEL(divide_rows)

KERNEL add_bias(float *x, int64_t stride, const float *bias, int relu, int n, int dim, int lanes) {
	Group g(lanes);
	for (int64_t i = g.row; i < n; i += g.step)
		for (int j = g.lane; j < dim; j += lanes) {
			float v = x[i * stride + j] + bias[j];
			x[i * stride + j] = relu ? gs_relu(v) : v;
		}
}
EXPORT_KERNEL(add_bias)

// scale_rows_add: dst[i] += alpha · scales[i] · x[i].
KERNEL scale_rows_add(float *dst, int64_t dstStride, const float *x, int64_t xStride, const float *scales, int64_t scaleStride, float alpha, int n, int dim, int lanes) {
	Group g(lanes);
	for (int64_t i = g.row; i < n; i += g.step) {
		float by = alpha * scales[i * scaleStride];
		for (int j = g.lane; j < dim; j += lanes) dst[i * dstStride + j] += by * x[i * xStride + j];
	}
}
EXPORT_KERNEL(scale_rows_add)

// scale_heads: head h of row i is multiplied by factors[i·heads + h].
KERNEL scale_heads(float *x, int64_t stride, const float *factors, int heads, int n, int dim, int lanes) {
	Group g(lanes);
	for (int64_t i = g.row; i < n; i += g.step)
		for (int j = g.lane; j < dim; j += lanes) x[i * stride + j] *= factors[i * heads + j / (dim / heads)];
}
EXPORT_KERNEL(scale_heads)

// complex_mul_add: dst += x·y, or x·conj(y); halves of a row are real and imaginary parts.
KERNEL complex_mul_add(float *dst, int64_t dstStride, const float *x, int64_t xStride, const float *y, int64_t yStride, int conjugate, int n, int half, int lanes) {
	Group g(lanes);
	for (int64_t i = g.row; i < n; i += g.step)
		for (int j = g.lane; j < half; j += lanes) {
			float ar = x[i * xStride + j], ai = x[i * xStride + half + j], br = y[i * yStride + j], bi = y[i * yStride + half + j];
			if (conjugate) bi = -bi;
			dst[i * dstStride + j] += ar * br - ai * bi;
			dst[i * dstStride + half + j] += ar * bi + ai * br;
		}
}
EXPORT_KERNEL(complex_mul_add)

// Tensors without gaps.
KERNEL axpy(float alpha, const float *x, float *y, int64_t n) { for EACH(i, n) y[i] += alpha * x[i]; }
EXPORT_KERNEL(axpy)
KERNEL mul(float *dst, const float *x, int64_t n) { for EACH(i, n) dst[i] *= x[i]; }
EXPORT_KERNEL(mul)
KERNEL mul_add(float *dst, const float *x, const float *y, int64_t n) { for EACH(i, n) dst[i] += x[i] * y[i]; }
EXPORT_KERNEL(mul_add)
KERNEL relu_backward(float scale, const float *y, float *d, int64_t n) { for EACH(i, n) d[i] = y[i] <= 0 ? 0 : d[i] * scale; }
EXPORT_KERNEL(relu_backward)
KERNEL leaky_backward(float slope, const float *y, float *d, int64_t n) { for EACH(i, n) d[i] = y[i] < 0 ? d[i] * slope : d[i]; }
EXPORT_KERNEL(leaky_backward)
KERNEL tanh_forward(float *x, int64_t n) { for EACH(i, n) x[i] = tanhf(x[i]); }
EXPORT_KERNEL(tanh_forward)
KERNEL tanh_backward(const float *y, float *d, int64_t n) { for EACH(i, n) d[i] -= y[i] * y[i] * d[i]; }
EXPORT_KERNEL(tanh_backward)

KERNEL set_elements(float *x, int64_t stride, const unsigned *index, int n, int rows, int cols, float value, unsigned op, Status *status) {
	for EACH(k, n) {
		unsigned i = index[k], r = i / unsigned(cols);
		if (r >= unsigned(rows)) fail(status, op, unsigned(k), i, unsigned(rows) * unsigned(cols));
		else x[int64_t(r) * stride + i % unsigned(cols)] = value;
	}
}
EXPORT_KERNEL(set_elements)

// dropout draws the bits that the host draws: Philox4x32-7 (Salmon et al., 2011) of counter 16·g+j
// decides elements 16·q+j of group g of 128, q < 8, each by 16 bits, low half of a word first. base, if not null, is added to the
// key: two words, the low one first.
KERNEL dropout(float *x, int64_t n, unsigned key0, unsigned key1, const unsigned *base, unsigned threshold, float scale) {
	if (base) {
		unsigned low = key0 + base[0];
		key1 += base[1] + (low < key0), key0 = low;
	}
	for EACH(counter, (n + 127) / 128 * 16) {
		unsigned c0 = unsigned(counter), c1 = 0, c2 = 0, c3 = 0, k0 = key0, k1 = key1;
#pragma unroll
		for (int round = 0; round < 7; round++) {
			unsigned h0 = __umulhi(c0, 0xD2511F53u), l0 = c0 * 0xD2511F53u, h1 = __umulhi(c2, 0xCD9E8D57u), l1 = c2 * 0xCD9E8D57u;
			c0 = h1 ^ c1 ^ k0, c1 = l1, c2 = h0 ^ c3 ^ k1, c3 = l0;
			k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
		}
		unsigned words[4] = {c0, c1, c2, c3};
		int64_t first = counter / 16 * 128 + counter % 16;
#pragma unroll
		for (int q = 0; q < 8; q++) {
			int64_t i = first + 16 * q;
			if (i < n) x[i] = (words[q / 2] >> 16 * (q % 2) & 0xffffu) >= threshold ? x[i] * scale : 0;
		}
	}
}
EXPORT_KERNEL(dropout)

// Steps of optimisers change what lives on after an error: none is taken once one was found.
struct Adam { float beta1, rest1, beta2, rest2, decay, lr, inv2, eps; };
__device__ inline void adamStep(const Adam &o, float &w, float g, float &m, float &v) {
	float d = g + o.decay * w;
	m = o.beta1 * m + o.rest1 * d;
	v = o.beta2 * v + o.rest2 * (d * d);
	w -= o.lr * m / (sqrtf(v) * o.inv2 + o.eps);
}
// adam: rates, if not null, are lr and inv2 in place of o's.
KERNEL adam(Adam o, const float *rates, float *w, const float *g, float *m, float *v, const Status *status, int64_t n) {
	if (status->op) return;
	if (rates) o.lr = rates[0], o.inv2 = rates[1];
	for EACH(i, n) adamStep(o, w[i], g[i], m[i], v[i]);
}
EXPORT_KERNEL(adam)
KERNEL adam_rows(Adam o, float *w, int64_t wStride, const unsigned *index, const float *g, int64_t gStride, float *m, int64_t mStride, float *v, int64_t vStride,
		int n, int rows, int dim, int lanes, unsigned op, Status *status) {
	Group t(lanes);
	for (int64_t k = t.row; k < n; k += t.step) {
		unsigned r = index[k];
		if (r >= unsigned(rows)) {
			if (t.lane == 0) fail(status, op, unsigned(k), r, unsigned(rows));
			continue;
		}
		for (int j = t.lane; j < dim; j += lanes) adamStep(o, w[r * wStride + j], g[k * gStride + j], m[r * mStride + j], v[r * vStride + j]);
	}
}
EXPORT_KERNEL(adam_rows)

__device__ inline void adagradStep(float lr, float eps, float &w, float g, float &s) {
	s += g * g;
	w -= lr * g / (sqrtf(s) + eps);
}
KERNEL adagrad(float lr, float eps, float *w, const float *g, float *s, const Status *status, int64_t n) {
	if (status->op) return;
	for EACH(i, n) adagradStep(lr, eps, w[i], g[i], s[i]);
}
EXPORT_KERNEL(adagrad)
KERNEL adagrad_rows(float lr, float eps, float *w, int64_t wStride, const unsigned *index, const float *g, int64_t gStride, float *s, int64_t sStride, int n, int rows,
		int dim, int lanes, unsigned op, Status *status) {
	Group t(lanes);
	for (int64_t k = t.row; k < n; k += t.step) {
		unsigned r = index[k];
		if (r >= unsigned(rows)) {
			if (t.lane == 0) fail(status, op, unsigned(k), r, unsigned(rows));
			continue;
		}
		for (int j = t.lane; j < dim; j += lanes) adagradStep(lr, eps, w[r * wStride + j], g[k * gStride + j], s[r * sStride + j]);
	}
}
EXPORT_KERNEL(adagrad_rows)
