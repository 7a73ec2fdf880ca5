// Sums of columns, batch and layer norm.
#include "gs.h"

const int columnPiece = 512; // rows whose sum is one part

// column_parts: parts[p][j] = a sum over rows p·512 … of column j: of x, of x·y, or of (x − mean)².
// 32 columns a block, 8 threads each.
enum { Plain, Products, Deviations };
KERNEL __launch_bounds__(256) column_parts(int what, const float *x, int64_t xStride, const float *y, int64_t yStride, const float *mean, int rows, int cols, float *parts) {
	__shared__ float sums[8][32];
	int tx = threadIdx.x % 32, ty = threadIdx.x / 32, j = blockIdx.x * 32 + tx;
	int64_t first = int64_t(blockIdx.y) * columnPiece, last = min(int64_t(rows), first + columnPiece);
	float sum = 0;
	if (j < cols) {
		float m = what == Deviations ? mean[j] : 0;
		for (int64_t i = first + ty; i < last; i += 8) {
			float v = x[i * xStride + j];
			if (what == Products) v *= y[i * yStride + j];
			if (what == Deviations) v = (v - m) * (v - m);
			sum += v;
		}
	}
	sums[ty][tx] = sum;
	__syncthreads();
	if (ty > 0 || j >= cols) return;
	for (int t = 1; t < 8; t++) sum += sums[t][tx];
	parts[int64_t(blockIdx.y) * cols + j] = sum;
}
EXPORT_KERNEL(column_parts)

// column_finish: dst[j] (+)= scale · the sum of the parts, in their order and in float64.
KERNEL column_finish(const float *parts, int count, int cols, float scale, int accumulate, float *dst) {
	for EACH(j, cols) {
		double sum = 0;
		for (int p = 0; p < count; p++) sum += parts[int64_t(p) * cols + j];
		dst[j] = float(sum) * scale + (accumulate ? dst[j] : 0);
	}
}
EXPORT_KERNEL(column_finish)

__device__ inline float rstdOf(float variance, float epsilon) { return float(1 / sqrt(double(variance) + double(epsilon))); }

// batch_stats: from the sums of squared deviations (in rstd), 1/√(variance+epsilon) and the running
// statistics' step; or, for inference, from the running variance.
KERNEL batch_stats(int rows, int cols, float momentum, float epsilon, int inference, const float *mean, float *rstd, float *runningMean, float *runningVariance) {
	for EACH(j, cols) {
		if (inference) {
			rstd[j] = rstdOf(runningVariance[j], epsilon);
			continue;
		}
		float squares = rstd[j];
		runningMean[j] += momentum * (mean[j] - runningMean[j]);
		runningVariance[j] += momentum * (squares / float(max(rows - 1, 1)) - runningVariance[j]);
		rstd[j] = rstdOf(squares / float(rows), epsilon);
	}
}
EXPORT_KERNEL(batch_stats)

// batch_norm: xhat = (x − mean)·rstd, y = xhat·gamma + beta, by columns. xhat may be x.
KERNEL batch_norm(const float *x, int64_t xStride, float *xhat, int64_t hStride, float *y, int64_t yStride, const float *mean, const float *rstd, const float *gamma,
		const float *beta, int n, int dim, int lanes) {
	Group g(lanes);
	for (int64_t i = g.row; i < n; i += g.step)
		for (int j = g.lane; j < dim; j += lanes) {
			float h = (x[i * xStride + j] - mean[j]) * rstd[j];
			xhat[i * hStride + j] = h;
			y[i * yStride + j] = h * gamma[j] + beta[j];
		}
}
EXPORT_KERNEL(batch_norm)

// batch_norm_backward: d = (d − a/n − xhat·b/n)·gamma·rstd with a and b the columns' sums of d and d·xhat.
KERNEL batch_norm_backward(float *d, int64_t dStride, const float *xhat, int64_t hStride, const float *a, const float *b, const float *gamma, const float *rstd, int n,
		int dim, int lanes) {
	Group g(lanes);
	float by = 1 / float(n);
	for (int64_t i = g.row; i < n; i += g.step)
		for (int j = g.lane; j < dim; j += lanes)
			d[i * dStride + j] = (d[i * dStride + j] - a[j] * by - b[j] * by * xhat[i * hStride + j]) * (gamma[j] * rstd[j]);
}
EXPORT_KERNEL(batch_norm_backward)

// layer_norm: a warp a row. xhat may be x.
KERNEL layer_norm(const float *x, int64_t xStride, float *xhat, int64_t hStride, float *y, int64_t yStride, float *rstds, const float *gamma, const float *beta,
		float epsilon, int relu, int n, int dim) {
	Group g(32);
	for (int64_t i = g.row; i < n; i += g.step) {
		float sum = 0, squares = 0;
		for (int j = g.lane; j < dim; j += 32) sum += x[i * xStride + j];
		float mean = warpSum(sum) / float(dim);
		for (int j = g.lane; j < dim; j += 32) {
			float v = x[i * xStride + j] - mean;
			squares += v * v;
		}
		float rstd = rstdOf(warpSum(squares) / float(dim), epsilon);
		if (g.lane == 0) rstds[i] = rstd;
		for (int j = g.lane; j < dim; j += 32) {
			float h = (x[i * xStride + j] - mean) * rstd, v = h * gamma[j] + beta[j];
			xhat[i * hStride + j] = h;
			y[i * yStride + j] = relu ? gs_relu(v) : v;
		}
	}
}
EXPORT_KERNEL(layer_norm)

KERNEL layer_norm_backward(float *d, int64_t dStride, const float *xhat, int64_t hStride, const float *rstds, const float *gamma, int n, int dim) {
	Group g(32);
	for (int64_t i = g.row; i < n; i += g.step) {
		float a = 0, b = 0;
		for (int j = g.lane; j < dim; j += 32) {
			float v = d[i * dStride + j] * gamma[j];
			a += v, b += v * xhat[i * hStride + j];
		}
		a = warpSum(a) / float(dim), b = warpSum(b) / float(dim);
		for (int j = g.lane; j < dim; j += 32) d[i * dStride + j] = (d[i * dStride + j] * gamma[j] - a - b * xhat[i * hStride + j]) * rstds[i];
	}
}
EXPORT_KERNEL(layer_norm_backward)
