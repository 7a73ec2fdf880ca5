#!/usr/bin/env python3
"""Peak memory of gstore.ingest where the graph comes in pieces: random edges, and nodes with 128 features, as record batches.

usage: ingest_pieces.py STORE MEM [--edges 30000000] [--nodes 1000000]

needs: pip install ./tools/python and -r tools/python/requirements-test.txt
"""
import argparse, json, resource

import numpy as np
import pyarrow

import gstore

parser = argparse.ArgumentParser()
parser.add_argument("store")
parser.add_argument("mem")
parser.add_argument("--edges", type=int, default=30_000_000)
parser.add_argument("--nodes", type=int, default=1_000_000)
a = parser.parse_args()
STEP, DIM = 20_000, 128


def pieces(total, step, columns):
    for lo in range(0, total, step):
        yield pyarrow.record_batch(columns(np.random.default_rng(lo), lo, min(lo + step, total)))


def edges(r, lo, hi):
    return {"src": (r.random(hi - lo) ** 3 * a.nodes).astype(np.int64), "dst": r.integers(0, a.nodes, hi - lo)}


def nodes(r, lo, hi):
    x = pyarrow.FixedSizeListArray.from_arrays(r.random((hi - lo) * DIM, np.float32), DIM)
    return {"id": np.arange(lo, hi), "label": r.integers(0, 10, hi - lo), "split": r.choice(["train", "valid", "test", ""], hi - lo), "x": x}


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


before = peak()
store = gstore.ingest(a.store, pieces(a.edges, 50 * STEP, edges), nodes=pieces(a.nodes, STEP, nodes), mem=a.mem, partitions=64, partitioner="random")
u = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"edges": store.edges, "array_mib": (a.edges * 16 + a.nodes * (DIM * 4 + 16)) >> 20, "before_mib": before, "peak_mib": peak(), "cpu_seconds": round(u.ru_utime + u.ru_stime, 1)}))
