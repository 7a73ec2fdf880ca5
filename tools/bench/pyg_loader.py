#!/usr/bin/env python3
"""PyTorch and PyG on gstore's batches: accuracy of a training, and batches a CPU second of loaders alone; a JSON object a line.

usage: pyg_loader.py train STORE [--epochs 30] [--seeds 1] [--plan auto] [--mem SIZE] [--buffer N]
       pyg_loader.py load STORE [--fanouts 15,10] [--threads 1] [--batches 60] [--peers graphbolt,pyg]

train: PyG's SAGEConv, two layers of 128, dropout .5, Adam .005, fanouts 15,10, batches of 1000; the test accuracy of the
epoch that is best on validation nodes, computed exactly over the whole graph. load: mini-batches with rows of the store's
first feature, nothing trained, after five batches of warming up. Seconds are wall and of all the process's threads.

needs: pip install ./tools/python and -r tools/python/requirements-torch.txt; GraphBolt comes with dgl==2.1.0,
PyG's own loader needs pyg-lib or torch-sparse.
"""
import argparse, json, pathlib, resource, statistics, sys, time

import numpy as np
import torch
import torch.nn.functional as F

import gstore

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python/examples"))


def cpu_seconds():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


def whole_graph(store):
    """Features, labels and edges of all nodes, as tensors."""
    near = store.neighbors(np.arange(store.nodes))
    dst = np.repeat(np.arange(store.nodes), np.diff(near.indptr))
    x = torch.from_numpy(store.features(store.feature_names[0])).float()
    return x, torch.from_numpy(store.labels).long(), torch.from_numpy(np.stack([near.nodes, dst]))


def train(a):
    import sage

    store = gstore.open(a.store)
    x, y, edge_index = whole_graph(store)
    splits = {k: torch.from_numpy(v) for k, v in store.splits.items()}

    @torch.no_grad()
    def exact(model, _, split):
        model.eval()
        right = model(x, edge_index)[splits[split]].argmax(1) == y[splits[split]]
        return right.float().mean().item()

    results = []
    for seed in range(a.seeds):
        begin, cpu = time.time(), cpu_seconds()
        results.append(sage.train(store, a.epochs, seed=seed, evaluate=exact, plan=a.plan, mem=a.mem, buffer=a.buffer, threads=a.threads))
        print(json.dumps({"seed": seed, "test_accuracy": results[-1], "seconds": time.time() - begin, "cpu_seconds": cpu_seconds() - cpu}), flush=True)
    print(json.dumps({"event": "summary", "mean": statistics.mean(results), "spread": statistics.pstdev(results)}))


def measure(name, batches, a):
    n = nodes = 0
    it = iter(batches)
    for _ in range(5):
        next(it)
    begin, cpu = time.time(), cpu_seconds()
    for rows in it:
        n, nodes = n + 1, nodes + rows
        if n == a.batches:
            break
    wall, cpu = time.time() - begin, cpu_seconds() - cpu
    print(json.dumps({"loader": name, "fanouts": a.fanouts, "threads": a.threads, "batches": n, "nodes_a_batch": nodes // n,
                      "batches_per_second": n / wall, "batches_per_cpu_second": n / cpu}), flush=True)  # fmt: skip


def load(a):
    store = gstore.open(a.store)
    fanouts = [int(f) for f in a.fanouts.split(",")]
    torch.set_num_threads(a.threads)

    def ours(**options):
        with gstore.NeighborLoader(store, fanouts, 1000, seed=1, threads=a.threads, **options) as loader:
            while True:
                for batch in loader:
                    yield len(batch.to_pyg().x)

    measure("gstore", ours(), a)
    measure("gstore, layers", ours(layers=True), a)
    if not a.peers:
        return
    x, y, edge_index = whole_graph(store)
    train_nodes = torch.from_numpy(store.splits["train"])
    if "graphbolt" in a.peers:
        import dgl.graphbolt as gb

        order = torch.argsort(edge_index[1], stable=True)
        indptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(edge_index[1], minlength=store.nodes).cumsum(0)])
        graph = gb.fused_csc_sampling_graph(indptr, edge_index[0][order])
        rows = gb.TorchBasedFeature(x)

        def bolt():
            items = gb.ItemSet(train_nodes, names="seed_nodes")
            while True:
                pipe = gb.ItemSampler(items, batch_size=1000, shuffle=True).sample_neighbor(graph, [torch.LongTensor([f]) for f in fanouts])
                pipe = pipe.fetch_feature(gb.BasicFeatureStore({("node", None, "x"): rows}), node_feature_keys=["x"])
                for batch in gb.DataLoader(pipe, num_workers=0):
                    yield len(batch.node_features["x"])

        measure("GraphBolt", bolt(), a)
    if "pyg" in a.peers:
        from torch_geometric.data import Data
        from torch_geometric.loader import NeighborLoader

        data = Data(x=x, edge_index=edge_index, y=y)

        def pyg():
            while True:
                for batch in NeighborLoader(data, fanouts, train_nodes, batch_size=1000, shuffle=True):
                    yield len(batch.x)

        measure("PyG", pyg(), a)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["train", "load"])
    parser.add_argument("store")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--plan", default="auto")
    parser.add_argument("--mem")
    parser.add_argument("--buffer", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--fanouts", default="15,10")
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--peers", default="")
    a = parser.parse_args()
    {"train": train, "load": load}[a.what](a)
