// Kernels with planted bugs: what the emulator must notice. Only in its test build.
extern "C" __global__ void bug_race(int *out) { // no barrier between the write and another thread's read
	__shared__ int x[256];
	x[threadIdx.x] = out[threadIdx.x];
	out[threadIdx.x] = x[255 - threadIdx.x];
}
EXPORT_KERNEL(bug_race)

extern "C" __global__ void bug_divergent(int *out) { // half of a block waits for the other half in vain
	if (threadIdx.x < 128) __syncthreads();
	else out[threadIdx.x] = __shfl_sync(0xffffffff, out[threadIdx.x], threadIdx.x % 32 < 16 ? 0 : 1);
	if (threadIdx.x >= 128 && threadIdx.x % 32 < 16) __syncwarp();
}
EXPORT_KERNEL(bug_divergent)

extern "C" __global__ void bug_bounds(int *out) { out[threadIdx.x + 256] = 1; } // the buffer has 256
EXPORT_KERNEL(bug_bounds)

extern "C" __global__ void bug_small_bounds(int *out) { // the buffer has 250: less than an alignment past its end
	if (threadIdx.x == 0) out[250] = 1;
}
EXPORT_KERNEL(bug_small_bounds)

extern "C" __global__ void bug_copy(int *out) { // reads before the asynchronous copy was waited for
	__shared__ __align__(16) int x[4];
	if (threadIdx.x == 0) x[0] = x[1] = x[2] = x[3] = -7;
	__syncthreads();
	if (threadIdx.x == 0) {
		emu::cp_async(x, out, 16, 16);
		emu::cp_commit();
		out[0] = x[0];
	}
}
EXPORT_KERNEL(bug_copy)

// Sums 256 numbers by halves without the barrier between them.
extern "C" __global__ void bug_barrier(int *out) {
	__shared__ int x[256];
	x[threadIdx.x] = out[threadIdx.x];
	__syncthreads();
	for (int n = 128; n > 0; n /= 2)
		if (int(threadIdx.x) < n) x[threadIdx.x] += x[threadIdx.x + n];
	if (threadIdx.x == 0) out[0] = x[0];
}
EXPORT_KERNEL(bug_barrier)
