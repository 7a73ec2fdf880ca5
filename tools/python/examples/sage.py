"""PyG's GraphSAGE on a gstore store, in memory or out of core.

usage: python sage.py STORE [--epochs 30] [--plan auto] [--mem SIZE] [--buffer N] [--precomputed-hop] [--history] [--device auto]
                      [--seed N]

The model is an ordinary one of PyG's; only the loader is gstore's. With --precomputed-hop the first layer takes the exact
means over neighbours that `gstore precompute` made, which a batch out of core does not have; with --history the second one's
means are completed by what absent neighbours' states were. Both together are the recipe of `gstore train`. `cora` reads the
Cora of gstore's repository into arrays that gstore.ingest takes.
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
from history import push


class SAGE(torch.nn.Module):
    def __init__(self, inputs, hidden, classes, layers=2):
        super().__init__()
        sizes = [inputs] + [hidden] * (layers - 1) + [classes]
        self.convs = torch.nn.ModuleList(SAGEConv(a, b) for a, b in zip(sizes, sizes[1:]))

    def first(self, x, mean):
        """The first layer, given its means over neighbours."""
        return self.convs[0].lin_l(mean) + self.convs[0].lin_r(x)

    def below(self, x, mean):
        """States below the second layer."""
        return self.first(x, mean).relu()

    def forward(self, x, edge_index, mean=None, past=None):
        """Logits of all nodes; mean: the first layer's mean over neighbours where it is known, which edge_index then lacks.
        past: what completes the last layer's means, of which are then the logits, those of the seeds."""
        for k, conv in enumerate(self.convs):
            if mean is not None and k == 0:
                x = self.first(x, mean)
            elif past is not None and k == len(self.convs) - 1:
                divisor, rest = (torch.from_numpy(a).to(x.device) for a in (past.divisor, past.rest))
                near = conv.propagate(edge_index, x=(x, x), size=None)[: len(rest)]
                x = conv.lin_l(near / divisor[:, None] + rest) + conv.lin_r(x[: len(rest)])
            else:
                x = conv(x, edge_index)
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
    device = next(model.parameters()).device
    for batch in gstore.NeighborLoader(store, [-1] * len(model.convs), 1000, split, shuffle=False, device=device):
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


def train(store, epochs=30, hidden=128, fanouts=(15, 10), batch_size=1000, lr=0.005, seed=0, evaluate=accuracy, hop=False, history=False, **options):
    """Trains and returns the test accuracy at the epoch that was best on the validation nodes. hop: with precomputed means;
    history: and what absent neighbours add to the second layer's."""
    torch.manual_seed(seed)
    loader = gstore.NeighborLoader(store, fanouts, batch_size, seed=seed, precomputed_hop=hop, **options)
    model = SAGE(store.columns[store.feature_names[0]].dim, hidden, store.classes, len(fanouts)).to(loader.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    states = gstore.History(loader, hidden) if history else None
    best = result = -1.0
    for epoch in range(epochs):
        if states is not None:
            push(model, store, states)
        model.train()
        start, losses = time.time(), []
        for batch in loader:
            data = batch.to_pyg()
            x, mean, past = data.x, None, states.pull(batch) if states is not None else None
            if hop:  # exact means have none of the noise of sampled ones: a tenth is dropped instead, as gstore train does
                x, mean = (F.dropout(rows.float(), 0.1) for rows in batch.to_torch().features.values())
            losses.append(descend(optimizer, model(x, data.edge_index, mean, past), data))
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
    parser.add_argument("--history", action="store_true", help="with --precomputed-hop")
    parser.add_argument("--device", default="auto")
    a = parser.parse_args()
    if a.history and not a.precomputed_hop:
        parser.error("--history goes with --precomputed-hop")
    print("test", train(gstore.open(a.store), a.epochs, seed=a.seed, hop=a.precomputed_hop, history=a.history, plan=a.plan, mem=a.mem, buffer=a.buffer, device=a.device))
