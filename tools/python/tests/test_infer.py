"""gstore.infer: the outputs of a model for all nodes, layer by layer, are those of the model on the whole graph."""

import numpy as np
import pytest

import gstore

torch = pytest.importorskip("torch", reason="torch is not installed: pip install -r requirements-torch.txt")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed: pip install -r requirements-torch.txt")

from torch import nn
from torch_geometric import nn as pyg


class Net(nn.Module):
    """Two layers with what people put between them: a projection, a normalisation, a residual, dropout, a head."""

    def __init__(self, a, b, width, out):
        super().__init__()
        self.inward, self.a, self.b = nn.Linear(6, width), a, b
        self.norm, self.head = nn.BatchNorm1d(width), nn.Sequential(
            nn.Linear(width + out, 5), nn.ELU(), nn.Linear(5, 4)
        )

    def forward(self, x, edge_index):
        x = self.inward(x).relu()
        h = self.norm(self.a(x, edge_index)) + x
        h = nn.functional.dropout(h, 0.5, training=self.training)
        return self.head(torch.cat([h, self.b(h, edge_index)], dim=-1)).log_softmax(-1)


MODELS = {
    "sage": lambda: Net(pyg.SAGEConv(8, 8), pyg.SAGEConv(8, 8, aggr="max"), 8, 8),
    "gatv2": lambda: Net(pyg.GATv2Conv(8, 4, heads=2), pyg.GATv2Conv(8, 4, heads=3, concat=False), 8, 4),
    "transformer": lambda: Net(pyg.TransformerConv(8, 4, heads=2, beta=True), pyg.TransformerConv(8, 6), 8, 6),
    "gcn": lambda: Net(pyg.GCNConv(8, 8), pyg.GCNConv(8, 3), 8, 3),
    "gat": lambda: Net(
        pyg.GATConv(8, 8), pyg.GINConv(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))), 8, 2
    ),
    "GraphSAGE": lambda: pyg.GraphSAGE(6, 8, 3, 4, jk="cat"),
    "GAT": lambda: pyg.GAT(6, 8, 2, 4, v2=True, heads=2),
}


def whole(store):
    """The graph by internal ids."""
    near = store.neighbors(np.arange(store.nodes), relations=True)
    index = np.stack([near.nodes, np.repeat(np.arange(store.nodes), np.diff(near.indptr))])
    kinds = None if near.relations is None else torch.from_numpy(near.relations.astype(np.int64))
    return torch.from_numpy(store.features("x")), torch.from_numpy(index), kinds


@pytest.mark.parametrize("kind", MODELS)
def test_models(graph, kind, tmp_path):
    torch.manual_seed(1)
    model = MODELS[kind]().train()
    for m in model.modules():  # as after training
        if isinstance(m, nn.BatchNorm1d):
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2)
    x, index, _ = whole(graph.store)
    with torch.no_grad():
        expected = model.eval()(x, index).numpy()
    model.train()
    found = gstore.infer(model, graph.store)
    assert found.dtype == np.float32 and np.abs(found - expected).max() < 1e-5 and model.training
    gstore.infer(model, graph.store, mem="98MiB", out=tmp_path / "out.npy")
    assert np.abs(np.load(tmp_path / "out.npy", mmap_mode="r") - expected).max() < 1e-5


def test_chunks(make, monkeypatch):
    """Small chunks, lists longer than them and nodes without neighbours change nothing."""
    from gstore import _infer

    g = make(nodes=400, edges=1500, partitions=5)
    torch.manual_seed(1)
    model = MODELS["gatv2"]()
    x, index, _ = whole(g.store)
    with torch.no_grad():
        expected = model.eval()(x, index).numpy()
    old = _infer._StoreGraph.__init__

    def small(self, *args):
        old(self, *args)
        self.edges_most, self.chunk = 50, 7

    monkeypatch.setattr(_infer._StoreGraph, "__init__", small)
    found = gstore.infer(model, g.store)
    assert np.abs(found - expected).max() < 1e-5


def test_relations_and_columns_of_edges(make):
    torch.manual_seed(1)
    r = np.random.default_rng(2)
    g = make(relations=r.integers(0, 3, 20_000), relation_names=["a", "b", "c"])

    class Typed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = pyg.RGCNConv(6, 8, 3), pyg.RGCNConv(8, 2, 3)

        def forward(self, x, edge_index, edge_type):
            return self.b(self.a(x, edge_index, edge_type).relu(), edge_index, edge_type)

    model = Typed().eval()
    with torch.no_grad():
        assert np.abs(gstore.infer(model, g.store) - model(*whole(g.store)).numpy()).max() < 1e-5

    attr = r.random((20_000, 3), np.float32)
    g = make(edge_columns={"attr": attr})

    class Edged(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = pyg.GATv2Conv(6, 8, edge_dim=4), pyg.TransformerConv(8, 2, edge_dim=4)
            self.edges = nn.Linear(3, 4)

        def forward(self, x, edge_index, edge_attr):
            edge_attr = self.edges(edge_attr).relu()
            return self.b(self.a(x, edge_index, edge_attr).relu(), edge_index, edge_attr)

    model = Edged().eval()
    with torch.no_grad():
        expected = model(torch.from_numpy(g.x), torch.from_numpy(g.edges), torch.from_numpy(attr)).numpy()
    found = gstore.infer(model, g.store, edge_features="attr", check=False)
    assert np.abs(found[g.ids] - expected).max() < 1e-5
    with pytest.raises(gstore.InvalidError, match="edge_features="):
        gstore.infer(model, g.store, check=False)


def test_list_of_layers(graph):
    torch.manual_seed(1)
    layers = [nn.Linear(6, 8), pyg.SAGEConv(8, 8), nn.ReLU(), pyg.SAGEConv(8, 3)]
    x, index, _ = whole(graph.store)
    with torch.no_grad():
        expected = layers[3](layers[2](layers[1](layers[0](x), index)), index).numpy()
    assert np.abs(gstore.infer(layers, graph.store) - expected).max() < 1e-5


def test_refused(graph):
    """What is not a node's and its neighbours' is refused, not computed wrongly."""

    class Pair(nn.Module):
        def __init__(self, middle):
            super().__init__()
            self.a, self.middle = pyg.SAGEConv(6, 4), middle

        def forward(self, x, edge_index):
            return self.middle(self.a(x, edge_index))

    for middle in (pyg.PairNorm(), pyg.GraphNorm(4)):
        with pytest.raises(gstore.InvalidError, match="differs by"):
            gstore.infer(Pair(middle), graph.store)

    class Gathers(Pair):
        def forward(self, x, edge_index):
            return x[edge_index[0]]

    with pytest.raises(gstore.InvalidError, match="rows and edges together"):
        gstore.infer(Gathers(None), graph.store)

    class Branches(Pair):
        def forward(self, x, edge_index):
            x = self.a(x, edge_index)
            return x if x.sum() > 0 else -x

    with pytest.raises(gstore.InvalidError, match="as a list"):
        gstore.infer(Branches(None), graph.store)
    with pytest.raises(gstore.NotFoundError):
        gstore.infer(Pair(nn.ReLU()), graph.store, features="y2")
    with pytest.raises(gstore.InvalidError, match="edge_type"):

        class Kinds(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = pyg.RGCNConv(6, 8, 1)

            def forward(self, x, edge_index, edge_type):
                return self.a(x, edge_index, edge_type)

        gstore.infer(Kinds(), graph.store)
