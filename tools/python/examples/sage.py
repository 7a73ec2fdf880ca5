"""PyG's GraphSAGE on a gstore store, in memory or out of core.

usage: python sage.py STORE [--epochs 30] [--plan auto] [--mem SIZE] [--buffer N] [--precomputed-hop] [--seed N]

The model is an ordinary one of PyG's; only the loader is gstore's. With --precomputed-hop the first layer takes the exact
means over neighbours that `gstore precompute` made, which a batch out of core does not have. Without STORE, `cora` reads the Cora of gstore's
repository into arrays that gstore.ingest takes.
"""

import argparse
import gzip
import io
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv

import gstore


class SAGE(torch.nn.Module):
    def __init__(self, inputs, hidden, classes, layers=2):
        super().__init__()
        sizes = [inputs] + [hidden] * (layers - 1) + [classes]
        self.convs = torch.nn.ModuleList(SAGEConv(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x, edge_index, mean=None):
        """Logits of all nodes; mean: the first layer's mean over neighbours where it is known, which edge_index then lacks."""
        for k, conv in enumerate(self.convs):
            x = conv(x, edge_index) if mean is None or k > 0 else conv.lin_l(mean) + conv.lin_r(x)
            if k < len(self.convs) - 1:
                x = F.dropout(x.relu(), p=0.5, training=self.training)
        return x


def cora(repository):
    """Arguments of gstore.ingest for the Cora that lies in the repository."""
    folder = pathlib.Path(repository) / "testdata/cora"
    with gzip.open(folder / "node_feat.npy.gz") as f:
        x = np.load(io.BytesIO(f.read()))
    splits = {part: np.load(folder / f"split/{part}.npy") for part in ("train", "valid", "test")}
    return {"edges": np.load(folder / "edge_index.npy"), "features": {"x": x}, "labels": np.load(folder / "node_label.npy"), "splits": splits}


@torch.no_grad()
def accuracy(model, store, split):
    """Share of a split's nodes that the model classifies right, with all their neighbours: a pass over the whole graph."""
    model.eval()
    right = total = 0
    for batch in gstore.NeighborLoader(store, [-1] * len(model.convs), 1000, split, shuffle=False):
        data = batch.to_pyg()
        out = model(data.x, data.edge_index)[: data.batch_size].argmax(1)
        right += int((out == data.y[: data.batch_size]).sum())
        total += data.batch_size
    return right / max(total, 1)


def descend(optimizer, out, data):
    """A step of the optimiser by the logits of a batch's nodes; returns the loss."""
    out = out[: data.batch_size]
    if "label_shift" in data:  # out of core: a step's classes are not mixed as the graph's
        out = out + data.label_shift
    loss = F.cross_entropy(out, data.y[: data.batch_size])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def train(store, epochs=30, hidden=128, fanouts=(15, 10), batch_size=1000, lr=0.005, seed=0, evaluate=accuracy, hop=False, **options):
    """Trains and returns the test accuracy at the epoch that was best on the validation nodes; hop: with precomputed means."""
    torch.manual_seed(seed)
    model = SAGE(store.columns[store.feature_names[0]].dim, hidden, store.classes, len(fanouts))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    loader = gstore.NeighborLoader(store, fanouts, batch_size, seed=seed, precomputed_hop=hop, **options)
    best = result = -1.0
    for epoch in range(epochs):
        model.train()
        start, losses = time.time(), []
        for batch in loader:
            data = batch.to_pyg()
            x, mean = data.x, None
            if hop:  # exact means have none of the noise of sampled ones: a tenth is dropped instead, as gstore train does
                x, mean = (F.dropout(torch.from_numpy(rows).float(), 0.1) for rows in batch.features.values())
            losses.append(descend(optimizer, model(x, data.edge_index, mean), data))
        seconds = time.time() - start
        valid = evaluate(model, store, "valid")
        if valid > best:
            best, result = valid, evaluate(model, store, "test")
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}, valid {valid:.4f}, {seconds:.2f} s")
    return result


def arguments():
    """The command line: a store, epochs, seed, and how much of the store is in memory."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--plan", default="auto")
    parser.add_argument("--mem")
    parser.add_argument("--buffer", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    parser = arguments()
    parser.add_argument("--precomputed-hop", action="store_true")
    a = parser.parse_args()
    print("test", train(gstore.open(a.store), a.epochs, seed=a.seed, hop=a.precomputed_hop, plan=a.plan, mem=a.mem, buffer=a.buffer))
