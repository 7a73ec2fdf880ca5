#!/usr/bin/env python3
"""GFLOP/s of OpenBLAS on the products of "gstore bench ops", one JSON line each.

usage: openblas_gemm.py [THREADS]     needs libopenblas (Debian: libopenblas0), nothing else
"""
import ctypes, ctypes.util, json, statistics, sys, time

threads = int(sys.argv[1]) if len(sys.argv) > 1 else 1
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
for m, k, n in ((100000, 128, 256), (10000, 256, 256)):
    x, w, y = ((f * (a * b))(*([0.5] * (a * b))) for a, b in ((m, k), (k, n), (m, n)))
    for op, ta, tb, rows, cols, inner, a, lda, b, ldb, c, ldc in (
        ("Y=XW", 111, 111, m, n, k, x, k, w, n, y, n),
        ("dX=dY·Wᵀ", 111, 112, m, k, n, y, n, w, n, x, k),
        ("dW=Xᵀ·dY", 112, 111, k, n, m, x, k, y, n, w, n),
    ):
        rates, cpu = [], []
        for _ in range(9):
            start, used = time.perf_counter(), time.process_time()
            gemm(101, ta, tb, i(rows), i(cols), i(inner), f(1), a, i(lda), b, i(ldb), f(0), c, i(ldc))
            work = 2e-9 * m * n * k
            rates.append(work / (time.perf_counter() - start))
            cpu.append(work / (time.process_time() - used))
        print(json.dumps({"name": f"{op} {m}×{k}×{n}", "threads": threads, "gflops": round(statistics.median(rates[1:]), 1),
                          "gflops_per_cpu_second": round(statistics.median(cpu[1:]), 1)}, ensure_ascii=False))
