#!/usr/bin/env python3
"""One contender of one row, in a process of its own, that measures itself when it is asked to.

usage: contenders.py ROW NAME CONFIG      (peers.py starts it; CONFIG is JSON)

Standard input is a JSON request a line, {"threads": 1, "do": "run"}, or "work", or "evaluate"; each is answered by one line on
what was standard output: cpu and wall seconds, and units (batches, edges, epochs …) of a measurement; edges and input nodes of
a mini-batch, where the contender has any; accuracies. The
first line says that it is ready, or what is missing. Everything else that is printed goes to standard error.
"""
import json, os, pathlib, shutil, sys, traceback

import numpy as np

import loops, measure, outofcore, own  # noqa: F401 (which register)
from measure import CONTENDERS, contender, set_threads


@contender("PyG", "ingest")
class PyGIngest:
    """to_csc of the edges of a .npy file: sorted by destination, in memory; nothing is written."""

    note = "in memory, nothing is written"

    def __init__(self, c):
        import torch
        from torch_geometric.data import Data
        from torch_geometric.sampler.utils import to_csc

        def make():
            edges = torch.from_numpy(np.load(pathlib.Path(c["input"]) / "edge_index.npy"))
            return to_csc(Data(edge_index=edges, num_nodes=c["nodes"]))

        self.make = make

    def run(self, threads):
        set_threads(threads)
        with measure.Watch() as w:
            self.make()
        return w.spent()


@contender("PyG, saved", "ingest")
class PyGSaved(PyGIngest):
    """The same, and its arrays in files that are synced: the work of an ingest, but for checksums and a version that opens whole or not at all."""

    note = "as .npy files, synced"

    def __init__(self, c):
        super().__init__(c)
        make, folder = self.make, pathlib.Path(c["scratch"]) / "csc-saved"

        def save():
            colptr, row, _ = make()[:3]
            folder.mkdir(exist_ok=True)
            for name, array in (("indptr", colptr), ("indices", row)):
                with open(folder / f"{name}.npy", "wb") as f:
                    np.save(f, array.numpy())
                    f.flush()
                    os.fsync(f.fileno())
            shutil.rmtree(folder)

        self.make = save


@contender("GraphBolt", "ingest-csv")
class GraphBoltIngest:
    """OnDiskDataset of a folder with metadata.yaml: reads the csv, sorts, writes what it loads later."""

    note = ""

    def __init__(self, c):
        import dgl.graphbolt as gb

        self.c, self.gb = c, gb

    def run(self, threads):
        set_threads(threads)
        shutil.rmtree(pathlib.Path(self.c["input"]) / "preprocessed", ignore_errors=True)
        with measure.Watch() as w:
            self.gb.OnDiskDataset(self.c["input"])
        shutil.rmtree(pathlib.Path(self.c["input"]) / "preprocessed", ignore_errors=True)
        return w.spent()


def versions():
    found = {}
    for module in ("torch", "torch_geometric", "pyg_lib", "torch_sparse", "dgl"):
        if module in sys.modules:
            found[module] = getattr(sys.modules[module], "__version__", "?")
    return found


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**fields):
        print(json.dumps(fields), file=out, flush=True)

    row, name, config = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    try:
        c = CONTENDERS[row, name](config)
    except (ImportError, AttributeError, OSError) as e:
        answer(missing=f"{type(e).__name__}: {e}")
        return
    answer(ready=True, note=getattr(c, "note", ""), versions=versions())
    try:
        for line in sys.stdin:
            request = json.loads(line)
            act = getattr(c, request["do"], None)
            answer(**(act(request["threads"]) if act else {}))
    except Exception as e:
        traceback.print_exc()
        answer(missing=f"{type(e).__name__}: {e}")
    finally:
        if hasattr(c, "close"):
            c.close()


if __name__ == "__main__":
    main()
