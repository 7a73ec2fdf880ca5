#!/usr/bin/env python3
"""GFLOP/s of OpenBLAS on the products of "gstore-lab bench ops", one JSON line each.

usage: openblas_gemm.py [THREADS] [--serve]     needs libopenblas (Debian: libopenblas0), nothing else

--serve answers lines "KIND M K N" (KIND: Y, dX or dW) with a JSON line each:
"gstore-lab bench ops --openblas tools/bench/openblas_gemm.py" asks in turn with its own loops.
"""
import ctypes, ctypes.util, json, statistics, sys, time

args = [a for a in sys.argv[1:] if a != "--serve"]
threads = int(args[0]) if args else 1
for name in ("libopenblas.so.0", ctypes.util.find_library("openblas")):
    try:
        blas = ctypes.CDLL(name)
        break
    except (OSError, TypeError):
        pass
else:
    sys.exit("openblas_gemm.py: no libopenblas on this machine")
blas.openblas_set_num_threads(threads)
gemm, i, f = blas.cblas_sgemm, ctypes.c_int, ctypes.c_float


def operands(m, k, n):
    return [(f * (a * b))(*([0.5] * (a * b))) for a, b in ((m, k), (k, n), (m, n))]


def call(kind, m, k, n, x, w, y):
    ta, tb, rows, cols, inner, a, lda, b, ldb, c, ldc = {
        "Y": (111, 111, m, n, k, x, k, w, n, y, n),
        "dX": (111, 112, m, k, n, y, n, w, n, x, k),
        "dW": (112, 111, k, n, m, x, k, y, n, w, n),
    }[kind]
    gemm(101, ta, tb, i(rows), i(cols), i(inner), f(1), a, i(lda), b, i(ldb), f(0), c, i(ldc))
    return 2e-9 * m * n * k


def rate(kind, m, k, n, data, least):
    """Rates by wall and CPU time of as many calls as take some milliseconds."""
    work, start, used, calls = 0, time.perf_counter(), time.process_time(), 0
    while calls < least or time.perf_counter() - start < 0.03:
        work += call(kind, m, k, n, *data)
        calls += 1
    return work / (time.perf_counter() - start), work / (time.process_time() - used)


def serve():
    shape, data = None, None
    for line in sys.stdin:
        kind, *size = line.split()
        size = [int(v) for v in size]
        if size != shape:
            shape, data = size, operands(*size)
            call(kind, *size, *data)  # warm up
        wall, cpu = rate(kind, *size, data, 3)
        print(json.dumps({"gflops": wall, "gflops_per_cpu_second": cpu}), flush=True)


def table():
    for size in ((100000, 128, 256), (10000, 256, 256), (24000, 256, 128), (24000, 1536, 256), (72000, 128, 128)):
        data = operands(*size)
        for kind, text in (("Y", "Y=XW"), ("dX", "dX=dY·Wᵀ"), ("dW", "dW=Xᵀ·dY")):
            rates = [rate(kind, *size, data, 1) for _ in range(9)][1:]
            wall, cpu = (round(statistics.median(r[j] for r in rates), 1) for j in range(2))
            print(json.dumps({"name": f"{text} {size[0]}×{size[1]}×{size[2]}", "threads": threads, "gflops": wall,
                              "gflops_per_cpu_second": cpu}, ensure_ascii=False), flush=True)


serve() if "--serve" in sys.argv else table()
