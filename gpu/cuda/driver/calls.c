//go:build cuda

#include "calls.h"

#define WITH(ctx) do { CUresult r_ = cuCtxSetCurrent(ctx); if (r_) return r_; } while (0)

// cu's primary contexts cannot be released; these are a pair.
CUresult gs_retain(int device, CUcontext *ctx) {
	CUdevice d;
	CUresult r = cuDeviceGet(&d, device);
	return r ? r : cuDevicePrimaryCtxRetain(ctx, d);
}
CUresult gs_release(int device) {
	CUdevice d;
	CUresult r = cuDeviceGet(&d, device);
	return r ? r : cuDevicePrimaryCtxRelease(d);
}
CUresult gs_enable_peer(CUcontext ctx, CUcontext peer) { WITH(ctx); return cuCtxEnablePeerAccess(peer, 0); }

CUresult gs_alloc(CUcontext ctx, CUdeviceptr *p, size_t n) { WITH(ctx); return cuMemAlloc(p, n); }
CUresult gs_free(CUcontext ctx, CUdeviceptr p) { WITH(ctx); return cuMemFree(p); }
CUresult gs_memory(CUcontext ctx, size_t *free, size_t *total) { WITH(ctx); return cuMemGetInfo(free, total); }
CUresult gs_host_alloc(CUcontext ctx, void **p, size_t n) { WITH(ctx); return cuMemHostAlloc(p, n, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP); }
CUresult gs_host_free(CUcontext ctx, void *p) { WITH(ctx); return cuMemFreeHost(p); }
CUresult gs_host_register(CUcontext ctx, uintptr_t p, size_t n) { WITH(ctx); return cuMemHostRegister((void *)p, n, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP); }
// What may still run reads the memory until it is done: the driver does not say that it waits.
CUresult gs_host_unregister(CUcontext ctx, uintptr_t p) {
	WITH(ctx);
	CUresult r = cuCtxSynchronize(), u = cuMemHostUnregister((void *)p); // also where a fault has ended the context
	return r ? r : u;
}
CUresult gs_stream_destroy(CUcontext ctx, CUstream s) { WITH(ctx); return cuStreamDestroy(s); }
CUresult gs_event_destroy(CUcontext ctx, CUevent e) { WITH(ctx); return cuEventDestroy(e); }

CUresult gs_upload(CUcontext ctx, CUdeviceptr to, const void *from, size_t n, CUstream s) { WITH(ctx); return cuMemcpyHtoDAsync(to, from, n, s); }
CUresult gs_download(CUcontext ctx, void *to, CUdeviceptr from, size_t n, CUstream s) { WITH(ctx); return cuMemcpyDtoHAsync(to, from, n, s); }
CUresult gs_copy(CUcontext ctx, CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) { WITH(ctx); return cuMemcpyDtoDAsync(to, from, n, s); }
CUresult gs_fill32(CUcontext ctx, CUdeviceptr to, uint32_t v, size_t n, CUstream s) { WITH(ctx); return cuMemsetD32Async(to, v, n, s); }
CUresult gs_fill8(CUcontext ctx, CUdeviceptr to, uint8_t v, size_t n, CUstream s) { WITH(ctx); return cuMemsetD8Async(to, v, n, s); }

// gs_record_wait waits, without spinning, for everything issued to s so far.
CUresult gs_record_wait(CUcontext ctx, CUevent e, CUstream s) {
	WITH(ctx);
	CUresult r = cuEventRecord(e, s);
	return r ? r : cuEventSynchronize(e);
}
CUresult gs_record(CUcontext ctx, CUevent e, CUstream s) { WITH(ctx); return cuEventRecord(e, s); }
CUresult gs_stream_wait(CUcontext ctx, CUstream s, CUevent e) { WITH(ctx); return cuStreamWaitEvent(s, e, 0); }
CUresult gs_event_wait(CUcontext ctx, CUevent e) { WITH(ctx); return cuEventSynchronize(e); }
// Relaxed: Go moves goroutines between threads, and a capture of another mode ends on the thread that began it. What a capture
// may not have is refused before it gets here (../record.go).
CUresult gs_capture_begin(CUcontext ctx, CUstream s) { WITH(ctx); return cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED); }
CUresult gs_capture_end(CUcontext ctx, CUstream s, CUgraphExec *x) {
	CUgraph g = NULL;
	WITH(ctx);
	CUresult r = cuStreamEndCapture(s, &g);
	if (r) return r;
	r = cuGraphInstantiateWithFlags(x, g, 0);
	CUresult d = cuGraphDestroy(g);
	return r ? r : d;
}
CUresult gs_graph_launch(CUcontext ctx, CUgraphExec x, CUstream s) { WITH(ctx); return cuGraphLaunch(x, s); }
CUresult gs_graph_destroy(CUcontext ctx, CUgraphExec x) { WITH(ctx); return cuGraphExecDestroy(x); }
CUresult gs_event_query(CUcontext ctx, CUevent e) { WITH(ctx); return cuEventQuery(e); }
CUresult gs_elapsed(CUcontext ctx, float *ms, CUevent from, CUevent to) { WITH(ctx); return cuEventElapsedTime(ms, from, to); }

CUresult gs_max_shared(CUcontext ctx, CUfunction f, int bytes) { WITH(ctx); return cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes); }

// gs_launch takes parameters as the kernel has them in memory: cu's launch takes 8 bytes of
// each and allocates twice.
CUresult gs_launch(CUcontext ctx, CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned threads, unsigned shared, CUstream s, void *args, size_t bytes) {
	WITH(ctx);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
	return cuLaunchKernel(f, gx, gy, gz, threads, 1, 1, shared, s, NULL, extra);
}
