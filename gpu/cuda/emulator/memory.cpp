// Memory and copies of the emulated driver.
#include "state.h"
#include <algorithm>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace emu {
static bool in(const std::map<uintptr_t, Allocation> &m, uintptr_t p, size_t n) {
	auto i = m.upper_bound(p);
	return i != m.begin() && (--i, p + n <= i->first + i->second.bytes);
}
// pinned says whether one allocation or registration holds all of the bytes, as copies want.
bool pinned(const void *p, size_t n) { return in(S->host, uintptr_t(p), n) || in(S->device, uintptr_t(p), n); }
static bool inDevice(CUdeviceptr p, size_t n) { return in(S->device, p, n) || in(S->host, p, n); }
const Allocation *holder(uintptr_t p) {
	auto i = S->device.upper_bound(p);
	return i != S->device.begin() && (--i, p < i->first + i->second.bytes) ? &i->second : nullptr;
}

const Allocation *anywhere(uintptr_t p) {
	if (const Allocation *a = holder(p)) return a;
	auto i = S->host.upper_bound(p);
	return i != S->host.begin() && (--i, p < i->first + i->second.bytes) ? &i->second : nullptr;
}
// used is what a captured copy or fill of these addresses has.
static std::vector<std::pair<uintptr_t, uint64_t>> used(std::initializer_list<uintptr_t> at) {
	std::vector<std::pair<uintptr_t, uint64_t>> all;
	for (uintptr_t p : at) if (const Allocation *a = anywhere(p)) all.emplace_back(p, a->id);
	return all;
}

// allot makes memory that ends at a page that faults, filled so that floats are NaN.
static Allocation allot(size_t bytes, uintptr_t *at) {
#if defined(__SANITIZE_ADDRESS__)
	char *p = static_cast<char *>(aligned_alloc(256, bytes + (256 - bytes % 256) % 256)), *end = p + bytes;
	if (bytes % 256) __asan_poison_memory_region(end, 256 - bytes % 256);
	if (bytes <= (64 << 20)) memset(p, 0xff, bytes);
	*at = uintptr_t(p);
	return {bytes, p, 0, current, ++S->allocations};
#else
	size_t page = 4096, round = (bytes + 255) & ~size_t(255), body = (round + page - 1) & ~(page - 1);
	char *map = static_cast<char *>(mmap(nullptr, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	if (map == MAP_FAILED) return {0, nullptr, 0, current, 0};
	mprotect(map + body, page, PROT_NONE);
	*at = uintptr_t(map + body - round);
	if (bytes <= (64 << 20)) memset(reinterpret_cast<void *>(*at), 0xff, bytes);
	return {bytes, map, body + page, current, ++S->allocations};
#endif
}
static void drop(const Allocation &a) {
	if (a.mapped) munmap(a.map, a.mapped);
	else free(a.map);
}

static CUresult copy(Lock &lock, void *dst, const void *src, size_t n, CUstream_st *s, bool fromHost, bool toHost) {
	bool paged = (fromHost && !pinned(src, n)) || (toHost && !pinned(dst, n));
	if ((!fromHost && !inDevice(CUdeviceptr(src), n)) || (!toHost && !inDevice(CUdeviceptr(dst), n))) return CUDA_ERROR_INVALID_VALUE;
	auto now = [=](std::string *) { memcpy(dst, src, n); return CUDA_SUCCESS; };
	if (!paged || s->capture) return push(lock, s, {"memcpy", now, {}, nullptr, 0, used({uintptr_t(dst), uintptr_t(src)})});
	if (S->strict) { complain("asynchronous copy of host memory that is not pinned"); return CUDA_ERROR_INVALID_VALUE; }
	if (toHost) { // the driver returns when such a copy is done
		CUresult r = push(lock, s, {"memcpy", now, {}, nullptr, 0});
		finish(lock, s, [&] { return empty(s); });
		return r ? r : s->context->sticky;
	}
	auto staged = std::make_shared<std::vector<char>>(static_cast<const char *>(src), static_cast<const char *>(src) + n);
	return push(lock, s, {"memcpy", [=](std::string *) { memcpy(dst, staged->data(), n); return CUDA_SUCCESS; }, {}, nullptr, 0});
}
template <class T> static CUresult fill(Lock &lock, CUdeviceptr p, T v, size_t n, CUstream_st *s) {
	if (!inDevice(p, n * sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
	return push(lock, s, {"memset", [=](std::string *) { std::fill_n(reinterpret_cast<T *>(p), n, v); return CUDA_SUCCESS; }, {}, nullptr, 0, used({uintptr_t(p)})});
}
} // namespace emu

using namespace emu;

API cuMemGetInfo(size_t *free, size_t *total) { ENTER; *free = S->totalBytes - current->used; *total = S->totalBytes; return CUDA_SUCCESS; }
API cuMemAlloc(CUdeviceptr *p, size_t n) {
	ENTER;
	if (forbidden(nullptr)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (n == 0) return CUDA_ERROR_INVALID_VALUE;
	if (fails(&S->failAlloc) || n > S->totalBytes - current->used) return CUDA_ERROR_OUT_OF_MEMORY;
	uintptr_t at;
	Allocation a = allot(n, &at);
	if (!a.map) return CUDA_ERROR_OUT_OF_MEMORY;
	S->device[at] = a, current->used += n, *p = at;
	return CUDA_SUCCESS;
}
// What frees works in a context that a fault has ended too, as on a GPU where the driver
// reports the fault and the context's release frees all.
static CUresult give(Lock &lock, std::map<uintptr_t, Allocation> *from, uintptr_t p, bool registered, CUresult unknown) {
	auto i = from->find(p);
	if (i == from->end() || registered != !i->second.map) return unknown;
	if (forbidden(nullptr)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	drain(lock, i->second.context); // as the driver does
	if (i->second.map) drop(i->second);
	if (from == &S->device) i->second.context->used -= i->second.bytes;
	from->erase(i);
	return current->sticky;
}
#define GIVE                                  \
	Lock lock(S->m);                          \
	if (!current) return CUDA_ERROR_INVALID_CONTEXT
API cuMemFree(CUdeviceptr p) { GIVE; return give(lock, &S->device, p, false, CUDA_ERROR_INVALID_VALUE); }
API cuMemHostAlloc(void **p, size_t n, unsigned) {
	ENTER;
	if (forbidden(nullptr)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (fails(&S->failAlloc)) return CUDA_ERROR_OUT_OF_MEMORY;
	uintptr_t at;
	Allocation a = allot(n, &at);
	if (!a.map) return CUDA_ERROR_OUT_OF_MEMORY;
	S->host[at] = a, *p = reinterpret_cast<void *>(at);
	return CUDA_SUCCESS;
}
API cuMemFreeHost(void *p) { GIVE; return give(lock, &S->host, uintptr_t(p), false, CUDA_ERROR_INVALID_VALUE); }
API cuMemHostRegister(void *p, size_t n, unsigned) {
	ENTER;
	if (forbidden(nullptr)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (fails(&S->failAlloc)) return CUDA_ERROR_OUT_OF_MEMORY;
	// Whole pages are locked: two registrations may not share one.
	uintptr_t lo = uintptr_t(p) & ~uintptr_t(4095), hi = (uintptr_t(p) + n + 4095) & ~uintptr_t(4095);
	auto i = S->host.lower_bound(hi);
	if (i != S->host.begin() && (--i, !i->second.map) && ((i->first + i->second.bytes + 4095) & ~uintptr_t(4095)) > lo) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	S->host[uintptr_t(p)] = {n, nullptr, 0, current, ++S->allocations};
	return CUDA_SUCCESS;
}
API cuMemHostUnregister(void *p) { GIVE; return give(lock, &S->host, uintptr_t(p), true, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED); }
API cuMemHostGetDevicePointer(CUdeviceptr *d, void *p, unsigned) { ENTER; *d = CUdeviceptr(p); return pinned(p, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

API cuMemcpyHtoDAsync(CUdeviceptr d, const void *s, size_t n, CUstream h) { ENTER; return copy(lock, reinterpret_cast<void *>(d), s, n, stream(h), true, false); }
API cuMemcpyDtoHAsync(void *d, CUdeviceptr s, size_t n, CUstream h) { ENTER; return copy(lock, d, reinterpret_cast<void *>(s), n, stream(h), false, true); }
API cuMemcpyDtoDAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h) { ENTER; return copy(lock, reinterpret_cast<void *>(d), reinterpret_cast<void *>(s), n, stream(h), false, false); }
API cuMemcpyPeerAsync(CUdeviceptr d, CUcontext, CUdeviceptr s, CUcontext, size_t n, CUstream h) { return cuMemcpyDtoDAsync(d, s, n, h); }
API cuMemcpyHtoD(CUdeviceptr d, const void *s, size_t n) { return cuMemcpyHtoDAsync(d, s, n, nullptr); }
API cuMemcpyDtoH(void *d, CUdeviceptr s, size_t n) { return cuMemcpyDtoHAsync(d, s, n, nullptr); }
API cuMemcpyDtoD(CUdeviceptr d, CUdeviceptr s, size_t n) { return cuMemcpyDtoDAsync(d, s, n, nullptr); }
API cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream h) { ENTER; return fill(lock, p, v, n, stream(h)); }
API cuMemsetD32Async(CUdeviceptr p, unsigned v, size_t n, CUstream h) { ENTER; return fill(lock, p, v, n, stream(h)); }
API cuMemsetD8(CUdeviceptr p, unsigned char v, size_t n) { return cuMemsetD8Async(p, v, n, nullptr); }
API cuMemsetD32(CUdeviceptr p, unsigned v, size_t n) { return cuMemsetD32Async(p, v, n, nullptr); }
