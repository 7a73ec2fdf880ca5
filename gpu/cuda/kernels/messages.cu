// Rows by index, and sums of rows over the edges of a graph.
#include "gs.h"

// gather: dst[k] = scale · table[index[k]], one row per group of lanes.
template <int elem, int V> __device__ inline void gather(float *__restrict__ dst, int64_t dstStride, const char *__restrict__ table, int64_t rowBytes,
		unsigned rows, const float *scale, const uint32_t *__restrict__ index, int n, int dim, int lanes, unsigned op, Status *status) {
	Group g(lanes);
	for (int64_t k = g.row; k < n; k += g.step) {
		uint32_t r = index[k];
		if (r >= rows) {
			if (g.lane == 0) fail(status, op, unsigned(k), r, rows);
			continue;
		}
		const char *from = table + int64_t(r) * rowBytes;
		float *to = dst + k * dstStride;
		for (int j = g.lane * V; j < dim; j += lanes * V) {
			float v[V];
			load<elem, V>(from, j, v);
			if (scale)
				for (int i = 0; i < V; i++) v[i] *= scale[j + i];
			store<V>(to + j, v);
		}
	}
}
#define GATHER(name, elem, V)                                                                                                \
	KERNEL name(float *dst, int64_t dstStride, const char *table, int64_t rowBytes, unsigned rows, const float *scale,        \
			const uint32_t *index, int n, int dim, int lanes, unsigned op, Status *status) {                                  \
		gather<elem, V>(dst, dstStride, table, rowBytes, rows, scale, index, n, dim, lanes, op, status);                      \
	}                                                                                                                         \
	EXPORT_KERNEL(name)
GATHER(gather_f32, F32, 1)
GATHER(gather_f32_4, F32, 4)
GATHER(gather_f16, F16, 1)
GATHER(gather_f16_4, F16, 4)
GATHER(gather_bf16, BF16, 1)
GATHER(gather_bf16_4, BF16, 4)
GATHER(gather_i8, I8, 1)
GATHER(gather_i8_4, I8, 4)

// Edges are the edges of n rows: row d's are indptr[d]:indptr[d+1].
struct Edges {
	const int *indptr;
	const int *indices;    // each edge's other end; null: the edge's own number
	const uint32_t *index; // maps that end to a row; null: it is the row
	const int *places;     // maps an edge to the place of its weights; null: the edge's own number
	int ends;              // what indices are below
	unsigned rows;         // what rows are below
	int edges;             // of indices
	int longest;           // rows of more edges are left to heavy_parts and heavy_sums; 0: none are
};

// bounds returns the edges of row d, none if its indptr is nonsense.
__device__ inline void bounds(const int *indptr, int64_t d, int edges, int &lo, int &hi, bool tell, unsigned op, Status *status) {
	lo = indptr[d], hi = indptr[d + 1];
	if (lo >= 0 && lo <= hi && hi <= edges) return;
	if (tell) fail(status, op, unsigned(d), unsigned(hi), unsigned(edges) + 1);
	hi = lo = 0;
}

// messages: dst[d] = scale · Σ over d's edges of weight · src[row], each lane its own columns, in
// the order of the edges. How this meets what dst holds is said by accumulate: OVERWRITE, ADD (the sum of all messages)
// or FOLD (message by message, as if dst's were the first: edges in several calls give the bits of one). The weight is one of
// weights[place·weightStride + column/width], 1/degree of the other end (degrees is an indptr) or 1.
enum { OVERWRITE, ADD, FOLD };

template <int elem, int V> __device__ inline void messages(float *__restrict__ dst, int64_t dstStride, const char *__restrict__ src, int64_t rowBytes,
		const float *scale, Edges x, const float *__restrict__ weights, int64_t weightStride, int width, const int *degrees, int n, int dim,
		int lanes, int mean, int accumulate, unsigned op, Status *status) {
	Group g(lanes);
	for (int64_t d = g.row; d < n; d += g.step) {
		int lo, hi;
		bounds(x.indptr, d, x.edges, lo, hi, g.lane == 0, op, status);
		if (x.longest > 0 && hi - lo > x.longest) continue;
		float by = mean && hi > lo ? 1.f / float(hi - lo) : 1.f;
		for (int j = g.lane * V; j < dim; j += lanes * V) {
			float *to = dst + d * dstStride + j, sum[V] = {}, old[V] = {}, of[V];
			if (accumulate != OVERWRITE) load<F32, V>(reinterpret_cast<char *>(to), 0, old);
#pragma unroll
			for (int i = 0; i < V; i++) {
				if (accumulate == FOLD) sum[i] = old[i];
				of[i] = scale ? scale[j + i] : 1.f;
			}
			int head = weights ? j / width : 0; // V columns are of one head: the caller sees to it
			// Some edges at a time, whose rows are on their way together; they are added up in their order.
			constexpr int some = 4;
			for (int e = lo; e < hi; e += some) {
				unsigned row[some];
				float w[some], v[some][V];
				bool there[some];
#pragma unroll
				for (int k = 0; k < some; k++) {
					there[k] = e + k < hi;
					row[k] = !there[k] ? 0 : x.indices ? unsigned(x.indices[e + k]) : unsigned(e + k);
				}
#pragma unroll
				for (int k = 0; k < some; k++) {
					if (there[k] && row[k] >= unsigned(x.ends)) {
						if (j == 0) fail(status, op, unsigned(e + k), row[k], unsigned(x.ends));
						there[k] = false;
					}
					w[k] = 1;
					if (!there[k]) continue;
					if (weights) w[k] = weights[int64_t(x.places ? x.places[e + k] : e + k) * weightStride + head];
					else if (degrees) w[k] = 1.f / float(max(degrees[row[k] + 1] - degrees[row[k]], 1));
					if (x.index) row[k] = x.index[row[k]];
				}
#pragma unroll
				for (int k = 0; k < some; k++) {
					if (there[k] && row[k] >= x.rows) {
						if (j == 0) fail(status, op, unsigned(e + k), row[k], x.rows);
						there[k] = false;
					}
					if (there[k]) load<elem, V>(src + int64_t(row[k]) * rowBytes, j, v[k]);
				}
#pragma unroll
				for (int k = 0; k < some; k++)
#pragma unroll
					for (int i = 0; i < V; i++)
						if (there[k]) sum[i] += accumulate == FOLD ? w[k] * v[k][i] * of[i] : w[k] * v[k][i];
			}
			if (accumulate != FOLD)
#pragma unroll
				for (int i = 0; i < V; i++) sum[i] = sum[i] * by * of[i] + old[i];
			store<V>(to, sum);
		}
	}
}
#define MESSAGES(name, elem, V)                                                                                                              \
	KERNEL __launch_bounds__(256, 4) name(float *dst, int64_t dstStride, const char *src, int64_t rowBytes, const float *scale, const int *indptr, const int *indices, \
			const uint32_t *index, const int *places, int ends, unsigned rows, int edges, int longest, const float *weights,                  \
			int64_t weightStride, int width, const int *degrees, int n, int dim, int lanes, int mean, int accumulate, unsigned op,            \
			Status *status) {                                                                                                                 \
		Edges x = {indptr, indices, index, places, ends, rows, edges, longest};                                                               \
		messages<elem, V>(dst, dstStride, src, rowBytes, scale, x, weights, weightStride, width, degrees, n, dim, lanes, mean, accumulate,    \
			op, status);                                                                                                                      \
	}                                                                                                                                         \
	EXPORT_KERNEL(name)
MESSAGES(messages_f32, F32, 1)
MESSAGES(messages_f32_4, F32, 4)
MESSAGES(messages_f16, F16, 1)
MESSAGES(messages_f16_4, F16, 4)
MESSAGES(messages_bf16, BF16, 1)
MESSAGES(messages_bf16_4, BF16, 4)
MESSAGES(messages_i8, I8, 1)
MESSAGES(messages_i8_4, I8, 4)

// heavy_parts: of the rows that messages left, one group of lanes for each piece of the edges, which are sorted by row: the sum of a row's
// edges in piece k is parts[2k+1] where the row begins in it, else parts[2k]. A row of more than a piece's edges is the first or the last one of
// every piece that has some of it.
KERNEL heavy_parts(const float *src, int64_t srcStride, const unsigned *keys, const int *places, const int *indptr, int edges, int dim, int lanes, int piece,
		float *parts) {
	Group g(lanes);
	int pieces = (edges + piece - 1) / piece;
	for (int64_t k = g.row; k < pieces; k += g.step) {
		int begin = int(k) * piece, end = min(edges, begin + piece);
		unsigned ends[2] = {keys[begin], keys[end - 1]};
#pragma unroll
		for (int side = 0; side < 2; side++) {
			if (side == 1 && ends[1] == ends[0]) break;
			int lo = indptr[ends[side]], hi = indptr[ends[side] + 1];
			if (hi - lo <= piece) continue;
			float *to = parts + (2 * k + (lo >= begin)) * dim;
			int from = max(lo, begin), until = min(hi, end);
			for (int j = g.lane; j < dim; j += lanes) {
				float sum = 0;
				for (int e = from; e < until; e += 4) {
					float v[4];
#pragma unroll
					for (int i = 0; i < 4; i++)
						if (e + i < until) v[i] = src[places[e + i] * srcStride + j];
#pragma unroll
					for (int i = 0; i < 4; i++)
						if (e + i < until) sum += v[i];
				}
				to[j] = sum;
			}
		}
	}
}
EXPORT_KERNEL(heavy_parts)

// heavy_sums: dst[r] += the sum of row r's parts in their order, for the rows that messages left.
KERNEL heavy_sums(float *dst, int64_t dstStride, const float *parts, const int *indptr, int n, int dim, int lanes, int piece) {
	Group g(lanes);
	for (int64_t r = g.row; r < n; r += g.step) {
		int lo = indptr[r], hi = indptr[r + 1];
		if (hi - lo <= piece) continue;
		int64_t first = lo / piece, last = (hi - 1) / piece;
		for (int j = g.lane; j < dim; j += lanes) {
			float sum = parts[(2 * first + 1) * dim + j];
#pragma unroll 4
			for (int64_t k = first + 1; k <= last; k++) sum += parts[2 * k * dim + j];
			dst[r * dstStride + j] += sum;
		}
	}
}
EXPORT_KERNEL(heavy_sums)

// segment_max: out[d] = the greatest of the rows of d's sources column by column, the first of equals,
// the first NaN. arg is the edge it came from, −1 where out was not overwritten; seen
// says which rows of out hold something already.
template <int elem> __device__ inline void segmentMax(float *out, int64_t outStride, const char *table, int64_t rowBytes, const float *scale, Edges x,
		const float *seen, int64_t seenStride, int *arg, int n, int dim, int lanes, unsigned op, Status *status) {
	Group g(lanes);
	for (int64_t d = g.row; d < n; d += g.step) {
		int lo, hi;
		bounds(x.indptr, d, x.edges, lo, hi, g.lane == 0, op, status);
		for (int j = g.lane; j < dim; j += lanes) {
			bool fresh = !seen || seen[d * seenStride] == 0;
			float best = fresh ? 0 : out[d * outStride + j];
			int from = -1;
			for (int e = lo; e < hi; e++) {
				unsigned r = unsigned(x.indices[e]);
				unsigned limit = unsigned(x.ends);
				if (r < limit && x.index) r = x.index[r], limit = x.rows;
				if (r >= limit) {
					if (j == 0) fail(status, op, unsigned(e), r, limit);
					continue;
				}
				float v = Elem<elem>::at(table + int64_t(r) * rowBytes, j);
				if (scale) v *= scale[j];
				if (fresh || (best == best && !(v <= best))) best = v, from = e;
				fresh = false;
			}
			out[d * outStride + j] = best;
			if (arg) arg[d * dim + j] = from;
		}
	}
}
#define SEGMENT_MAX(name, elem)                                                                                                                \
	KERNEL name(float *out, int64_t outStride, const char *table, int64_t rowBytes, const float *scale, const int *indptr, const int *indices, \
			const uint32_t *index, int ends, unsigned rows, int edges, const float *seen, int64_t seenStride, int *arg, int n, int dim,         \
			int lanes, unsigned op, Status *status) {                                                                                           \
		Edges x = {indptr, indices, index, nullptr, ends, rows, edges, 0};                                                                         \
		segmentMax<elem>(out, outStride, table, rowBytes, scale, x, seen, seenStride, arg, n, dim, lanes, op, status);                          \
	}                                                                                                                                           \
	EXPORT_KERNEL(name)
SEGMENT_MAX(segment_max_f32, F32)
SEGMENT_MAX(segment_max_f16, F16)
SEGMENT_MAX(segment_max_bf16, BF16)
SEGMENT_MAX(segment_max_i8, I8)

// add_degrees: seen[d] += the number of d's edges. A launch of its own, after segment_max.
KERNEL add_degrees(float *seen, int64_t seenStride, const int *indptr, int n) {
	for EACH(d, n) seen[d * seenStride] += float(indptr[d + 1] - indptr[d]);
}
EXPORT_KERNEL(add_degrees)

// segment_max_backward: dSrc[s] += dOut[d] where arg[d] is the edge (s, d); by source.
KERNEL segment_max_backward(float *dSrc, int64_t srcStride, const float *dOut, int64_t outStride, const int *arg, const int *indptr,
		const int *indices, const int *places, int edges, int numDst, int n, int dim, int lanes, unsigned op, Status *status) {
	Group g(lanes);
	for (int64_t s = g.row; s < n; s += g.step) {
		int lo, hi;
		bounds(indptr, s, edges, lo, hi, g.lane == 0, op, status);
		for (int j = g.lane; j < dim; j += lanes) {
			float sum = dSrc[s * srcStride + j];
			for (int e = lo; e < hi; e++) {
				int d = indices[e];
				if (unsigned(d) >= unsigned(numDst)) {
					if (j == 0) fail(status, op, unsigned(e), unsigned(d), unsigned(numDst));
					continue;
				}
				if (arg[int64_t(d) * dim + j] == places[e]) sum += dOut[d * outStride + j];
			}
			dSrc[s * srcStride + j] = sum;
		}
	}
}
EXPORT_KERNEL(segment_max_backward)
