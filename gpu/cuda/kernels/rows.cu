// Rows of host memory that a device is to keep.
#include "gs.h"

// The bytes of one row, a warp at a time. Where rows allow it a warp's accesses begin at multiples of 128 bytes of src, lanes
// before the row's first byte being idle: so each crosses the bus in one transaction (PyTorch-Direct's shifted warps).
template <class T> __device__ inline void send(char *__restrict__ dst, const char *__restrict__ src, int bytes, int lane) {
	const int shift = int(reinterpret_cast<uint64_t>(src) & 127) / int(sizeof(T)), n = bytes / int(sizeof(T));
	for (int j = lane - shift; j < n; j += 32)
		if (j >= 0) reinterpret_cast<T *>(dst)[j] = reinterpret_cast<const T *>(src)[j];
}

// send_rows: row to[k] of dst = row from[k] of src, bytes each.
KERNEL send_rows(char *dst, int64_t dstStride, unsigned dstRows, const uint32_t *to, const char *src, int64_t srcStride, unsigned srcRows,
		const uint32_t *from, int n, int bytes, unsigned op, Status *status) {
	Group g(32);
	for (int64_t k = g.row; k < n; k += g.step) {
		uint32_t t = to[k], f = from[k];
		if (t >= dstRows || f >= srcRows) {
			if (g.lane == 0) fail(status, op, unsigned(k), t >= dstRows ? t : f, t >= dstRows ? dstRows : srcRows);
			continue;
		}
		char *d = dst + int64_t(t) * dstStride;
		const char *s = src + int64_t(f) * srcStride;
		uint64_t odd = reinterpret_cast<uint64_t>(d) | reinterpret_cast<uint64_t>(s) | uint64_t(bytes);
		if (odd % 16 == 0) send<float4>(d, s, bytes, g.lane);
		else if (odd % 4 == 0) send<uint32_t>(d, s, bytes, g.lane);
		else send<uint8_t>(d, s, bytes, g.lane);
	}
}
EXPORT_KERNEL(send_rows)
