#!/usr/bin/env python3
"""Training steps of PyTorch Geometric on the batches of "gstore-lab bench train", one JSON line each.

usage: pyg_train.py DUMP [--dims 128,768] [--models sage,gcn,gat] [--hidden 128,256] [--threads 1,2] [--repeats 3] [--batches 8]

DUMP is what "gstore-lab bench train --dump-batches DUMP" wrote. The same models
(SAGEConv with mean, GCNConv, GATConv with 4 heads; dropout .5, Adam) train on the same
sampled blocks, with rows gathered from a feature table of the same size and
element type (random values: time does not depend on them), each number of threads
by turns. Stages run one after the other, as in gstore: sample (PyG's
NeighborLoader on the same graph and seeds, on the calling process), gather (rows to float32), forward,
backward (with the loss), optimise. Times are medians over repeats of the mean of the batches.

needs: pip install torch==1.13.1 torch_geometric==2.3.1 "numpy<2"
NeighborLoader needs torch-sparse (pip install --no-build-isolation torch-scatter==2.1.1 torch-sparse==0.6.17,
a compiler, and FORCE_ONLY_CPU=1) or pyg-lib; without either, sample_s is null. With torch-sparse, convolutions run twice:
on edge lists, and as sparse products (SparseTensor), which PyG recommends for speed; "layout" says which.
"""
import argparse, json, os, resource, statistics, time

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

try:
    from torch_sparse import SparseTensor
except ImportError:
    SparseTensor = None

HEADS = 4


class Net(torch.nn.Module):
    """The model of gstore-lab bench train: ReLU and dropout between the layers."""

    def __init__(self, model, dim, hidden, classes, layers):
        super().__init__()
        self.model, self.convs = model, torch.nn.ModuleList()
        for i in range(layers):
            last = i == layers - 1
            into, out = (dim if i == 0 else hidden), (classes if last else hidden)
            if model == "sage":
                self.convs.append(SAGEConv(into, out))
            elif model == "gcn":
                # As in gstore, weights use degrees of the whole graph: they come with the batch.
                self.convs.append(GCNConv(into, out, normalize=False))
            else:
                self.convs.append(GATConv(into, out if last else out // HEADS, heads=HEADS, concat=not last))

    def forward(self, x, blocks):
        for i, (conv, (adj, weight, n)) in enumerate(zip(self.convs, blocks)):
            if self.model == "gcn":
                # GCNConv takes one x: the destinations are the first sources.
                x = conv(x, adj, weight)[:n]
            else:
                x = conv((x, x[:n]), adj)
            if i + 1 < len(self.convs):
                x = F.dropout(F.relu(x), p=0.5, training=True)
        return x


def load(folder, layers, degrees):
    """A batch: input rows, labels, and for each layer (destinations, sources, edges by destination)."""
    read = lambda name: np.load(os.path.join(folder, name + ".npy"))
    blocks, rows = [], read("input").astype(np.int64)
    deg = degrees[rows]
    sources = len(rows)
    for l in range(layers):
        indptr, indices = read(f"indptr_{l}").astype(np.int64), read(f"indices_{l}").astype(np.int64)
        n = len(indptr) - 1
        blocks.append((n, sources, indptr, indices, deg[:sources]))
        sources = n
    return torch.from_numpy(rows), torch.from_numpy(read("labels").astype(np.int64)), blocks


def prepare(model, blocks, sparse):
    """What the convolution takes for each block; part of the batch, so not timed."""
    out = []
    for n, sources, indptr, indices, deg in blocks:
        dst = np.repeat(np.arange(n), np.diff(indptr))
        src, weight, rows = indices, None, n
        if model != "sage":  # self loops, added here: the graph is bipartite
            src, dst = np.concatenate([src, np.arange(n)]), np.concatenate([dst, np.arange(n)])
        if model == "gcn":
            weight = torch.from_numpy((1 / np.sqrt((deg[src] + 1.0) * (deg[dst] + 1.0))).astype(np.float32))
            rows = sources  # GCNConv's matrix is square
        if model == "gat":
            out.append((torch.from_numpy(np.stack([indices, np.repeat(np.arange(n), np.diff(indptr))])), None, n))  # it adds the loops itself
            continue
        src, dst = torch.from_numpy(src), torch.from_numpy(dst)
        if sparse:
            adj = SparseTensor(row=dst, col=src, value=weight, sparse_sizes=(rows, sources))
            out.append((adj, None, n))
        else:
            out.append((torch.stack([src, dst]), weight, n))
    return out


def sampler(dump, meta):
    """A function that samples n batches as NeighborLoader does, or None."""
    try:
        import torch_geometric.typing as built
        if not (built.WITH_PYG_LIB or built.WITH_TORCH_SPARSE):
            raise ImportError("neither pyg-lib nor torch-sparse is here")
        from torch_geometric.data import Data
        from torch_geometric.loader import NeighborLoader
        indptr = np.load(os.path.join(dump, "indptr.npy"))
        indices = np.load(os.path.join(dump, "indices.npy")).astype(np.int64)
        train = torch.from_numpy(np.load(os.path.join(dump, "train.npy")).astype(np.int64))
        n = len(indptr) - 1
        edges = torch.stack([torch.from_numpy(indices), torch.from_numpy(np.repeat(np.arange(n), np.diff(indptr)))])
        loader = NeighborLoader(Data(edge_index=edges, num_nodes=n), num_neighbors=meta["fanouts"], batch_size=meta["batch_size"],
                                input_nodes=train, shuffle=True, is_sorted=True)
    except ImportError as e:
        print(json.dumps({"event": "note", "text": f"no NeighborLoader: {e}"}), flush=True)
        return None

    def sample(count):
        start = time.perf_counter()
        for i, _ in enumerate(loader):
            if i + 1 == count:
                break
        return (time.perf_counter() - start) / count

    sample(1)
    return sample


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dump")
    for name, default in (("dims", ""), ("models", ""), ("hidden", ""), ("threads", "1,2")):
        p.add_argument("--" + name, default=default)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--batches", type=int, default=8)
    p.add_argument("--layouts", default="edges,sparse")
    a = p.parse_args()
    ints = lambda s: [int(v) for v in s.split(",") if v]
    dims = ints(a.dims) or sorted(int(d) for d in os.listdir(a.dump) if d.isdigit())
    threads = ints(a.threads)
    sampled = None
    for dim in dims:
        folder = os.path.join(a.dump, str(dim))
        with open(os.path.join(folder, "meta.json")) as f:
            meta = json.load(f)
        layers = len(meta["fanouts"])
        if sampled is None:
            sample, sampled = sampler(folder, meta), {}
            for t in threads:
                torch.set_num_threads(t)
                sampled[t] = statistics.median(sample(a.batches) for _ in range(a.repeats)) if sample else None
            sample = None
        degrees = np.diff(np.load(os.path.join(folder, "indptr.npy"))).astype(np.float32)
        elem = {"float32": torch.float32, "float16": torch.float16}[meta["elem"]]
        table = torch.empty(meta["nodes"], dim, dtype=elem)
        for lo in range(0, len(table), 1 << 16):
            table[lo : lo + (1 << 16)] = torch.randn(min(1 << 16, len(table) - lo), dim)
        raw = [load(os.path.join(folder, str(i)), layers, degrees) for i in range(min(a.batches, meta["batches"]) + 1)]
        for model in [m for m in a.models.split(",") if m] or meta["models"]:
            for layout in a.layouts.split(","):
                if layout == "sparse" and (SparseTensor is None or model == "gat"):
                    continue  # attention has no sparse product
                batches = [(rows, labels, prepare(model, blocks, layout == "sparse")) for rows, labels, blocks in raw]
                for hidden in ints(a.hidden) or meta["hidden"]:
                    for r in measure(model, dim, hidden, meta, table, batches, threads, a.repeats):
                        r.update(sample_s=sampled[r["threads"]], layout=layout, elem=meta["elem"])
                        if r["sample_s"] is not None:
                            r["step_s"] += r["sample_s"]
                        print(json.dumps({k: round(v, 6) if isinstance(v, float) else v for k, v in r.items()}), flush=True)
        del table


def measure(model, dim, hidden, meta, table, batches, threads, repeats):
    """Results for each number of threads, measured by turns after a warm-up."""
    torch.manual_seed(1)
    net = Net(model, dim, hidden, meta["classes"], len(meta["fanouts"]))
    adam = torch.optim.Adam(net.parameters(), lr=0.005)
    rounds = {t: [] for t in threads}
    for repeat in range(repeats + 1):
        for t in threads:
            torch.set_num_threads(t)
            stages, cpu = [0.0] * 4, time.process_time()
            for i, (rows, labels, blocks) in enumerate(batches):
                if i == 0 and repeat > 0:
                    continue
                at = [time.perf_counter()]
                x = table.index_select(0, rows).float()
                at.append(time.perf_counter())
                out = net(x, blocks)
                at.append(time.perf_counter())
                adam.zero_grad()
                F.cross_entropy(out, labels).backward()
                at.append(time.perf_counter())
                adam.step()
                at.append(time.perf_counter())
                stages = [s + b - c for s, b, c in zip(stages, at[1:], at)]
            if repeat > 0:
                n = len(batches) - 1
                rounds[t].append([s / n for s in stages] + [(time.process_time() - cpu) / n])
    for t in threads:
        gather, forward, backward, optimize, cpu = (statistics.median(r[i] for r in rounds[t]) for i in range(5))
        step = statistics.median(sum(r[:4]) for r in rounds[t])
        yield {"event": "pyg", "model": model, "dim": dim, "hidden": hidden, "threads": t, "gather_s": gather, "forward_s": forward,
               "backward_s": backward, "optimize_s": optimize, "step_s": step, "cpu_s": cpu,
               "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


main()
