"""A model of one's own out of core: the first hop is precomputed, and what absent neighbours add to the second is a history.

usage: python history.py STORE [--buffer N] [--epochs 30] [--seed N] [--without]

STORE has the first feature's mean over neighbours (gstore.ingest(…, precompute_hops=1), or gstore precompute). The model is a
GraphSAGE of two layers: own row and mean of the neighbours', twice. --without leaves absent neighbours out of the second mean.
"""

import argparse

import numpy as np
import torch
import torch.nn.functional as F

import gstore
from handwritten import Means, mean_of, test


class Sage(Means):
    """The second layer is over sampled neighbours; the first reads the mean over all."""

    def below(self, x, near):
        return (self.own[0](x) + self.near[0](near)).relu()

    def forward(self, x, near, layer, past=None):
        h = F.dropout(self.below(x, near), 0.5, self.training)
        mean = mean_of(h, layer)
        if past is not None:
            divisor, rest = (torch.from_numpy(a).to(h.device) for a in (past.divisor, past.rest))
            mean = mean / divisor[:, None] + rest
        return self.own[1](h[: layer.num_dst]) + self.near[1](mean)


def inputs(batch):
    return [rows.float() for rows in batch.features.values()]


@torch.no_grad()
def push(model, store, history, chunk=1 << 16):
    """Pushes the states of all nodes as the model has them now: the first layer reads nothing else than a node's own two rows."""
    model.eval()
    name, device = store.feature_names[0], next(model.parameters()).device
    for lo in range(0, store.nodes, chunk):
        nodes = np.arange(lo, min(lo + chunk, store.nodes))
        rows = [torch.from_numpy(store.features(column, nodes)).to(device).float() for column in (name, name + ".hop1")]
        history.push(nodes, model.below(*rows))


def train(store, epochs=30, hidden=128, fanouts=(15, 10), batch_size=1000, lr=0.005, seed=0, with_history=True, **options):
    """Trains and returns the test accuracy."""
    torch.manual_seed(seed)
    model = Sage([store.columns[store.feature_names[0]].dim, hidden, store.classes])
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    loader = gstore.NeighborLoader(store, fanouts, batch_size, precomputed_hop=True, layers=True, seed=seed, **options)
    history = gstore.History(loader, hidden) if with_history else None
    for _ in range(epochs):
        if history is not None:
            push(model, store, history)
        model.train()
        for batch in loader:
            past, batch = history.pull(batch) if history is not None else None, batch.to_torch()
            out = model(*inputs(batch), batch.layers[0], past)
            if batch.label_shift is not None:  # out of core: a step's classes are not mixed as the graph's
                out = out + batch.label_shift
            loss = F.cross_entropy(out, batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    whole = gstore.NeighborLoader(store, [-1, -1], 1000, "test", precomputed_hop=True, layers=True, shuffle=False)
    return test(model, whole, lambda batch: model(*inputs(batch), batch.layers[0]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--buffer", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", action="store_true")
    a = parser.parse_args()
    options = dict(plan="hanoi", buffer=a.buffer) if a.buffer else {}
    print("test", train(gstore.open(a.store), a.epochs, seed=a.seed, with_history=not a.without, **options))
