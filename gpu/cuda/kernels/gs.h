// What the kernels need beyond CUDA C++ proper: one place for everything that is PTX on a
// device and plain C++ on the emulator (../emulator), and what all files of kernels share.
// NVRTC and nvcc take it without any other header.
#pragma once
#ifdef __CUDACC_RTC__ // NVRTC has no standard headers
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif
#ifndef GS_EMULATED
#define EXPORT_KERNEL(name)
#define DYNAMIC_SHARED(T, name)                                \
	extern __shared__ __align__(16) unsigned char gs_shared[]; \
	T *name = reinterpret_cast<T *>(gs_shared)
#endif
#define KERNEL extern "C" __global__ void

// Status is what the first failing thread of a stream's kernels found; operation 0 is nothing.
struct Status { unsigned op, place, value, limit; };

// fail records that operation op met value at place, which has to be below limit.
__device__ inline void fail(Status *s, unsigned op, unsigned place, unsigned value, unsigned limit) {
	if (atomicCAS(&s->op, 0u, op) != 0u) return;
	s->place = place, s->value = value, s->limit = limit;
}

// Group is how threads share rows: each group of `lanes` threads, a power of 2 ≤ 32, takes
// rows row, row+step, … A warp's groups see the same number of iterations only if rows is a multiple of
// theirs: no warp operations in such loops unless lanes is 32.
struct Group {
	int64_t row, step;
	int lane, lanes;
	__device__ inline explicit Group(int n) {
		lanes = n, lane = int(threadIdx.x) % n;
		row = int64_t(blockIdx.x) * (blockDim.x / n) + threadIdx.x / n, step = int64_t(gridDim.x) * (blockDim.x / n);
	}
};

// Each thread takes elements first, first+step, …
#define EACH(i, n) (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, step_ = int64_t(gridDim.x) * blockDim.x; i < (n); i += step_)

__device__ inline float gs_inf() { return __uint_as_float(0x7f800000u); }
__device__ inline float gs_nan() { return __uint_as_float(0x7fc00000u); }
__device__ inline float gs_relu(float x) { return x < 0 ? 0 : x; } // NaN stays
__device__ inline float gs_leaky(float x, float slope) { return x < 0 ? x * slope : x; }
// gs_max is NaN if one is.
__device__ inline float gs_max(float a, float b) { return a != a ? a : !(b <= a) ? b : a; }

const unsigned allLanes = 0xffffffffu;
// Trees of fixed shape over a warp; all lanes get the result.
template <class T> __device__ inline T warpSum(T v) {
#pragma unroll
	for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(allLanes, v, d);
	return v;
}
__device__ inline float warpMax(float v) {
#pragma unroll
	for (int d = 16; d > 0; d /= 2) v = gs_max(v, __shfl_xor_sync(allLanes, v, d));
	return v;
}

__device__ inline float gs_bf16(uint16_t x) { return __uint_as_float(uint32_t(x) << 16); }

__device__ inline float gs_half(uint16_t x) {
#ifdef GS_EMULATED
	_Float16 h;
	memcpy(&h, &x, 2);
	return float(h);
#else
	float f;
	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x));
	return f;
#endif
}

// gs_tf32 rounds to the 10 fraction bits that the tensor cores read, to nearest, ties away.
__device__ inline uint32_t gs_tf32(float x) {
#ifdef GS_EMULATED
	uint32_t u = __float_as_uint(x);
	return (u & 0x7f800000) == 0x7f800000 ? u : (u + 0x1000) & ~0x1fffu;
#else
	uint32_t u;
	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(u) : "f"(x));
	return u;
#endif
}

// gs_bf16x2 rounds two values to bfloat16, to nearest, ties to even: low is the lower half.
__device__ inline uint32_t gs_bf16x2(float low, float high) {
#ifdef GS_EMULATED
	auto round = [](float x) {
		uint32_t u = __float_as_uint(x);
		return x != x ? 0x7fffu : (u + 0x7fff + (u >> 16 & 1)) >> 16;
	};
	return round(low) | round(high) << 16;
#else
	uint32_t u;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low));
	return u;
#endif
}

#ifdef GS_EMULATED
// gs_lane is a lane's slot of an exchange.
template <class T> inline T &gs_lane(char *slots, int i) { return *reinterpret_cast<T *>(slots + i * emu::slotBytes); }
// What a lane brings to a product of tiles, and takes from it.
struct gs_tile { uint32_t a[4], b[2]; float d[4]; };
// gs_combine multiplies the tiles of all lanes. depth 8: tf32, one element a register; 16: bfloat16, two.
template <int depth> inline void gs_combine(char *slots) {
	float a[16][depth], b[depth][8], d[16][8];
	for (int l = 0; l < 32; l++) {
		int g = l / 4, t = l % 4;
		const gs_tile &x = gs_lane<gs_tile>(slots, l);
		for (int h = 0; h < 4; h++) {
			if (depth == 8) a[g + h % 2 * 8][t + h / 2 * 4] = __uint_as_float(x.a[h] & ~0x1fffu);
			else for (int k = 0; k < 2; k++) a[g + h % 2 * 8][2 * t + h / 2 * 8 + k] = gs_bf16(uint16_t(x.a[h] >> 16 * k));
		}
		for (int h = 0; h < 2; h++) {
			if (depth == 8) b[t + 4 * h][g] = __uint_as_float(x.b[h] & ~0x1fffu);
			else for (int k = 0; k < 2; k++) b[2 * t + 8 * h + k][g] = gs_bf16(uint16_t(x.b[h] >> 16 * k));
		}
	}
	memset(d, 0, sizeof d);
	for (int i = 0; i < 16; i++)
		for (int k = 0; k < depth; k++)
			for (int j = 0; j < 8; j++) d[i][j] += a[i][k] * b[k][j];
	for (int l = 0; l < 32; l++)
		for (int h = 0; h < 4; h++) gs_lane<gs_tile>(slots, l).d[h] += d[l / 4 + h / 2 * 8][2 * (l % 4) + h % 2];
}
template <int depth> inline void gs_exchange(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const char *op) {
	gs_tile v = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {d[0], d[1], d[2], d[3]}};
	v = emu::at<gs_tile>(emu::exchange(~0u, op, &v, sizeof v, gs_combine<depth>), emu::laneId());
	for (int h = 0; h < 4; h++) d[h] = v.d[h];
}
// gs_tile3 is gs_tile with what rounding to tf32 left of each factor; gs_combine3 does gs_mma3.
struct gs_tile3 { uint32_t a[4], rest[4], b[2], restB[2]; float d[4]; };
inline void gs_combine3(char *slots) {
	static_assert(sizeof(gs_tile3) <= emu::slotBytes);
	float a[16][8], ra[16][8], b[8][8], rb[8][8], d[16][8];
	for (int l = 0; l < 32; l++) {
		int g = l / 4, t = l % 4;
		const gs_tile3 &x = gs_lane<gs_tile3>(slots, l);
		for (int h = 0; h < 4; h++) {
			a[g + h % 2 * 8][t + h / 2 * 4] = __uint_as_float(x.a[h] & ~0x1fffu), ra[g + h % 2 * 8][t + h / 2 * 4] = __uint_as_float(x.rest[h] & ~0x1fffu);
			d[g + h / 2 * 8][2 * t + h % 2] = x.d[h];
		}
		for (int h = 0; h < 2; h++) b[t + 4 * h][g] = __uint_as_float(x.b[h] & ~0x1fffu), rb[t + 4 * h][g] = __uint_as_float(x.restB[h] & ~0x1fffu);
	}
	auto product = [&](float (&x)[16][8], float (&y)[8][8]) {
		for (int i = 0; i < 16; i++) {
			float sum[8] = {};
			for (int k = 0; k < 8; k++)
				for (int j = 0; j < 8; j++) sum[j] += x[i][k] * y[k][j];
			for (int j = 0; j < 8; j++) d[i][j] += sum[j];
		}
	};
	product(ra, b), product(a, rb), product(a, b);
	for (int l = 0; l < 32; l++)
		for (int h = 0; h < 4; h++) gs_lane<gs_tile3>(slots, l).d[h] = d[l / 4 + h / 2 * 8][2 * (l % 4) + h % 2];
}
#endif

// gs_mma adds the product of a 16×8 and an 8×8 tf32 tile to d (16×8), spread over a warp as
// mma.sync.m16n8k8 wants: with g = lane/4, t = lane%4,
// a = (g,t) (g+8,t) (g,t+4) (g+8,t+4); b = (t,g) (t+4,g); d = (g,2t) (g,2t+1) (g+8,2t) (g+8,2t+1).
__device__ inline void gs_mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef GS_EMULATED
	gs_exchange<8>(d, a, b, "mma.sync");
#else
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// gs_mma3 adds three products of tf32 tiles each to J of a row's N columns of tiles from first on, as far as these begin before left: of
// what rounding left first, restA·b, a·restB, a·b. Products of one kind come first, of which none waits for another.
template <int I, int N, int J> __device__ inline void gs_mma3(float (&d)[I][N][4], int first, int left, const uint32_t (&a)[I][4], const uint32_t (&restA)[I][4],
		const uint32_t (&b)[J][2], const uint32_t (&restB)[J][2]) {
#ifdef GS_EMULATED // in one exchange
	for (int j = 0; j < J && 8 * (first + j) < left; j++)
		for (int i = 0; i < I; i++) {
			gs_tile3 v;
			memcpy(v.a, a[i], sizeof v.a), memcpy(v.rest, restA[i], sizeof v.rest), memcpy(v.b, b[j], sizeof v.b), memcpy(v.restB, restB[j], sizeof v.restB);
			memcpy(v.d, d[i][first + j], sizeof v.d);
			v = emu::at<gs_tile3>(emu::exchange(~0u, "mma.sync", &v, sizeof v, gs_combine3), emu::laneId());
			memcpy(d[i][first + j], v.d, sizeof v.d);
		}
#else
#pragma unroll
	for (int k = 0; k < 3; k++)
#pragma unroll
		for (int j = 0; j < J; j++)
			if (8 * (first + j) < left)
#pragma unroll
				for (int i = 0; i < I; i++) gs_mma(d[i][first + j], k == 0 ? restA[i] : a[i], k == 1 ? restB[j] : b[j]);
#endif
}

// gs_mma_bf16 is gs_mma for 16×16 and 16×8 bfloat16 tiles, two elements a register:
// a = (g,2t) (g+8,2t) (g,2t+8) (g+8,2t+8), each with its right neighbour; b = (2t,g) (2t+8,g), each with the one below.
__device__ inline void gs_mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef GS_EMULATED
	gs_exchange<16>(d, a, b, "mma.sync.bf16");
#else
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// gs_copy16 copies 16 bytes to shared memory, the last 16-valid of them as 0, in the
// background: they are there after gs_copies_wait and a barrier. gs_copy4 copies 4 or none.
__device__ inline void gs_copy16(void *shared, const void *global, int valid) {
#ifdef GS_EMULATED
	emu::cp_async(shared, global, 16, valid);
#else
	uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(valid) : "memory");
#endif
}
__device__ inline void gs_copy4(void *shared, const void *global, int valid) {
#ifdef GS_EMULATED
	emu::cp_async(shared, global, 4, valid);
#else
	uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(global), "r"(valid) : "memory");
#endif
}
__device__ inline void gs_copies_commit() {
#ifdef GS_EMULATED
	emu::cp_commit();
#else
	asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int groups> __device__ inline void gs_copies_wait() {
#ifdef GS_EMULATED
	emu::cp_wait(groups);
#else
	asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}

// Elements of a table, as the Go side numbers them.
enum { F32, F16, BF16, I8 };

// Elem reads element j of a row, or four from j on, which lie aligned to their size.
template <int elem> struct Elem;
template <> struct Elem<F32> {
	static __device__ inline float at(const char *row, int j) { return reinterpret_cast<const float *>(row)[j]; }
	static __device__ inline void four(const char *row, int j, float (&v)[4]) {
		float4 x = *reinterpret_cast<const float4 *>(row + 4 * j);
		v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
	}
};
template <int elem> struct Elem16 {
	static __device__ inline float value(uint32_t x) { return elem == F16 ? gs_half(uint16_t(x)) : gs_bf16(uint16_t(x)); }
	static __device__ inline float at(const char *row, int j) { return value(reinterpret_cast<const uint16_t *>(row)[j]); }
	static __device__ inline void four(const char *row, int j, float (&v)[4]) {
		uint2 x = *reinterpret_cast<const uint2 *>(row + 2 * j);
		v[0] = value(x.x & 0xffff), v[1] = value(x.x >> 16), v[2] = value(x.y & 0xffff), v[3] = value(x.y >> 16);
	}
};
template <> struct Elem<F16> : Elem16<F16> {};
template <> struct Elem<BF16> : Elem16<BF16> {};
template <> struct Elem<I8> {
	static __device__ inline float at(const char *row, int j) { return float(reinterpret_cast<const int8_t *>(row)[j]); }
	static __device__ inline void four(const char *row, int j, float (&v)[4]) {
		uint32_t x = *reinterpret_cast<const uint32_t *>(row + j);
		for (int i = 0; i < 4; i++) v[i] = float(int8_t(x >> 8 * i));
	}
};
// load reads V elements, 1 or 4.
template <int elem, int V> __device__ inline void load(const char *row, int j, float (&v)[V]) {
	if constexpr (V == 4) Elem<elem>::four(row, j, v);
	else v[0] = Elem<elem>::at(row, j);
}
template <int V> __device__ inline void store(float *to, const float (&v)[V]) {
	if constexpr (V == 4) *reinterpret_cast<float4 *>(to) = make_float4(v[0], v[1], v[2], v[3]);
	else to[0] = v[0];
}
