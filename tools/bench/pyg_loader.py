#!/usr/bin/env python3
"""Accuracy of PyTorch and PyG on gstore's batches; a JSON object a line. Speed beside other loaders is of tools/bench/peers.

usage: pyg_loader.py STORE [--epochs 30] [--seeds 1] [--first-seed 0] [--plan auto] [--mem SIZE] [--buffer N] [--precomputed-hop] [--history]

PyG's SAGEConv, two layers of 128, dropout .5, Adam .005, fanouts 15,10, batches of 1000; the test accuracy of the epoch that
is best on validation nodes, computed exactly over the whole graph. Seconds are wall and of all the process's threads.

needs: pip install ./tools/python and -r tools/python/requirements-torch.txt
"""
import argparse, json, pathlib, resource, statistics, sys, time

import numpy as np
import torch

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
    for seed in range(a.first_seed, a.first_seed + a.seeds):
        begin, cpu = time.time(), cpu_seconds()
        results.append(sage.train(store, a.epochs, seed=seed, evaluate=exact, hop=a.precomputed_hop, history=a.history, plan=a.plan, mem=a.mem, buffer=a.buffer, threads=a.threads))
        print(json.dumps({"seed": seed, "test_accuracy": results[-1], "seconds": time.time() - begin, "cpu_seconds": cpu_seconds() - cpu}), flush=True)
    print(json.dumps({"event": "summary", "mean": statistics.mean(results), "spread": statistics.pstdev(results)}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--plan", default="auto")
    parser.add_argument("--mem")
    parser.add_argument("--buffer", type=int, default=0)
    parser.add_argument("--precomputed-hop", action="store_true")
    parser.add_argument("--history", action="store_true", help="with --precomputed-hop")
    parser.add_argument("--threads", type=int, default=1)
    train(parser.parse_args())
