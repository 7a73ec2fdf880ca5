"""A model of one's own, without PyG: means over each layer's sampled neighbours, by gstore's layers.

usage: python handwritten.py STORE
"""

import sys

import torch
import torch.nn.functional as F

import gstore


def mean_of(h, layer):
    """The mean of each destination's sampled neighbours' rows."""
    src, dst = layer.edge_index
    degrees = layer.indptr.diff().clamp(min=1)
    return h.new_zeros(layer.num_dst, h.shape[1]).index_add_(0, dst, h[src]) / degrees[:, None]


class Means(torch.nn.Module):
    """Linear maps of a node's own row and the mean of its neighbours', layer by layer."""

    def __init__(self, sizes):
        super().__init__()
        self.own = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.near = torch.nn.ModuleList(torch.nn.Linear(a, b, bias=False) for a, b in zip(sizes, sizes[1:]))

    def forward(self, h, layers):
        for k, layer in enumerate(layers):
            h = self.own[k](h[: layer.num_dst]) + self.near[k](mean_of(h, layer))
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
            batch = batch.to_torch()
            loss = F.cross_entropy(model(batch.x, batch.layers), batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    whole = gstore.NeighborLoader(store, [-1, -1], 1000, "test", layers=True, shuffle=False)
    return test(model, whole, lambda batch: model(batch.x, batch.layers))


@torch.no_grad()
def test(model, loader, scores):
    """The share of a loader's seeds whose class has the best of the model's scores."""
    model.eval()
    right = total = 0
    for batch in loader:
        batch = batch.to_torch()
        right += int((scores(batch).argmax(1) == batch.y[: batch.batch_size]).sum())
        total += batch.batch_size
    return right / max(total, 1)


if __name__ == "__main__":
    print("test", train(gstore.open(sys.argv[1])))
