// Devices, contexts, modules and launches of the emulated driver.
#include "state.h"
#include <algorithm>

using namespace emu;

API cuInit(unsigned) {
	Lock lock(S->m);
	if (S->up) return CUDA_SUCCESS;
	S->up = true;
	configure();
	if (const char *e = getenv("GS_EMU_DEVICES")) S->deviceCount = std::max(0, atoi(e));
	for (int i = 0; i < S->deviceCount; i++) {
		S->contexts.emplace_back(new CUctx_st);
		S->contexts.back()->device = i;
		S->null.emplace_back(new CUstream_st);
		S->null.back()->context = S->contexts.back().get();
		S->streams.insert(S->null.back().get());
	}
	installFaultHandler();
	return S->deviceCount ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
API cuDriverGetVersion(int *v) { *v = 12090; return CUDA_SUCCESS; }
API cuDeviceGetCount(int *n) { *n = S->deviceCount; return S->up ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }
API cuDeviceGet(CUdevice *d, int i) { *d = i; return i >= 0 && i < S->deviceCount ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; }
API cuDeviceGetName(char *s, int n, CUdevice) { snprintf(s, n, "gstore CUDA emulator"); return CUDA_SUCCESS; }
API cuDeviceTotalMem(size_t *n, CUdevice) { *n = S->totalBytes; return CUDA_SUCCESS; }
API cuDeviceCanAccessPeer(int *can, CUdevice a, CUdevice b) { *can = a != b; return CUDA_SUCCESS; }
API cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice) {
	switch (a) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = 9; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = 0; break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = 4; break;
	case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *v = 32; break;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *v = 1024; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *v = 48 << 10; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *v = 99 << 10; break; // the least of sm_80 to 90
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
	case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: *v = 1; break;
	default: *v = 0;
	}
	return CUDA_SUCCESS;
}

API cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
	Lock lock(S->m);
	if (!S->up || d < 0 || d >= S->deviceCount) return CUDA_ERROR_INVALID_DEVICE;
	if (std::all_of(S->contexts.begin(), S->contexts.end(), [](auto &x) { return x->retained == 0; })) configure();
	CUctx_st *x = S->contexts[d].get();
	x->retained++;
	*c = x;
	return CUDA_SUCCESS;
}
// The last release ends the context and frees what it owns; strict calls that a leak.
API cuDevicePrimaryCtxRelease(CUdevice d) {
	Lock lock(S->m);
	CUctx_st *x = S->contexts[d].get();
	if (x->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
	if (--x->retained) return CUDA_SUCCESS;
	drain(lock, x);
	size_t streams = 0, events = 0, memory = 0, host = 0, graphs = 0;
	for (CUstream_st *s : S->streams) streams += s->context == x && s != S->null[d].get();
	for (CUevent_st *e : S->events) events += e->context == x;
	for (CUgraphExec_st *g : S->graphs) graphs += g->context == x;
	for (auto &a : S->device) memory += a.second.context == x;
	for (auto &a : S->host) host += a.second.context == x;
	x->sticky = CUDA_SUCCESS, x->peers.clear();
	if (streams + events + memory + host + graphs == 0 || !S->strict) return CUDA_SUCCESS;
	complain("device " + std::to_string(d) + " is released with " + std::to_string(memory) + " allocations, " + std::to_string(host) +
		" of pinned memory, " + std::to_string(streams) + " streams, " + std::to_string(events) + " events, " + std::to_string(graphs) + " graphs left");
	return CUDA_ERROR_NOT_PERMITTED;
}
API cuCtxSetCurrent(CUcontext c) { current = c; return CUDA_SUCCESS; }
API cuCtxGetCurrent(CUcontext *c) { *c = current; return CUDA_SUCCESS; }
API cuCtxPushCurrent(CUcontext c) { current = c; return CUDA_SUCCESS; }
API cuCtxPopCurrent(CUcontext *c) { if (c) *c = current; current = nullptr; return CUDA_SUCCESS; }
API cuCtxGetDevice(CUdevice *d) {
	if (!current) return CUDA_ERROR_INVALID_CONTEXT;
	*d = current->device;
	return CUDA_SUCCESS;
}
API cuCtxEnablePeerAccess(CUcontext peer, unsigned) {
	ENTER;
	if (peer == current) return CUDA_ERROR_INVALID_DEVICE;
	return current->peers.insert(peer).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}
API cuCtxDisablePeerAccess(CUcontext peer) {
	ENTER;
	return current->peers.erase(peer) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
API cuCtxSynchronize() {
	ENTER;
	if (forbidden(nullptr)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	drain(lock, current);
	return current->sticky;
}

// A module is what a GPU would get: a cubin or PTX. A kernel is found only if the image has
// it too, so that a test notices kernels that were not compiled again.
API cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned, CUjit_option *, void **) {
	ENTER;
	const unsigned char *p = static_cast<const unsigned char *>(image);
	*m = new CUmod_st;
	(*m)->context = current;
	if (memcmp(p, "\177ELF", 4)) {
		(*m)->image = reinterpret_cast<const char *>(p);
		return CUDA_SUCCESS;
	}
	uint64_t at; // section headers are at the end of a cubin
	uint16_t size, count;
	memcpy(&at, p + 40, 8), memcpy(&size, p + 58, 2), memcpy(&count, p + 60, 2);
	uint64_t end = at + uint64_t(size) * count;
	for (int i = 0; i < count; i++) {
		uint64_t o, n;
		uint32_t type;
		memcpy(&type, p + at + i * size + 4, 4), memcpy(&o, p + at + i * size + 24, 8), memcpy(&n, p + at + i * size + 32, 8);
		if (type != 8) end = std::max(end, o + n);
	}
	(*m)->image.assign(reinterpret_cast<const char *>(p), end);
	return CUDA_SUCCESS;
}
API cuModuleLoadData(CUmodule *m, const void *image) { return cuModuleLoadDataEx(m, image, 0, nullptr, nullptr); }
API cuModuleUnload(CUmodule m) { ENTER; delete m; return CUDA_SUCCESS; }
API cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
	ENTER;
	const KernelInfo *k = find(name);
	if (!k) return CUDA_ERROR_NOT_FOUND;
	bool elf = m->image.compare(0, 4, "\177ELF") == 0;
	std::string want = elf ? std::string(".text.") + name + '\0' : std::string(".entry ") + name + "(";
	if (m->image.find(want) == std::string::npos) {
		complain(std::string(name) + " is not in the module: compile the kernels again");
		return CUDA_ERROR_NOT_FOUND;
	}
	m->functions.emplace_back(new CUfunc_st{k, current});
	*f = m->functions.back().get();
	return CUDA_SUCCESS;
}
API cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) {
	ENTER;
	if (a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
		if (v > 99 << 10) return CUDA_ERROR_INVALID_VALUE;
		f->maxDynamic = v;
	}
	return CUDA_SUCCESS;
}

// Arguments are a launch's parameters, copied as the driver copies them.
struct Arguments { std::vector<char> bytes; std::vector<void *> at; };

static CUresult pack(const KernelInfo *k, void **params, void **extra, Arguments *a) {
	std::vector<size_t> offsets;
	size_t total = 0;
	for (int i = 0; i < paramCount(k); i++) {
		uint32_t size, align;
		param(k, i, &size, &align);
		total = (total + align - 1) / align * align;
		offsets.push_back(total), total += size;
	}
	a->bytes.resize(total + 8);
	if (params) {
		for (size_t i = 0; i < offsets.size(); i++) {
			uint32_t size, align;
			param(k, int(i), &size, &align);
			memcpy(&a->bytes[offsets[i]], params[i], size);
		}
	} else if (extra) {
		const void *buffer = nullptr;
		size_t size = 0;
		for (void **p = extra; *p != CU_LAUNCH_PARAM_END; p += 2) {
			if (*p == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = p[1];
			if (*p == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<size_t *>(p[1]);
		}
		if (size != total) {
			complain(kernelName(k) + " takes " + std::to_string(total) + " bytes of parameters, got " + std::to_string(size));
			return CUDA_ERROR_INVALID_VALUE;
		}
		memcpy(a->bytes.data(), buffer, size);
	}
	for (size_t o : offsets) a->at.push_back(&a->bytes[o]);
	return CUDA_SUCCESS;
}

// foreign says whether a parameter points to memory of a device that the context may not touch.
static bool foreign(const KernelInfo *k, const Arguments &a) {
	for (int i = 0; i < paramCount(k); i++) {
		uint32_t size, align;
		param(k, i, &size, &align);
		if (size != 8) continue;
		uintptr_t p;
		memcpy(&p, a.at[i], 8);
		const Allocation *x = holder(p);
		if (x && x->context != current && !current->peers.count(x->context)) return true;
	}
	return false;
}

// pointers are a launch's parameters that point to memory, and what was allocated there.
static std::vector<std::pair<uintptr_t, uint64_t>> pointers(const KernelInfo *k, const Arguments &a) {
	std::vector<std::pair<uintptr_t, uint64_t>> all;
	for (int i = 0; i < paramCount(k); i++) {
		uint32_t size, align;
		param(k, i, &size, &align);
		if (size != 8) continue;
		uintptr_t p;
		memcpy(&p, a.at[i], 8);
		if (const Allocation *x = anywhere(p)) all.emplace_back(p, x->id);
	}
	return all;
}

API cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream h, void **params, void **extra) {
	if (S->none) return CUDA_SUCCESS;
	ENTER;
	std::string name = kernelName(f->kernel);
	if (!gx || !gy || !gz || !bx || !by || !bz || uint64_t(bx) * by * bz > 1024 || gx > 0x7fffffff || gy > 65535 || gz > 65535 || bz > 64 || shared > f->maxDynamic) {
		complain("launch of " + name + " with an impossible configuration: grid " + std::to_string(gx) + "," + std::to_string(gy) + "," + std::to_string(gz) +
			" of " + std::to_string(bx) + "," + std::to_string(by) + "," + std::to_string(bz) + " threads, " + std::to_string(shared) + " bytes shared");
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (f->context != current) { complain(name + " was loaded for another device"); return CUDA_ERROR_INVALID_HANDLE; }
	auto a = std::make_shared<Arguments>();
	if (CUresult r = pack(f->kernel, params, extra, a.get())) return r;
	bool fault = fails(&S->failLaunch), peer = foreign(f->kernel, *a), random = S->random || S->threads;
	std::vector<std::pair<uintptr_t, uint64_t>> uses = pointers(f->kernel, *a);
	Launch l{f->kernel, {gx, gy, gz}, {bx, by, bz}, shared, 0};
	return push(lock, stream(h), {"kernel", [=](std::string *why) mutable {
		if (fault) { *why = "kernel " + name + ": injected fault"; return CUDA_ERROR_LAUNCH_FAILED; }
		if (peer) { *why = "kernel " + name + " reads memory of a device without peer access"; return CUDA_ERROR_ILLEGAL_ADDRESS; }
		if (random) { Lock lock(S->m); l.order = draw() | 1; }
		switch (launch(l, a->at.data(), why)) {
		case Outcome::ok: return CUDA_SUCCESS;
		case Outcome::illegalAddress: return CUDA_ERROR_ILLEGAL_ADDRESS;
		default: return CUDA_ERROR_LAUNCH_FAILED;
		}
	}, {}, nullptr, 0, std::move(uses)});
}

API cuGetErrorName(CUresult r, const char **s) {
#define NAME(x) case x: *s = #x; return CUDA_SUCCESS
	switch (r) {
	NAME(CUDA_ERROR_INVALID_VALUE);
	NAME(CUDA_ERROR_OUT_OF_MEMORY);
	NAME(CUDA_ERROR_NOT_INITIALIZED);
	NAME(CUDA_ERROR_NO_DEVICE);
	NAME(CUDA_ERROR_INVALID_DEVICE);
	NAME(CUDA_ERROR_INVALID_CONTEXT);
	NAME(CUDA_ERROR_INVALID_HANDLE);
	NAME(CUDA_ERROR_NOT_FOUND);
	NAME(CUDA_ERROR_ILLEGAL_ADDRESS);
	NAME(CUDA_ERROR_LAUNCH_FAILED);
	NAME(CUDA_ERROR_NOT_PERMITTED);
	NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	NAME(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	NAME(CUDA_ERROR_CAPTURED_EVENT);
	default: *s = "CUDA_ERROR"; return CUDA_SUCCESS;
	}
#undef NAME
}
API cuGetErrorString(CUresult r, const char **s) { return cuGetErrorName(r, s); }
