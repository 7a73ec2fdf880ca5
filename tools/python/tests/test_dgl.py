import numpy as np
import pytest

import gstore

torch = pytest.importorskip("torch", reason="torch is not installed: pip install -r requirements-torch.txt")
dgl = pytest.importorskip("dgl", reason="dgl is not installed (2.1.0 goes with torch 2.2.1)")


def test_dgl_blocks(graph):
    """DGL's SAGEConv over blocks with all neighbours gives the outputs of the whole graph."""
    from dgl.nn import SAGEConv

    torch.manual_seed(1)
    convs = [SAGEConv(6, 8, "mean"), SAGEConv(8, 4, "mean")]
    near = graph.store.neighbors(np.arange(3000))
    g = dgl.graph((near.nodes, np.repeat(np.arange(3000), np.diff(near.indptr))), num_nodes=3000)
    x, labels = torch.from_numpy(graph.store.features("x")), torch.from_numpy(graph.store.labels).long()
    with torch.no_grad():
        expected = convs[1](g, convs[0](g, x).relu())
        for b in gstore.NeighborLoader(graph.store, [-1, -1], 200, layers=True):
            inputs, seeds, blocks = b.to_dgl()
            assert torch.equal(blocks[0].srcdata["x"], x[inputs]) and torch.equal(blocks[1].dstdata["label"], labels[seeds])
            h = convs[0](blocks[0], blocks[0].srcdata["x"]).relu()
            assert torch.allclose(convs[1](blocks[1], h), expected[seeds], atol=1e-5)
