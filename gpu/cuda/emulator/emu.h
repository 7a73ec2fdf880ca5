// The CUDA C++ that gstore's kernels use, for an ordinary C++17 compiler on a CPU:
// force-included (-include emu.h) when a .cu file is compiled for the emulated
// libcuda.so.1. Every CUDA thread of a block is a fiber; blocks run on a pool.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#define GS_EMULATED 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define __align__(n) __attribute__((aligned(n)))

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x = 1, y = 1, z = 1; };
#define EMU_VECTOR(T, name)                                                                     \
	struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                          \
	struct alignas(4 * sizeof(T)) name##4 { T x, y, z, w; };                                    \
	inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                  \
	inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMU_VECTOR(float, float)
EMU_VECTOR(int, int)
EMU_VECTOR(unsigned, uint)
#undef EMU_VECTOR

namespace emu {

constexpr int slotBytes = 64; // of a warp exchange, per lane

struct Thread { // one CUDA thread
	void *sp = nullptr;   // saved stack pointer while it waits
	void *stack = nullptr;
	uint3 tid{};
	int linear = 0;       // number in the block
	enum State : uint8_t { fresh, ready, atBarrier, atWarp, done } state = fresh;
	const char *where = "";
	void *copies = nullptr; // cp.async not waited for
};

struct Block { // the block that an OS thread is running
	uint3 bid{};
	dim3 bdim{}, gdim{};
	Thread *current = nullptr;
	char *dynamicShared = nullptr;
};

extern thread_local Block *block;
extern thread_local Thread *self;

// Each throws the block away (an error of the launch) rather than return when used wrongly.
void syncthreads(const char *where);
bool syncthreads_reduce(int op, int predicate, int *out, const char *where);
// exchange gives every lane of mask the values of all: 32 slots of slotBytes. The last lane
// to come runs combine, if any, on the slots.
const char *exchange(unsigned mask, const char *op, const void *value, int bytes, void (*combine)(char *) = nullptr);
void cp_async(void *dst, const void *src, int bytes, int srcBytes);
void cp_commit();
void cp_wait(int groups);
[[noreturn]] void trap(const char *why);

struct Param { uint32_t size, align; };
using Invoke = void (*)(void **);
void add(const char *name, Invoke invoke, const Param *params, int count);

template <class... A, size_t... I>
inline void call(void (*f)(A...), void **p, std::index_sequence<I...>) { f(*static_cast<std::remove_cv_t<A> *>(p[I])...); }
template <auto F> struct Kernel;
template <class... A, void (*F)(A...)> struct Kernel<F> {
	static void invoke(void **p) { call(F, p, std::index_sequence_for<A...>{}); }
	explicit Kernel(const char *name) {
		static const Param params[] = {{sizeof(A), alignof(A)}..., {0, 0}};
		add(name, invoke, params, sizeof...(A));
	}
};
template <class T> inline const T *lanes(const char *op, unsigned mask, const T &v) {
	static_assert(sizeof(T) <= slotBytes && std::is_trivially_copyable_v<T>);
	return reinterpret_cast<const T *>(exchange(mask, op, &v, sizeof v));
}
template <class T> inline T at(const char *p, int lane) { T v; std::memcpy(&v, p + lane * slotBytes, sizeof v); return v; }
inline int laneId() { return self->linear & 31; }
} // namespace emu

// EXPORT_KERNEL makes a kernel known to cuModuleGetFunction.
#define EXPORT_KERNEL(name) static const emu::Kernel<&name> emu_kernel_##name(#name);
#define DYNAMIC_SHARED(T, name) T *name = reinterpret_cast<T *>(emu::block->dynamicShared)

#define threadIdx (emu::self->tid)
#define blockIdx (emu::block->bid)
#define blockDim (emu::block->bdim)
#define gridDim (emu::block->gdim)
constexpr int warpSize = 32;

#define EMU_LINE2(x) #x
#define EMU_LINE(x) EMU_LINE2(x)
#define __syncthreads() emu::syncthreads(__FILE__ ":" EMU_LINE(__LINE__))
inline int __syncthreads_or(int p) { int r; emu::syncthreads_reduce(0, p, &r, "__syncthreads_or"); return r; }
inline int __syncthreads_and(int p) { int r; emu::syncthreads_reduce(1, p, &r, "__syncthreads_and"); return r; }
inline int __syncthreads_count(int p) { int r; emu::syncthreads_reduce(2, p, &r, "__syncthreads_count"); return r; }
inline void __syncwarp(unsigned mask = ~0u) { int v = 0; emu::exchange(mask, "__syncwarp", &v, 4); }

template <class T> inline T __shfl_sync(unsigned mask, T v, int src, int width = 32) {
	const char *p = emu::exchange(mask, "__shfl_sync", &v, sizeof v);
	return emu::at<T>(p, (emu::laneId() & ~(width - 1)) | (src & (width - 1)));
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T v, int x, int width = 32) {
	const char *p = emu::exchange(mask, "__shfl_xor_sync", &v, sizeof v);
	int l = emu::laneId(), s = l ^ x;
	return emu::at<T>(p, (s & ~(width - 1)) > (l & ~(width - 1)) ? l : s);
}
template <class T> inline T __shfl_down_sync(unsigned mask, T v, unsigned d, int width = 32) {
	const char *p = emu::exchange(mask, "__shfl_down_sync", &v, sizeof v);
	int l = emu::laneId(), s = l + int(d);
	return emu::at<T>(p, (l & (width - 1)) + int(d) >= width ? l : s);
}
template <class T> inline T __shfl_up_sync(unsigned mask, T v, unsigned d, int width = 32) {
	const char *p = emu::exchange(mask, "__shfl_up_sync", &v, sizeof v);
	int l = emu::laneId();
	return emu::at<T>(p, (l & (width - 1)) < int(d) ? l : l - int(d));
}
inline unsigned __ballot_sync(unsigned mask, int pred) {
	int v = pred != 0;
	const char *p = emu::exchange(mask, "__ballot_sync", &v, 4);
	unsigned r = 0;
	for (int i = 0; i < 32; i++) if (mask >> i & 1 && emu::at<int>(p, i)) r |= 1u << i;
	return r;
}
template <class T> inline unsigned __match_any_sync(unsigned mask, T v) {
	const char *p = emu::exchange(mask, "__match_any_sync", &v, sizeof v);
	unsigned r = 0;
	for (int i = 0; i < 32; i++) if (mask >> i & 1 && emu::at<T>(p, i) == v) r |= 1u << i;
	return r;
}
inline int __any_sync(unsigned mask, int pred) { return __ballot_sync(mask, pred) != 0; }
inline int __all_sync(unsigned mask, int pred) { return __ballot_sync(mask, pred) == mask; }

template <class T> inline T emuAdd(T *p, T v) { // float and double too
	T old, want;
	__atomic_load(p, &old, __ATOMIC_RELAXED);
	do want = old + v; while (!__atomic_compare_exchange(p, &old, &want, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return old;
}
template <class T> inline T atomicAdd(T *p, T v) { return emuAdd(p, v); }
template <class T> inline T atomicExch(T *p, T v) { T r; __atomic_exchange(p, &v, &r, __ATOMIC_RELAXED); return r; }
template <class T> inline T atomicCAS(T *p, T old, T v) { __atomic_compare_exchange(p, &old, &v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); return old; }
template <class T> inline T atomicMax(T *p, T v) { T o = *p; while (o < v && !__atomic_compare_exchange(p, &o, &v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} return o; }
template <class T> inline T atomicMin(T *p, T v) { T o = *p; while (v < o && !__atomic_compare_exchange(p, &o, &v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} return o; }
template <class T> inline T atomicOr(T *p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

template <class T> inline T __ldg(const T *p) { return *p; }
template <class T> inline T __ldcs(const T *p) { return *p; }
template <class T> inline void __stcs(T *p, T v) { *p = v; }
inline float __uint_as_float(unsigned x) { float f; std::memcpy(&f, &x, 4); return f; }
inline unsigned __float_as_uint(float x) { unsigned u; std::memcpy(&u, &x, 4); return u; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t(a) * b) >> 32); }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) { return uint64_t((unsigned __int128)(a)*b >> 64); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __fmul_rn(float a, float b) { volatile float r = a * b; return r; }
inline float __fadd_rn(float a, float b) { volatile float r = a + b; return r; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
template <class T, class U> inline auto min(T a, U b) -> std::common_type_t<T, U> { return b < a ? b : a; }
template <class T, class U> inline auto max(T a, U b) -> std::common_type_t<T, U> { return a < b ? b : a; }
