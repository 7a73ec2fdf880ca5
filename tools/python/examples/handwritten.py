"""A model of one's own, without PyG: means over each layer's sampled neighbours, by gstore's layers.

usage: python handwritten.py STORE
"""

import sys

import torch
import torch.nn.functional as F

import gstore


class Means(torch.nn.Module):
    """Linear maps of a node's own row and the mean of its neighbours', layer by layer."""

    def __init__(self, sizes):
        super().__init__()
        self.own = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.near = torch.nn.ModuleList(torch.nn.Linear(a, b, bias=False) for a, b in zip(sizes, sizes[1:]))

    def forward(self, h, layers):
        for k, layer in enumerate(layers):
            src, dst = torch.from_numpy(layer.edge_index)
            degrees = torch.from_numpy(layer.indptr).diff().clamp(min=1)
            mean = h.new_zeros(layer.num_dst, h.shape[1]).index_add_(0, dst, h[src]) / degrees[:, None]
            h = self.own[k](h[: layer.num_dst]) + self.near[k](mean)
            if k < len(layers) - 1:
                h = F.dropout(h.relu(), 0.5, self.training)
        return h


def train(store, epochs=10, fanouts=(15, 10), seed=0):
    """Trains and returns the accuracy on the test nodes."""
    torch.manual_seed(seed)
    model = Means([store.columns[store.feature_names[0]].dim, 64, store.classes])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    loader = gstore.NeighborLoader(store, fanouts, 200, layers=True, seed=seed)
    for _ in range(epochs):
        for batch in loader:
            out = model(torch.from_numpy(batch.x), batch.layers)
            loss = F.cross_entropy(out, torch.from_numpy(batch.y[: batch.batch_size]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in gstore.NeighborLoader(store, [-1, -1], 1000, "test", layers=True, shuffle=False):
            out = model(torch.from_numpy(batch.x), batch.layers).argmax(1).numpy()
            right += int((out == batch.y[: batch.batch_size]).sum())
            total += batch.batch_size
    return right / total


if __name__ == "__main__":
    print("test", train(gstore.open(sys.argv[1])))
