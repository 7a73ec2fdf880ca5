// What gorgonia.org/cu v0.9.6 lacks, or does with more calls than one: see calls.c.
#include <cuda.h>
#include <stdint.h>
const char *gs_cuda_load(const char *path);
// Each makes ctx current first: a goroutine may be on any thread.
CUresult gs_retain(int device, CUcontext *ctx);
CUresult gs_release(int device);
CUresult gs_enable_peer(CUcontext ctx, CUcontext peer);
CUresult gs_alloc(CUcontext ctx, CUdeviceptr *p, size_t n);
CUresult gs_free(CUcontext ctx, CUdeviceptr p);
CUresult gs_memory(CUcontext ctx, size_t *free, size_t *total);
CUresult gs_host_alloc(CUcontext ctx, void **p, size_t n);
CUresult gs_host_free(CUcontext ctx, void *p);
CUresult gs_host_register(CUcontext ctx, uintptr_t p, size_t n);
CUresult gs_host_unregister(CUcontext ctx, uintptr_t p);
CUresult gs_stream_destroy(CUcontext ctx, CUstream s);
CUresult gs_event_destroy(CUcontext ctx, CUevent e);
CUresult gs_upload(CUcontext ctx, CUdeviceptr to, const void *from, size_t n, CUstream s);
CUresult gs_download(CUcontext ctx, void *to, CUdeviceptr from, size_t n, CUstream s);
CUresult gs_copy(CUcontext ctx, CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s);
CUresult gs_fill32(CUcontext ctx, CUdeviceptr to, uint32_t v, size_t n, CUstream s);
CUresult gs_fill8(CUcontext ctx, CUdeviceptr to, uint8_t v, size_t n, CUstream s);
CUresult gs_record_wait(CUcontext ctx, CUevent e, CUstream s);
CUresult gs_record(CUcontext ctx, CUevent e, CUstream s);
CUresult gs_stream_wait(CUcontext ctx, CUstream s, CUevent e);
CUresult gs_event_wait(CUcontext ctx, CUevent e);
CUresult gs_capture_begin(CUcontext ctx, CUstream s);
CUresult gs_capture_end(CUcontext ctx, CUstream s, CUgraphExec *x);
CUresult gs_graph_launch(CUcontext ctx, CUgraphExec x, CUstream s);
CUresult gs_graph_destroy(CUcontext ctx, CUgraphExec x);
CUresult gs_event_query(CUcontext ctx, CUevent e);
CUresult gs_elapsed(CUcontext ctx, float *ms, CUevent from, CUevent to);
CUresult gs_max_shared(CUcontext ctx, CUfunction f, int bytes);
CUresult gs_launch(CUcontext ctx, CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned threads, unsigned shared, CUstream s, void *args, size_t bytes);
