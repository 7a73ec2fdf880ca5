// Blocks of mini-batches, drawn on the device: those of sampler/mini's uniform sampler, entry for entry, in whatever order threads run.
//
// A hop is drawn for all nodes reached so far, input[0 … n). How many these are stands in device memory: sizes[2h] nodes before hop h,
// sizes[2h+1] edges of it. Kernels are launched for the most that there can be.
//
// first[row] says where a row was met first: the complement of its number in the mini-batch, or, until it has one, of n plus the place of its
// edge in the hop; 0: it was not met. So atomicMax finds the first place, and memory begins as 0.
//
// Lists have rows of the host's partition buffer. Where the device has these elsewhere, row r is row r + shifts[r >> shift] here.
#include "gs.h"

const int sampleTile = 2048; // nodes or edges of a block: 8 a thread

struct List { int64_t begin, end; }; // of a row's neighbours

// Draws are package keyed's Rand.
struct Draws {
	static const uint64_t c0 = 0xa0761d6478bd642full, c1 = 0xe7037ed1a0b428dbull, c2 = 0x8ebc6af09c88c6e3ull;
	uint64_t s;
	__device__ static uint64_t mix(uint64_t a, uint64_t b) { return __umul64hi(a, b) ^ (a * b); }
	__device__ Draws(uint64_t key, uint64_t i) { s = mix(key ^ c2, key + (i + 1) * c1) + i; }
	__device__ int below(int n) { // uniform in [0, n)
		s += c0;
		return int(__umul64hi(mix(s, s ^ c1), uint64_t(n)));
	}
};

// taken is how many of degree neighbours a fanout takes; −1 takes all.
__device__ inline int taken(int degree, int fanout) { return fanout < 0 || degree < fanout ? degree : fanout; }

// tileBefore returns the sum of v over the threads of a block of 256 before this one.
__device__ inline int tileBefore(int v) {
	__shared__ int warps[8];
	int lane = threadIdx.x % 32, upTo = v;
#pragma unroll
	for (int d = 1; d < 32; d *= 2) {
		int u = __shfl_up_sync(allLanes, upTo, d);
		if (lane >= d) upTo += u;
	}
	if (lane == 31) warps[threadIdx.x / 32] = upTo;
	__syncthreads();
	for (int w = 0; w < int(threadIdx.x) / 32; w++) upTo += warps[w];
	return upTo - v;
}

// tileSum writes the sum of v over a block of 256 to sums[block], and 0 behind the last block's: see scan.
__device__ inline void tileSum(int v, int *sums) {
	int before = tileBefore(v);
	if (threadIdx.x == 255) sums[blockIdx.x] = before + v;
	if (blockIdx.x == 0 && threadIdx.x == 0) sums[gridDim.x] = 0;
}

// sample_seeds begins a mini-batch: its seeds are numbered as they come.
KERNEL sample_seeds(const unsigned *input, int n, unsigned rows, unsigned *first, int *sizes, unsigned op, Status *status) {
	for EACH(i, n) {
		if (i == 0) sizes[0] = n;
		if (input[i] >= rows) fail(status, op, unsigned(i), input[i], rows);
		else atomicMax(&first[input[i]], ~unsigned(i));
	}
}
EXPORT_KERNEL(sample_seeds)

// sample_degrees: degrees[i] = how many neighbours node i of the mini-batch has; sums[tile] = how many the fanout takes of them.
KERNEL __launch_bounds__(256) sample_degrees(const List *lists, int64_t entries, unsigned rows, const unsigned *input, const int *nodes,
		int fanout, int *degrees, int *sums, unsigned op, Status *status) {
	int n = *nodes, from = blockIdx.x * sampleTile, sum = 0;
	for (int i = from + threadIdx.x; i < min(n, from + sampleTile); i += 256) {
		unsigned row = input[i];
		int64_t degree = 0;
		if (row >= rows) fail(status, op, unsigned(i), row, rows);
		else {
			List l = lists[row];
			degree = l.end - l.begin;
			if (l.begin < 0 || degree < 0 || degree > 0x7fffffff || (degree > 0 && l.end > entries)) {
				fail(status, op, unsigned(i), unsigned(l.end), unsigned(entries) + 1);
				degree = 0;
			}
		}
		degrees[i] = int(degree);
		sum += taken(int(degree), fanout);
	}
	tileSum(sum, sums);
}
EXPORT_KERNEL(sample_degrees)

// sample_indptr: where each node's edges begin, of tiles that begin at starts; edges becomes how many there are.
KERNEL __launch_bounds__(256) sample_indptr(const int *degrees, const int *nodes, int fanout, const int *starts, int *indptr, int *edges) {
	int n = *nodes, from = blockIdx.x * sampleTile + threadIdx.x * (sampleTile / 256), to = min(n, from + sampleTile / 256), sum = 0;
	for (int i = from; i < to; i++) sum += taken(degrees[i], fanout);
	int at = starts[blockIdx.x] + tileBefore(sum);
	for (int i = from; i < to; i++) {
		indptr[i] = at;
		at += taken(degrees[i], fanout);
	}
	if (blockIdx.x == 0 && threadIdx.x == 0) indptr[n] = *edges = starts[gridDim.x];
}
EXPORT_KERNEL(sample_indptr)

// sample_picks: of each node with more neighbours than fanout > 0, which of them are taken: Floyd's algorithm (Bentley and Floyd, CACM 30(9),
// 1987), as mini.pick draws.
KERNEL sample_picks(const int *degrees, const int *nodes, int fanout, const int *indptr, uint64_t key, int *picks) {
	int n = *nodes;
	for EACH(i, n) {
		int degree = degrees[i];
		if (degree <= fanout) continue;
		Draws draws(key, uint64_t(i));
		int *out = picks + indptr[i];
		uint64_t seen = 0; // picks modulo 64: where the bit is clear there is no such pick
		for (int k = 0; k < fanout; k++) {
			int j = degree - fanout + k, t = draws.below(j + 1);
			if (seen >> (t & 63) & 1)
				for (int p = 0; p < k; p++)
					if (out[p] == t) {
						t = j;
						break;
					}
			seen |= uint64_t(1) << (t & 63);
			out[k] = t;
		}
	}
}
EXPORT_KERNEL(sample_picks)

// sample_neighbours: picks become the neighbours' rows, which note where they were met.
KERNEL sample_neighbours(const List *lists, const unsigned *neighbours, unsigned rows, const unsigned *shifts, unsigned groups, int shift, const unsigned *input,
		const int *degrees, const int *nodes, int fanout, const int *indptr, int *indices, unsigned *first, int lanes, unsigned op, Status *status) {
	int n = *nodes;
	Group g(lanes);
	for (int64_t i = g.row; i < n; i += g.step) {
		bool all = taken(degrees[i], fanout) == degrees[i];
		int begin = indptr[i], end = indptr[i + 1];
		for (int e = begin + g.lane; e < end; e += lanes) {
			unsigned row = neighbours[lists[input[i]].begin + (all ? e - begin : indices[e])];
			bool known = !shifts || row >> shift < groups;
			if (shifts && known) row += shifts[row >> shift];
			if (!known || row >= rows) {
				fail(status, op, unsigned(e), row, rows);
				row = input[i];
			}
			indices[e] = int(row);
			atomicMax(&first[row], ~(unsigned(n) + unsigned(e)));
		}
	}
}
EXPORT_KERNEL(sample_neighbours)

// sample_fresh: sums[tile] = how many of its edges lead to a row that is met there first.
KERNEL __launch_bounds__(256) sample_fresh(const int *indices, const int *nodes, const int *edges, const unsigned *first, int *sums) {
	int n = *nodes, from = blockIdx.x * sampleTile, sum = 0;
	for (int e = from + threadIdx.x; e < min(*edges, from + sampleTile); e += 256) sum += first[indices[e]] == ~(unsigned(n) + unsigned(e));
	tileSum(sum, sums);
}
EXPORT_KERNEL(sample_fresh)

// sample_append appends rows that were met first to input, in the order of their edges; reached becomes how many there are then.
KERNEL __launch_bounds__(256) sample_append(const int *indices, const int *nodes, const int *edges, const unsigned *first, const int *starts, unsigned *input, int *reached) {
	int n = *nodes, from = blockIdx.x * sampleTile + threadIdx.x * (sampleTile / 256), to = min(*edges, from + sampleTile / 256), fresh = 0;
	for (int e = from; e < to; e++) fresh |= int(first[indices[e]] == ~(unsigned(n) + unsigned(e))) << (e - from);
	int at = n + starts[blockIdx.x] + tileBefore(__popc(unsigned(fresh)));
	for (int e = from; e < to; e++)
		if (fresh >> (e - from) & 1) input[at++] = unsigned(indices[e]);
	if (blockIdx.x == 0 && threadIdx.x == 0) *reached = n + starts[gridDim.x];
}
EXPORT_KERNEL(sample_append)

// sample_number numbers the rows that were appended.
KERNEL sample_number(const unsigned *input, const int *nodes, const int *reached, unsigned *first) {
	int n = *nodes, to = *reached;
	for EACH(i, to - n) first[input[n + i]] = ~unsigned(n + i);
}
EXPORT_KERNEL(sample_number)

// sample_local: the edges' rows become numbers.
KERNEL sample_local(int *indices, const int *edges, const unsigned *first) {
	int count = *edges;
	for EACH(e, count) indices[e] = int(~first[indices[e]]);
}
EXPORT_KERNEL(sample_local)

// sample_clear forgets the mini-batch's rows.
KERNEL sample_clear(const unsigned *input, const int *nodes, unsigned rows, unsigned *first) {
	int n = *nodes;
	for EACH(i, n)
		if (input[i] < rows) first[input[i]] = 0;
}
EXPORT_KERNEL(sample_clear)

// pad_block copies a block of n destinations and e edges to one of more nodes and edges, as package replay pads: added destinations share the
// added edges, which come by turns from the added ones of so many sources.
KERNEL pad_block(const int *indptr, const int *indices, int n, int e, int moreNodes, int moreEdges, int sources, int moreSources, int *outIndptr, int *outIndices) {
	for EACH(i, int64_t(n) + 1 + moreNodes + e + moreEdges) {
		if (i <= n) outIndptr[i] = indptr[i];
		else if (i <= n + moreNodes) outIndptr[i] = e + int(int64_t(moreEdges) * (i - n) / moreNodes);
		else {
			int j = int(i - (n + 1 + moreNodes));
			outIndices[j] = j < e ? indices[j] : sources + (j - e) % moreSources;
		}
	}
}
EXPORT_KERNEL(pad_block)

// pad_numbers copies n numbers and adds others: added, or if they are to repeat it the first.
KERNEL pad_numbers(const int *x, int n, int added, int repeat, int *out, int total) {
	for EACH(i, total) out[i] = i < n ? x[i] : repeat ? x[0] : added;
}
EXPORT_KERNEL(pad_numbers)
