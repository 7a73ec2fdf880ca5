// Transposition of graphs: a stable radix sort of edges by source, 8 bits a pass, without
// anything that depends on the order in which blocks run.
#include "gs.h"

const int sortTile = 2048; // keys a block: 8 warps of 8 rounds of 32

// edge_keys: keys[e] = indices[e], values[e] = e. A key that is not below limit counts as limit−1.
KERNEL edge_keys(const unsigned *indices, int n, unsigned limit, unsigned *keys, unsigned *values, unsigned op, Status *status) {
	for EACH(e, n) {
		unsigned k = indices[e];
		if (k >= limit) {
			fail(status, op, unsigned(e), k, limit);
			k = limit ? limit - 1 : 0;
		}
		keys[e] = k, values[e] = unsigned(e);
	}
}
EXPORT_KERNEL(edge_keys)

// edge_ends: ends[e] = the destination of edge e. The indptr has to cover all edges.
KERNEL edge_ends(const int *indptr, int n, int edges, int *ends, unsigned op, Status *status) {
	Group g(32);
	for (int64_t d = g.row; d < n; d += g.step) {
		int lo = indptr[d], hi = indptr[d + 1];
		if (lo < 0 || lo > hi || hi > edges || (d == 0 && lo != 0) || (d == n - 1 && hi != edges)) {
			if (g.lane == 0) fail(status, op, unsigned(d), unsigned(hi), unsigned(edges) + 1);
			continue;
		}
		for (int e = lo + g.lane; e < hi; e += 32) ends[e] = int(d);
	}
}
EXPORT_KERNEL(edge_ends)

// sort_count: counts[digit·blocks + block] = how many keys of the block's tile have the digit.
KERNEL __launch_bounds__(256) sort_count(const unsigned *keys, int n, int shift, int *counts) {
	__shared__ int seen[256];
	seen[threadIdx.x] = 0;
	__syncthreads();
	int first = blockIdx.x * sortTile, last = min(n, first + sortTile);
	for (int i = first + threadIdx.x; i < last; i += 256) atomicAdd(&seen[keys[i] >> shift & 255], 1);
	__syncthreads();
	counts[int64_t(threadIdx.x) * gridDim.x + blockIdx.x] = seen[threadIdx.x];
}
EXPORT_KERNEL(sort_count)

// scan replaces x by its sums before each element. One block of 1024.
KERNEL __launch_bounds__(1024) scan(int *x, int n) {
	__shared__ int warps[32];
	int piece = (n + 1023) / 1024, first = min(n, int(threadIdx.x) * piece), last = min(n, first + piece), sum = 0;
	for (int i = first; i < last; i++) sum += x[i];
	int lane = threadIdx.x % 32, before = sum; // becomes the sum up to this thread's piece, of the warp and then of all
#pragma unroll
	for (int d = 1; d < 32; d *= 2) {
		int v = __shfl_up_sync(allLanes, before, d);
		if (lane >= d) before += v;
	}
	if (lane == 31) warps[threadIdx.x / 32] = before;
	__syncthreads();
	for (int w = 0; w < int(threadIdx.x) / 32; w++) before += warps[w];
	before -= sum;
	for (int i = first; i < last; i++) {
		int v = x[i];
		x[i] = before;
		before += v;
	}
}
EXPORT_KERNEL(scan)

// sort_place moves the keys of a tile to where their digit's begin, in their order.
KERNEL __launch_bounds__(256) sort_place(const unsigned *keys, const unsigned *values, int n, int shift, const int *starts, unsigned *keysOut, unsigned *valuesOut) {
	__shared__ int at[8][256];
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = blockIdx.x * sortTile + warp * (sortTile / 8);
	for (int w = 0; w < 8; w++) at[w][threadIdx.x] = 0;
	__syncthreads();
	for (int i = first + lane; i < min(n, first + sortTile / 8); i += 32) atomicAdd(&at[warp][keys[i] >> shift & 255], 1);
	__syncthreads();
	int place = starts[int64_t(threadIdx.x) * gridDim.x + blockIdx.x];
	for (int w = 0; w < 8; w++) { // thread d: where each warp's keys of digit d go
		int count = at[w][threadIdx.x];
		at[w][threadIdx.x] = place;
		place += count;
	}
	__syncthreads();
	for (int round = 0; round < sortTile / 8; round += 32) {
		int i = first + round + lane;
		bool in = i < n;
		unsigned key = in ? keys[i] : 0, digit = in ? key >> shift & 255 : 256;
		unsigned same = __match_any_sync(allLanes, digit), before = same & ((1u << lane) - 1);
		int to = in ? at[warp][digit] + __popc(before) : 0;
		__syncwarp();
		if (in && before == 0) at[warp][digit] += __popc(same);
		__syncwarp();
		if (in) keysOut[to] = key, valuesOut[to] = values[i];
	}
}
EXPORT_KERNEL(sort_place)

// sorted_indptr: indptr[k] = the number of keys below k, for k = 0 … n.
KERNEL sorted_indptr(const unsigned *keys, int count, int *indptr, int n) {
	for EACH(k, int64_t(n) + 1) {
		int lo = 0, hi = count;
		while (lo < hi) {
			int mid = lo + (hi - lo) / 2;
			if (int64_t(keys[mid]) < k) lo = mid + 1;
			else hi = mid;
		}
		indptr[k] = lo;
	}
}
EXPORT_KERNEL(sorted_indptr)

// sorted_ends: dstIndices[k] = ends[values[k]], srcEdges[k] = values[k] where asked for.
KERNEL sorted_ends(const unsigned *values, const int *ends, int n, int *dstIndices, int *srcEdges) {
	for EACH(k, n) {
		dstIndices[k] = ends[values[k]];
		if (srcEdges) srcEdges[k] = int(values[k]);
	}
}
EXPORT_KERNEL(sorted_ends)

// self_loops: out is g with one more edge d → d, the first of each d. A null indptr is no edges.
KERNEL self_loops(const int *indptr, const int *indices, int n, int edges, int *outIndptr, int *outIndices, unsigned op, Status *status) {
	Group g(32);
	for (int64_t d = g.row; d < n; d += g.step) {
		int lo = 0, hi = 0;
		if (indptr) {
			lo = indptr[d], hi = indptr[d + 1];
			if (lo < 0 || lo > hi || hi > edges || (d == 0 && lo != 0) || (d == n - 1 && hi != edges)) {
				if (g.lane == 0) fail(status, op, unsigned(d), unsigned(hi), unsigned(edges) + 1);
				lo = hi = 0;
			}
		}
		int at = lo + int(d);
		if (g.lane == 0) {
			outIndptr[d] = at, outIndices[at] = int(d);
			if (d == n - 1) outIndptr[n] = edges + n;
		}
		for (int e = lo + g.lane; e < hi; e += 32) outIndices[e + d + 1] = indices[e];
	}
}
EXPORT_KERNEL(self_loops)
