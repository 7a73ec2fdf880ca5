// Dense products on the tensor cores.
#include "gs.h"

// Exact: three products of split fractions, errors as of float32, but an infinity becomes NaN. Others: one of
// rounded values.
enum { Exact, TF32, BFloat };

// How many blocks of a large product, or twice as many of a small one, a multiprocessor is to hold: where 100 KB of shared
// memory have room for the stages of one, more registers serve it better. And how many tiles of columns meet a warp's rows
// at a time.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890)
constexpr int gemmBlocks = 1, gemmColumns = 4;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int gemmBlocks = 2, gemmColumns = 2;
#else
constexpr int gemmBlocks = 2, gemmColumns = 4;
#endif

// A tile of R rows and C columns of a matrix on its way to shared memory, stride apart there.
template <int R, int C, int stride, int threads> __device__ inline void fetch(float *shared, const float *x, int64_t ld, int64_t row0, int col0, int64_t rows,
		int cols, bool vectors) {
	if (vectors) {
#pragma unroll
		for (int i = threadIdx.x; i < R * C / 4; i += threads) {
			int r = i / (C / 4), q = i % (C / 4) * 4;
			int valid = row0 + r < rows ? max(0, min(4, cols - col0 - q)) : 0;
			gs_copy16(shared + r * stride + q, valid ? x + (row0 + r) * ld + col0 + q : x, 4 * valid);
		}
		return;
	}
#pragma unroll 1
	for (int i = threadIdx.x; i < R * C; i += threads) {
		int r = i / C, q = i % C;
		bool valid = row0 + r < rows && col0 + q < cols;
		gs_copy4(shared + r * stride + q, valid ? x + (row0 + r) * ld + col0 + q : x, valid ? 4 : 0);
	}
}

// gemm: c = op(a)·op(b), tiles of (16·MI·WR)×(8·NI·WC) by WR×WC warps; piece blockIdx.z of k, if
// there are several, into c + z·m·n. Shared memory is filled two stages ahead by cp.async.
template <int mode, bool TA, bool TB, int WR, int WC, int MI, int NI>
__device__ inline void gemm(int m, int n, int k, int piece, const float *__restrict__ a, int64_t lda, const float *__restrict__ b, int64_t ldb, const float *bias,
		float *__restrict__ c, int64_t ldc, int accumulate, int relu, int vectors) {
	constexpr int M = 16 * MI * WR, N = 8 * NI * WC, K = 16, threads = 32 * WR * WC, stages = 3;
	// Strides in shared memory at which no two lanes of a fragment share a bank.
	constexpr int sa = TA ? M + 8 : K + 4, sb = TB ? K + 4 : N + 8, sizeA = TA ? K * sa : M * sa, sizeB = TB ? N * sb : K * sb;
	DYNAMIC_SHARED(float, shared);
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
	int tiles = (n + N - 1) / N, col0 = int(blockIdx.x) % tiles * N;
	int64_t row0 = int64_t(blockIdx.x) / tiles * M;
	int wr = warp / WC * 16 * MI, wc = warp % WC * 8 * NI;
	int left = row0 + wr < m ? n - col0 - wc : 0; // columns of this warp's tile that there are
	int begin = blockIdx.z * piece, end = min(k, begin + piece), steps = max(0, (end - begin + K - 1) / K);
	auto stage = [&](int s) {
		float *as = shared + s % stages * (sizeA + sizeB), *bs = as + sizeA;
		int p = begin + s * K;
		if (TA) fetch<K, M, sa, threads>(as, a, lda, p, int(row0), end, m, vectors & 1);
		else fetch<M, K, sa, threads>(as, a, lda, row0, p, m, end, vectors & 1);
		if (TB) fetch<N, K, sb, threads>(bs, b, ldb, col0, p, n, end, vectors & 2);
		else fetch<K, N, sb, threads>(bs, b, ldb, p, col0, end, n, vectors & 2);
	};
	float acc[MI][NI][4] = {};
	for (int s = 0; s < stages - 1; s++) {
		if (s < steps) stage(s);
		gs_copies_commit();
	}
	for (int s = 0; s < steps; s++) {
		gs_copies_wait<stages - 2>();
		__syncthreads(); // stage s is there, and nobody reads the one that is filled next
		if (s + stages - 1 < steps) stage(s + stages - 1);
		gs_copies_commit();
		if (left <= 0) continue; // narrow products leave warps nothing but to fetch
		const float *as = shared + s % stages * (sizeA + sizeB), *bs = as + sizeA;
		auto A = [&](int row, int q) { return TA ? as[q * sa + wr + row] : as[(wr + row) * sa + q]; };
		auto B = [&](int q, int col) { return TB ? bs[(wc + col) * sb + q] : bs[q * sb + wc + col]; };
		if constexpr (mode == BFloat) {
			uint32_t x[MI][4], y[NI][2];
#pragma unroll
			for (int i = 0; i < MI; i++)
#pragma unroll
				for (int h = 0; h < 4; h++) {
					int row = 16 * i + g + h % 2 * 8, q = 2 * t + h / 2 * 8;
					x[i][h] = gs_bf16x2(A(row, q), A(row, q + 1));
				}
#pragma unroll
			for (int j = 0; j < NI; j++)
#pragma unroll
				for (int h = 0; h < 2; h++) {
					int q = 2 * t + 8 * h;
					y[j][h] = gs_bf16x2(B(q, 8 * j + g), B(q + 1, 8 * j + g));
				}
#pragma unroll
			for (int j = 0; j < NI; j++)
				if (8 * j < left)
#pragma unroll
					for (int i = 0; i < MI; i++) gs_mma_bf16(acc[i][j], x[i], y[j]);
		} else {
			constexpr int few = gemmColumns; // at a time, so that registers suffice
#pragma unroll
			for (int q = 0; q < K; q += 8) {
				uint32_t x[MI][4], xl[MI][4]; // l: what rounding left
#pragma unroll
				for (int i = 0; i < MI; i++)
#pragma unroll
					for (int h = 0; h < 4; h++) {
						float v = A(16 * i + g + h % 2 * 8, q + t + h / 2 * 4);
						x[i][h] = gs_tf32(v);
						if (mode == Exact) xl[i][h] = gs_tf32(v - __uint_as_float(x[i][h]));
					}
#pragma unroll
				for (int first = 0; first < NI; first += few) {
					if (8 * first >= left) break;
					uint32_t y[few][2], yl[few][2];
#pragma unroll
					for (int j = 0; j < few; j++)
#pragma unroll
						for (int h = 0; h < 2; h++) {
							float v = B(q + t + 4 * h, 8 * (first + j) + g);
							y[j][h] = gs_tf32(v);
							if (mode == Exact) yl[j][h] = gs_tf32(v - __uint_as_float(y[j][h]));
						}
					if constexpr (mode == Exact) {
						gs_mma3(acc, first, left, x, xl, y, yl);
					} else {
#pragma unroll
						for (int j = 0; j < few; j++)
							if (8 * (first + j) < left)
#pragma unroll
								for (int i = 0; i < MI; i++) gs_mma(acc[i][first + j], x[i], y[j]);
					}
				}
			}
		}
	}
	if (gridDim.z > 1) c += int64_t(blockIdx.z) * m * n;
	bool pairs = (ldc & 1) == 0 && (reinterpret_cast<uint64_t>(c) & 7) == 0; // of columns in one store
#pragma unroll
	for (int i = 0; i < MI; i++)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			int64_t r = row0 + wr + 16 * i + g + 8 * h;
			if (r >= m) continue;
			float *row = c + r * ldc;
#pragma unroll
			for (int j = 0; j < NI; j++) {
				int q = col0 + wc + 8 * j + 2 * t;
				float v[2] = {acc[i][j][2 * h], acc[i][j][2 * h + 1]};
#pragma unroll
				for (int k = 0; k < 2; k++) {
					if (q + k >= n) continue;
					if (accumulate) v[k] += row[q + k];
					if (bias) v[k] += bias[q + k];
					if (relu) v[k] = gs_relu(v[k]);
					if (!pairs || q + 1 >= n) row[q + k] = v[k];
				}
				if (pairs && q + 1 < n) *reinterpret_cast<float2 *>(row + q) = make_float2(v[0], v[1]);
			}
		}
}

#define GEMM(name, mode, TA, TB, WR, WC, MI, NI)                                                                                              \
	KERNEL __launch_bounds__(32 * WR * WC, 8 / (WR * WC) * gemmBlocks) name(int m, int n, int k, int piece, const float *a, int64_t lda, const float *b, int64_t ldb,      \
			const float *bias, float *c, int64_t ldc, int accumulate, int relu, int vectors) {                                                 \
		gemm<mode, TA, TB, WR, WC, MI, NI>(m, n, k, piece, a, lda, b, ldb, bias, c, ldc, accumulate, relu, vectors);                           \
	}                                                                                                                                          \
	EXPORT_KERNEL(name)
// Large tiles are 128×128 by 8 warps of 32×64, small ones 64×64 by 4 of 32×32. n: as it is, t:
// transposed. Both transposed, which no layer asks for, has one kernel.
#define GEMMS(prefix, mode)                                 \
	GEMM(prefix##_nn_large, mode, false, false, 4, 2, 2, 8) \
	GEMM(prefix##_nt_large, mode, false, true, 4, 2, 2, 8)  \
	GEMM(prefix##_tn_large, mode, true, false, 4, 2, 2, 8)  \
	GEMM(prefix##_nn_small, mode, false, false, 2, 2, 2, 4) \
	GEMM(prefix##_nt_small, mode, false, true, 2, 2, 2, 4)  \
	GEMM(prefix##_tn_small, mode, true, false, 2, 2, 2, 4)
GEMMS(gemm_exact, Exact)
GEMMS(gemm_tf32, TF32)
GEMMS(gemm_bf16, BFloat)
GEMM(gemm_exact_tt_small, Exact, true, true, 2, 2, 2, 4)

// gemm_sum: c (+)= the sum of the pieces, in their order and in float64, then bias and relu.
KERNEL gemm_sum(const float *parts, int count, int m, int n, const float *bias, float *c, int64_t ldc, int accumulate, int relu) {
	int64_t size = int64_t(m) * n;
	for EACH(i, size) {
		double sum = 0;
		for (int p = 0; p < count; p++) sum += parts[p * size + i];
		int q = int(i % n);
		float *to = c + i / n * ldc + q, v = float(sum);
		if (accumulate) v += *to;
		if (bias) v += bias[q];
		*to = relu ? gs_relu(v) : v;
	}
}
EXPORT_KERNEL(gemm_sum)

// squared_distances: dot[i][j] = alpha · max(0, |x_i|² + |y_j|² − 2·dot[i][j]).
KERNEL squared_distances(float *dot, int64_t stride, const float *x, const float *y, float alpha, int n, int m, int lanes) {
	Group g(lanes);
	for (int64_t i = g.row; i < n; i += g.step)
		for (int j = g.lane; j < m; j += lanes) {
			float d = x[i] + y[j] - 2 * dot[i * stride + j];
			dot[i * stride + j] = alpha * (d < 0 ? 0 : d);
		}
}
EXPORT_KERNEL(squared_distances)
