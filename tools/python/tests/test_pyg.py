import numpy as np
import pytest

import gstore
from conftest import REPOSITORY

torch = pytest.importorskip("torch", reason="torch is not installed: pip install -r requirements-torch.txt")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed: pip install -r requirements-torch.txt")

import sys

from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

sys.path.insert(0, str(REPOSITORY / "tools/python/examples"))


def test_from_pyg(tmp_path):
    r = np.random.default_rng(1)
    data = Data(
        x=torch.from_numpy(r.random((60, 4), np.float32)), edge_index=torch.from_numpy(r.integers(0, 60, (2, 300))), y=torch.from_numpy(r.integers(0, 3, 60)),
        train_mask=torch.arange(60) < 30, val_mask=(torch.arange(60) >= 30) & (torch.arange(60) < 40), test_mask=torch.arange(60) >= 40,
    )
    s = gstore.from_pyg(data, tmp_path / "s")
    ids = s.lookup(np.arange(60))
    assert np.array_equal(s.features("x", ids), data.x.numpy()) and np.array_equal(s.labels[ids], data.y.numpy())
    assert set(s.splits["train"]) == set(ids[:30]) and set(s.splits["test"]) == set(ids[40:])
    assert s.edges == 300


def test_pyg_batch(graph):
    """A batch with all neighbours gives the outputs of the whole graph, by one edge list and by layers; nothing is copied."""
    torch.manual_seed(1)
    convs = [SAGEConv(6, 8), SAGEConv(8, 4)]
    x = torch.from_numpy(graph.store.features("x"))
    near = graph.store.neighbors(np.arange(3000))
    dst = torch.from_numpy(np.repeat(np.arange(3000), np.diff(near.indptr)))
    whole = torch.stack([torch.from_numpy(near.nodes), dst])
    with torch.no_grad():
        expected = convs[1](convs[0](x, whole).relu(), whole)
        for b in gstore.NeighborLoader(graph.store, [-1, -1], 50):
            d = b.to_pyg()
            assert d.x.data_ptr() == b.x.ctypes.data and d.edge_index.data_ptr() == b.edge_index.ctypes.data
            out = convs[1](convs[0](d.x, d.edge_index).relu(), d.edge_index)[: d.batch_size]
            assert torch.allclose(out, expected[d.n_id[: d.batch_size]], atol=1e-5)
            assert torch.equal(d.y[: d.batch_size], torch.from_numpy(graph.store.labels).long()[d.n_id[: d.batch_size]])
        for b in gstore.NeighborLoader(graph.store, [-1, -1], 50, layers=True):
            d = b.to_pyg()
            h = d.x
            for k, (edge_index, size) in enumerate(d.adjs):
                h = convs[k]((h, h[: size[1]]), edge_index)
                h = h.relu() if k == 0 else h
            assert torch.allclose(h, expected[d.n_id[: d.batch_size]], atol=1e-5)


def test_edge_attr(tmp_path):
    """A model that reads edge_attr has the outputs of the whole graph."""
    from torch_geometric.nn import GATConv

    torch.manual_seed(1)
    r = np.random.default_rng(1)
    edge_index = torch.from_numpy(np.unique(r.integers(0, 300, (2, 2000)), axis=1))
    data = Data(
        x=torch.randn(300, 4), edge_index=edge_index, edge_attr=torch.randn(edge_index.shape[1], 3), y=torch.zeros(300).long(), train_mask=torch.arange(300) < 100
    )
    conv = GATConv(4, 8, heads=2, edge_dim=3, add_self_loops=False)
    with torch.no_grad():
        expected = conv(data.x, data.edge_index, data.edge_attr)
        with gstore.from_pyg(data, tmp_path / "s") as store:
            for b in gstore.NeighborLoader(store, [-1], 30, edge_features="edge_attr"):
                d = b.to_pyg()
                nodes = store.external(b.n_id[: b.batch_size]).astype(np.int64)
                assert torch.allclose(conv(d.x, d.edge_index, d.edge_attr)[: d.batch_size], expected[nodes], atol=1e-5)


def test_trim_to_layer(graph):
    from torch_geometric.utils import trim_to_layer

    torch.manual_seed(1)
    convs = [SAGEConv(6, 8), SAGEConv(8, 4)]
    for b in gstore.NeighborLoader(graph.store, [4, 3], 50):
        d = b.to_pyg()
        with torch.no_grad():
            whole = convs[1](convs[0](d.x, d.edge_index), d.edge_index)[: d.batch_size]
            x, edge_index = d.x, d.edge_index
            for k, conv in enumerate(convs):
                x, edge_index, _ = trim_to_layer(k, d.num_sampled_nodes, d.num_sampled_edges, x, edge_index)
                x = conv(x, edge_index)
        assert torch.allclose(x[: d.batch_size], whole, atol=1e-5)


@pytest.mark.parametrize("mem", [None, "hanoi"])
def test_example(tmp_path, mem):
    """PyG's SAGE on Cora, in memory and out of core with precomputed means, learns what it should; a hand-written model too."""
    import sage

    store = gstore.ingest(tmp_path / "cora", **sage.cora(REPOSITORY), undirected=True, partitions=16, partitioner="fennel", precompute_hops=1)
    options = {} if mem is None else {"plan": "hanoi", "buffer": 8, "hop": True, "history": True}
    assert sage.train(store, epochs=3, hidden=32, fanouts=(10, 5), batch_size=200, **options) > 0.78
    if mem is None:
        import handwritten

        assert handwritten.train(store, epochs=3) > 0.75
