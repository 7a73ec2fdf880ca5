#!/usr/bin/env python3
"""One contender of one row, in a process of its own, that measures itself when it is asked to.

usage: contenders.py ROW NAME CONFIG      (peers.py starts it; CONFIG is JSON)

Standard input is a JSON request a line, {"threads": 1}, or {"threads": 1, "evaluate": true}; each is answered by one line on
what was standard output: cpu and wall seconds, and units (batches, edges, epochs …) of a measurement, or accuracies. The
first line says that it is ready, or what is missing. Everything else that is printed goes to standard error.
"""
import json, os, pathlib, shutil, sys, traceback

import numpy as np

import measure

CONTENDERS = {}  # by row and name: a class that takes the configuration


def contender(name, *rows):
    def register(cls):
        for row in rows:
            CONTENDERS[row, name] = cls
        return cls

    return register


class Arrays:
    """A folder's arrays, read into memory unless they are asked for as they lie on disk."""

    def __init__(self, folder, mapped=False):
        self.folder = pathlib.Path(folder)
        self.indptr, self.indices = np.load(self.folder / "csc/indptr.npy"), np.load(self.folder / "csc/indices.npy")
        self.nodes = len(self.indptr) - 1
        self.splits = {part: np.load(self.folder / f"split/{part}.npy").astype(np.int64) for part in ("train", "valid", "test")}
        self.mapped = mapped

    def features(self):
        return np.load(self.folder / "node_feat.npy", mmap_mode="c" if self.mapped else None)

    def labels(self):
        return np.load(self.folder / "node_label.npy").astype(np.int64)


# gstore


@contender("gstore", "ingest", "ingest-csv")
class Ingest:
    """`gstore ingest` of a folder, the whole command."""

    def __init__(self, c):
        self.c, self.out = c, pathlib.Path(c["scratch"]) / "ingested.gstore"

    def run(self, threads):
        shutil.rmtree(self.out, ignore_errors=True)
        r = measure.command(self.c["binary"], "ingest", self.c["input"], self.out, "--threads", threads, "--partitioner", "random", *self.c.get("options", []),
                            "--json", "--quiet")  # fmt: skip
        shutil.rmtree(self.out)
        return {"cpu": r["cpu"], "wall": r["wall"], "units": 1}


class Events:
    """A gstore command that is stopped after each event; one process a number of threads."""

    def __init__(self, c):
        self.c, self.processes = c, {}

    def next(self, threads):
        if threads not in self.processes:
            self.processes[threads] = self.start(threads)
            self.processes[threads].next()  # reads the store, and warms up
        return self.processes[threads].next()

    def close(self):
        for p in self.processes.values():
            p.kill()


@contender("gstore", "sample")
class Sample(Events):
    def start(self, threads):
        return measure.Stopped("round", self.c["binary"], "bench", "sample", self.c["store"], "--fanouts", self.c["fanouts"], "--threads", threads,
                               "--batches", 10 * self.c["batches"], "--rounds", 1000, "--json")  # fmt: skip

    def run(self, threads):
        r = self.next(threads)
        return {"cpu": r["cpu"], "wall": r["wall"], "units": r["sampled_edges"]}


@contender("gstore", "step", "debdeps", "out-of-core")
class Train(Events):
    """`gstore train`, an epoch a turn; the validation after the last of "epochs" is not counted."""

    def start(self, threads):
        layers = len(self.c["fanouts"].split(","))
        own = pathlib.Path(self.c["scratch"]) / f"train-{os.getpid()}-{threads}"  # several runs of a store at once, which none resumes
        return measure.Stopped("epoch", self.c["binary"], "train", self.c["store"], "--layers", layers, "--fanouts", self.c["fanouts"], "--threads", threads,
                               "--epochs", self.c.get("epochs", 1000), "--eval-every", self.c.get("epochs", 1000), "--checkpoint-every", 0, "--save", f"{own}.model",
                               "--checkpoint-file", f"{own}.checkpoint", "--json", *self.c.get("options", ["--plan", "memory"]))  # fmt: skip

    def next(self, threads):
        if self.c.get("epochs") and threads not in self.processes:
            self.processes[threads] = self.start(threads)  # every epoch counts for what is learned: none is to warm up
        return super().next(threads)

    def run(self, threads):
        r = self.next(threads)
        cpu, wall = r["cpu"], r["wall"]
        if r["valid_accuracy"] >= 0:
            cpu, wall = cpu * (1 - r["valid_seconds"] / wall), wall - r["valid_seconds"]
        return {"cpu": cpu, "wall": wall, "units": 1 if self.c.get("epochs") else r["batches"], "bytes_read": r["bytes_read"]}

    def evaluate(self, threads):
        last = self.processes[threads].end()
        return {"valid": last["valid_accuracy"], "test": last["test_accuracy"]}


def endless(loader):
    while True:
        yield from loader


@contender("gstore", "loader")
class Loader:
    """gstore.NeighborLoader in memory, with PyG's Data objects."""

    def __init__(self, c):
        import gstore

        self.c, self.store, self.loaders = c, gstore.open(c["store"]), {}

    def iterate(self, threads):
        import gstore

        if threads not in self.loaders:
            self.loaders = {}
            loader = gstore.NeighborLoader(self.store, [int(f) for f in self.c["fanouts"].split(",")], 1000, seed=1, threads=threads, plan="memory")
            self.loaders[threads] = endless(loader)
        return (batch.to_pyg() for batch in self.loaders[threads])

    def run(self, threads):
        set_threads(threads)
        return measure.loop((1 for _ in self.iterate(threads)), self.c["batches"], warm=8)


# PyTorch


def set_threads(threads):
    import torch

    torch.set_num_threads(threads)


class Torch:
    """A training loop: subclasses yield mini-batches and take steps on them."""

    def need(self):
        """Raises ImportError where a library is missing."""

    def __init__(self, c):
        import torch

        torch.manual_seed(1)
        self.c, self.fanouts, self.note = c, [int(f) for f in c["fanouts"].split(",")], ""
        self.need()
        self.arrays = Arrays(c["arrays"], mapped=c.get("mapped", False))
        self.open()
        if not c.get("no_model"):
            classes = int(self.arrays.labels().max()) + 1
            self.model = self.make(self.arrays.features().shape[1], 128, classes)
            self.adam = torch.optim.Adam(self.model.parameters(), lr=0.005)

    def train(self, batch):
        import torch.nn.functional as F

        self.model.train()
        out, y = self.forward(batch)
        loss = F.cross_entropy(out, y)
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return 1

    def run(self, threads):
        set_threads(threads)
        if self.c.get("epochs"):
            with measure.Watch() as w:
                for batch in self.epoch(threads):
                    self.train(batch)
            return {"cpu": w.cpu, "wall": w.wall, "units": 1}
        work = self.count if self.c.get("no_model") else self.train
        return measure.loop((work(batch) for batch in endless(Epochs(self, threads))), self.c["batches"], self.c.get("warm", 8 if self.c.get("no_model") else 3))

    def evaluate(self, threads):
        """Accuracies with all neighbours: a pass over the whole graph."""
        import torch

        self.model.eval()
        with torch.no_grad():
            right = (self.whole().argmax(1) == torch.from_numpy(self.arrays.labels())).float()
        return {part: right[torch.from_numpy(self.arrays.splits[part])].mean().item() for part in ("valid", "test")}


class Epochs:
    def __init__(self, loop, threads):
        self.loop, self.threads = loop, threads

    def __iter__(self):
        return iter(self.loop.epoch(self.threads))


def pyg_model(inputs, hidden, classes, layers):
    import torch
    from torch_geometric.nn import SAGEConv

    sizes = [inputs] + [hidden] * (layers - 1) + [classes]
    return torch.nn.ModuleList(SAGEConv(a, b) for a, b in zip(sizes, sizes[1:]))


@contender("PyG", "sample", "loader", "step", "debdeps", "out-of-core")
class PyG(Torch):
    """PyG's NeighborLoader and SAGEConv with trim_to_layer. With more than one thread, loading has processes of its own."""

    def need(self):
        import torch_geometric.typing as built

        if not (built.WITH_PYG_LIB or built.WITH_TORCH_SPARSE):
            raise ImportError("PyG's NeighborLoader needs pyg-lib or torch-sparse")
        self.note = "pyg-lib" if built.WITH_PYG_LIB else "torch-sparse"

    def open(self):
        import torch
        from torch_geometric.data import Data

        a = self.arrays
        dst = np.repeat(np.arange(a.nodes), np.diff(a.indptr))
        self.data = Data(edge_index=torch.from_numpy(np.stack([a.indices, dst])), num_nodes=a.nodes)
        if self.c.get("features", True):
            self.data.x = torch.from_numpy(a.features())
            self.data.y = torch.from_numpy(a.labels())
        self.loaders = {}

    def epoch(self, threads):
        import torch
        from torch_geometric.loader import NeighborLoader

        if threads not in self.loaders:
            workers = threads if self.c.get("no_model") else threads - 1
            self.loaders[threads] = NeighborLoader(self.data, self.fanouts, torch.from_numpy(self.arrays.splits["train"]), batch_size=1000, shuffle=True,
                                                   is_sorted=True, num_workers=workers if threads > 1 else 0, persistent_workers=threads > 1)  # fmt: skip
        return self.loaders[threads]

    def count(self, batch):
        return 1 if self.c.get("features", True) else batch.edge_index.shape[1]

    def make(self, inputs, hidden, classes):
        return pyg_model(inputs, hidden, classes, len(self.fanouts))

    def forward(self, batch):
        import torch.nn.functional as F
        from torch_geometric.utils import trim_to_layer

        x, edge_index = batch.x, batch.edge_index
        for k, conv in enumerate(self.model):
            x, edge_index, _ = trim_to_layer(k, batch.num_sampled_nodes, batch.num_sampled_edges, x, edge_index)
            x = conv(x, edge_index)
            if k + 1 < len(self.model):
                x = F.dropout(x.relu(), p=0.5, training=self.model.training)
        return x[: batch.batch_size], batch.y[: batch.batch_size]

    def whole(self):
        x = self.data.x
        for k, conv in enumerate(self.model):
            x = conv(x, self.data.edge_index)
            x = x.relu() if k + 1 < len(self.model) else x
        return x


@contender("PyG on gstore's loader", "step", "debdeps")
class PyGOnGstore(PyG):
    """The same model, the batches are gstore.NeighborLoader's."""

    def need(self):
        import gstore

    def open(self):
        import gstore

        self.store, self.loaders = gstore.open(self.c["store"]), {}
        if self.c.get("epochs"):
            import torch
            from torch_geometric.data import Data

            dst = np.repeat(np.arange(self.arrays.nodes), np.diff(self.arrays.indptr))
            self.data = Data(x=torch.from_numpy(self.arrays.features()), edge_index=torch.from_numpy(np.stack([self.arrays.indices, dst])))

    def epoch(self, threads):
        import gstore

        if threads not in self.loaders:
            self.loaders = {threads: gstore.NeighborLoader(self.store, self.fanouts, 1000, seed=1, threads=threads, plan="memory")}
        return (batch.to_pyg() for batch in self.loaders[threads])


@contender("GraphBolt", "sample", "loader", "step", "debdeps", "out-of-core")
class GraphBolt(Torch):
    """GraphBolt's sampler and features, DGL's SAGEConv; ids of 32 bits, which it samples fastest."""

    def need(self):
        import dgl.graphbolt

    def open(self):
        import torch
        import dgl.graphbolt as gb

        a = self.arrays
        self.graph = gb.fused_csc_sampling_graph(torch.from_numpy(a.indptr.astype(np.int32)), torch.from_numpy(a.indices.astype(np.int32)))
        self.features = None
        if self.c.get("features", True):
            if self.c.get("mapped") and hasattr(gb, "DiskBasedFeature"):
                rows, self.note = gb.DiskBasedFeature(str(a.folder / "node_feat.npy")), "DiskBasedFeature"
            else:
                rows = gb.TorchBasedFeature(torch.from_numpy(a.features()))
                self.note = "no DiskBasedFeature in this version: TorchBasedFeature on a numpy memmap" if self.c.get("mapped") else ""
            self.features = gb.BasicFeatureStore({("node", None, "x"): rows})
        train = torch.from_numpy(a.splits["train"].astype(np.int32))
        self.items = gb.ItemSet((train, torch.from_numpy(a.labels()[a.splits["train"]])), names=("seed_nodes", "labels"))

    def epoch(self, threads):
        import torch
        import dgl.graphbolt as gb

        pipe = gb.ItemSampler(self.items, batch_size=1000, shuffle=True).sample_neighbor(self.graph, [torch.LongTensor([f]) for f in self.fanouts])
        if self.features:
            pipe = pipe.fetch_feature(self.features, node_feature_keys=["x"])
        return gb.DataLoader(pipe, num_workers=0)

    def count(self, batch):
        if self.features:
            return 1
        return sum(len(s.sampled_csc.indices if hasattr(s, "sampled_csc") else s.node_pairs[0]) for s in batch.sampled_subgraphs)

    def make(self, inputs, hidden, classes):
        import torch
        from dgl.nn import SAGEConv

        sizes = [inputs] + [hidden] * (len(self.fanouts) - 1) + [classes]
        return torch.nn.ModuleList(SAGEConv(a, b, "mean") for a, b in zip(sizes, sizes[1:]))

    def layers(self, graphs, x):
        import torch.nn.functional as F

        for k, (conv, graph) in enumerate(zip(self.model, graphs)):
            x = conv(graph, x)
            if k + 1 < len(self.model):
                x = F.dropout(x.relu(), p=0.5, training=self.model.training)
        return x

    def forward(self, batch):
        return self.layers(batch.blocks, batch.node_features["x"]), batch.labels

    def whole(self):
        import dgl, torch

        a = self.arrays
        graph = dgl.graph(("csc", (torch.from_numpy(a.indptr), torch.from_numpy(a.indices), [])), num_nodes=a.nodes)
        return self.layers([graph] * len(self.fanouts), torch.from_numpy(a.features()))


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
        return {"cpu": w.cpu, "wall": w.wall, "units": 1}


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
        return {"cpu": w.cpu, "wall": w.wall, "units": 1}


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
            answer(**(c.evaluate if request.get("evaluate") else c.run)(request["threads"]))
    except Exception as e:
        traceback.print_exc()
        answer(missing=f"{type(e).__name__}: {e}")
    finally:
        if hasattr(c, "close"):
            c.close()


if __name__ == "__main__":
    main()
