// Losses: a warp a row, then sums of the rows by a tree that depends on their number only.
#include "gs.h"

// Best is the greatest of some values and where it first is; NaN if one is.
struct Best { float value; int at; };
__device__ inline Best better(Best a, Best b) {
	float v = gs_max(a.value, b.value);
	return {v, a.value == v && b.value == v ? min(a.at, b.at) : a.value == v ? a.at : b.at};
}
__device__ inline Best bestOf(const float *x, int dim, int lane) {
	Best best = {-gs_inf(), 0x7fffffff};
	for (int j = lane; j < dim; j += 32) best = better(best, {x[j], j});
#pragma unroll
	for (int d = 16; d > 0; d /= 2) {
		Best other = {__shfl_xor_sync(allLanes, best.value, d), __shfl_xor_sync(allLanes, best.at, d)};
		best = better(best, other);
	}
	return best;
}

// count_labels: inverse = 1 / the number of labels ≥ 0, at least 1. One block of 256.
KERNEL __launch_bounds__(256) count_labels(const int *labels, int n, int classes, float *inverse, unsigned op, Status *status) {
	__shared__ int counts[256];
	int count = 0;
	for (int i = threadIdx.x; i < n; i += 256) {
		if (labels[i] >= classes) fail(status, op, unsigned(i), unsigned(labels[i]), unsigned(classes));
		count += labels[i] >= 0;
	}
	counts[threadIdx.x] = count;
	__syncthreads();
	for (int d = 128; d > 0; d /= 2) {
		if (int(threadIdx.x) < d) counts[threadIdx.x] += counts[threadIdx.x + d];
		__syncthreads();
	}
	if (threadIdx.x == 0) *inverse = 1 / float(max(counts[0], 1));
}
EXPORT_KERNEL(count_labels)

// softmax_rows: losses[i] = −log softmax(x[i])[label], hits[i] = whether the label is the first
// greatest, grad = scale·(softmax − one-hot) where asked for. labels null: column 0; scale null: 1. grad may be x.
KERNEL softmax_rows(const float *x, int64_t xStride, const int *labels, const float *scale, float *grad, int64_t gStride, double *losses, double *hits, int n, int dim) {
	Group g(32);
	for (int64_t i = g.row; i < n; i += g.step) {
		const float *row = x + i * xStride;
		float *to = grad ? grad + i * gStride : nullptr;
		int label = labels ? labels[i] : 0;
		if (label < 0 || label >= dim) {
			if (to)
				for (int j = g.lane; j < dim; j += 32) to[j] = 0;
			if (g.lane == 0) losses[i] = hits[i] = 0;
			continue;
		}
		float at = row[label], sum = 0;
		Best top = bestOf(row, dim, g.lane);
		for (int j = g.lane; j < dim; j += 32) sum += expf(row[j] - top.value);
		sum = warpSum(sum); // also: all lanes have read the row
		if (g.lane == 0) losses[i] = log(double(sum)) - double(at - top.value), hits[i] = at == top.value && top.at == label;
		if (!to) continue;
		float by = scale ? *scale : 1;
		for (int j = g.lane; j < dim; j += 32) to[j] = expf(row[j] - top.value) * (by / sum) - (j == label ? by : 0);
	}
}
EXPORT_KERNEL(softmax_rows)

// number_rows: losses[i] = Huber's loss of the distance between x[i] and (number − mean)/deviation, distances[i] its magnitude,
// grad = scale·the loss' derivative. A label is the code of a number: a float32 less its last bit; < 0: none. grad may be x.
KERNEL number_rows(const float *x, int64_t xStride, const int *labels, const float *scale, float mean, float deviation, float *grad, int64_t gStride, double *losses, double *distances, int n) {
	Group g(1);
	for (int64_t i = g.row; i < n; i += g.step) {
		int label = labels[i];
		if (label < 0) {
			grad[i * gStride] = 0, losses[i] = distances[i] = 0;
			continue;
		}
		float d = x[i * xStride] - (__uint_as_float(unsigned(label) << 1) - mean) / deviation, far = fabsf(d);
		distances[i] = double(far);
		if (far > 1) {
			losses[i] = double(far) - .5, grad[i * gStride] = d < 0 ? -*scale : *scale;
		} else {
			losses[i] = double(d) * double(d) / 2, grad[i * gStride] = d * *scale;
		}
	}
}
EXPORT_KERNEL(number_rows)

// multi_rows: losses[i] = the mean over labels of the binary cross-entropy of x[i] and set labels[i], right[i] the share of labels
// that it says, by x > 0; grad = scale/dim·(σ(x) − bit). sets have words of 32 bits. A label < 0: none. grad may be x.
KERNEL multi_rows(const float *x, int64_t xStride, const int *sets, const int *labels, const float *scale, float *grad, int64_t gStride, double *losses, double *right, int n, int dim, int known) {
	Group g(32);
	int words = (dim + 31) / 32;
	for (int64_t i = g.row; i < n; i += g.step) {
		const float *row = x + i * xStride;
		float *to = grad + i * gStride;
		int label = labels[i];
		if (label < 0 || label >= known) {
			for (int j = g.lane; j < dim; j += 32) to[j] = 0;
			if (g.lane == 0) losses[i] = right[i] = 0;
			continue;
		}
		const int *set = sets + int64_t(label) * words;
		float by = *scale / float(dim), sum = 0, said = 0;
		for (int j = g.lane; j < dim; j += 32) {
			float v = row[j], e = expf(-fabsf(v)), sigmoid = v > 0 ? 1 / (1 + e) : e / (1 + e);
			int bit = unsigned(set[j / 32]) >> (j % 32) & 1;
			sum += fmaxf(v, 0) - (bit ? v : 0) + log1pf(e);
			said += bit == (v > 0);
			to[j] = (sigmoid - float(bit)) * by;
		}
		sum = warpSum(sum), said = warpSum(said);
		if (g.lane == 0) losses[i] = double(sum) / dim, right[i] = double(said) / dim;
	}
}
EXPORT_KERNEL(multi_rows)

// sum_stats: stat = the sums of losses and hits. One block of 256.
KERNEL __launch_bounds__(256) sum_stats(const double *losses, const double *hits, int n, double *stat) {
	__shared__ double sums[2][256];
	double a = 0, b = 0;
	for (int i = threadIdx.x; i < n; i += 256) a += losses[i], b += hits[i];
	sums[0][threadIdx.x] = a, sums[1][threadIdx.x] = b;
	__syncthreads();
	for (int d = 128; d > 0; d /= 2) {
		if (int(threadIdx.x) < d)
			for (int k = 0; k < 2; k++) sums[k][threadIdx.x] += sums[k][threadIdx.x + d];
		__syncthreads();
	}
	if (threadIdx.x < 2) stat[threadIdx.x] = sums[threadIdx.x][0];
}
EXPORT_KERNEL(sum_stats)

// link_rows: the logistic (margin < 0 is none: logistic = 1) or margin loss of a row's positive, in column 0,
// and its negatives; those at or below masked count for nothing. grad may be x.
KERNEL link_rows(const float *x, int64_t xStride, float *grad, int64_t gStride, int logistic, float margin, float masked, double *losses, double *hits, int n, int dim) {
	Group g(32);
	for (int64_t i = g.row; i < n; i += g.step) {
		const float *row = x + i * xStride;
		float *to = grad + i * gStride, s = row[0];
		int valid = 0, beaten = 0, negatives = dim - 1;
		for (int j = 1 + g.lane; j < dim; j += 32) valid += !(row[j] <= masked), beaten += row[j] < s;
		valid = warpSum(valid), beaten = warpSum(beaten); // also: all lanes have read s
		float share = 1 / float(max(valid, 1));
		double loss = 0;
		int active = 0;
		for (int j = 1 + g.lane; j < dim; j += 32) {
			float v = row[j], d = 0;
			if (!(v <= masked)) {
				if (logistic) {
					loss += double((v > 0 || v != v ? v : 0) + log1pf(expf(-fabsf(v)))) * double(share);
					d = share / (1 + expf(-v));
				} else if (float over = margin - s + v; !(over <= 0)) {
					loss += double(over), d = share, active++;
				}
			}
			to[j] = d;
		}
		loss = warpSum(loss), active = warpSum(active);
		if (g.lane != 0) continue;
		if (logistic) {
			loss += double((s < 0 || s != s ? -s : 0) + log1pf(expf(-fabsf(s))));
			to[0] = -1 / (1 + expf(s));
		} else {
			loss = s > masked ? loss / max(valid, 1) : double(gs_nan());
			to[0] = -share * float(active);
		}
		losses[i] = loss, hits[i] = beaten == negatives;
	}
}
EXPORT_KERNEL(link_rows)

// row_dots: dst[i] = x[i]·y[i].
KERNEL row_dots(const float *x, int64_t xStride, const float *y, int64_t yStride, float *dst, int64_t dstStride, int n, int dim) {
	Group g(32);
	for (int64_t i = g.row; i < n; i += g.step) {
		float sum = 0;
		for (int j = g.lane; j < dim; j += 32) sum += x[i * xStride + j] * y[i * yStride + j];
		sum = warpSum(sum);
		if (g.lane == 0) dst[i * dstStride] = sum;
	}
}
EXPORT_KERNEL(row_dots)
