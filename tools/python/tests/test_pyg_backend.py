"""PyG's remote backend: what PyG's own tests of FeatureStore and GraphStore ask of one, and PyG's loaders on it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torch_geometric", reason="PyG is not installed")

from torch_geometric.data import EdgeAttr, TensorAttr  # noqa: E402
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader, NodeLoader  # noqa: E402
from torch_geometric.sampler import BaseSampler, SamplerOutput  # noqa: E402
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE  # noqa: E402

import gstore  # noqa: E402
import gstore.pyg  # noqa: E402


@pytest.fixture
def kinds(tmp_path):
    """A graph of three relations, and its edges by internal id and relation."""
    r = np.random.default_rng(5)
    edges, kind = r.integers(0, 200, (2, 900)), r.integers(0, 3, 900)
    x = r.random((200, 4), np.float32)
    store = gstore.ingest(tmp_path / "s", edges, relations=kind, relation_names=["a", "b", "c"], features={"x": x}, num_nodes=200, partitions=4)
    ids = store.lookup(np.arange(200))
    yield store, [set(zip(ids[edges[0][kind == k]], ids[edges[1][kind == k]])) for k in range(3)]
    store.close()


def test_features(graph):
    fs = gstore.pyg.FeatureStore(graph.store)
    x = torch.from_numpy(graph.store.features("x"))
    assert {a.attr_name for a in fs.get_all_tensor_attrs()} == {"x", "y"}
    index = torch.tensor([5, 3, 3, 2000])
    assert torch.equal(fs.get_tensor(None, "x", index), x[index]) and torch.equal(fs.get_tensor(None, "x", None), x)
    assert torch.equal(fs[None, "x", slice(3, 40)], x[3:40]) and fs.get_tensor_size(None, "x") == (3000, 6)
    assert torch.equal(fs.view(group_name=None)["x"][index], x[index])
    many = fs.multi_get_tensor([TensorAttr(None, "x", index), TensorAttr(None, "y", index)])
    assert torch.equal(many[0], x[index]) and torch.equal(many[1], torch.from_numpy(graph.store.labels).long()[index])
    with pytest.raises(ValueError):
        fs.get_tensor(None, "x")
    with pytest.raises(KeyError):
        fs.get_tensor(None, "nothing", None)
    assert not fs.put_tensor(x, None, "x", None) and not fs.remove_tensor(None, "x", None)


def test_put(graph):
    """As PyG's test_feature_store: tensors with an index of their own, views, updates, removal."""
    fs = gstore.pyg.FeatureStore(graph.store)
    tensor = torch.tensor([[0, 0, 0], [1, 1, 1], [2, 2, 2]])
    attr = TensorAttr("A", "feat", index=torch.tensor([0, 1, 2]))
    assert fs.put_tensor(tensor, attr) and torch.equal(fs.get_tensor(attr), tensor)
    assert torch.equal(fs.get_tensor("A", "feat", index=torch.tensor([0, 2])), tensor[[0, 2]])
    assert fs.get_tensor_size(attr) == (3, 3)
    assert fs.update_tensor(tensor + 1, attr) and torch.equal(fs.get_tensor(attr), tensor + 1)
    attr.index = torch.tensor([7])
    with pytest.raises(KeyError):
        fs.get_tensor(attr)
    index = torch.tensor([100, 50, 70])
    fs["B", "feat", index] = tensor
    assert torch.equal(fs["B", "feat", torch.tensor([50, 100])], tensor[[1, 0]])
    assert torch.equal(fs.view("B").feat[torch.tensor([70])], tensor[[2]])
    del fs["B", "feat", None]
    with pytest.raises(KeyError):
        fs["B", "feat", None]
    assert torch.equal(torch.from_numpy(fs.get_tensor("A", "feat", None).numpy()), tensor + 1)


def test_edges(graph, kinds):
    gs = gstore.pyg.GraphStore(graph.store)
    row, colptr, perm = gs.csc()
    near = graph.store.neighbors(np.arange(3000))
    assert perm is None and np.array_equal(row, near.nodes) and np.array_equal(colptr, near.indptr)
    src, dst, _ = gs.coo()
    expected = sorted(zip(graph.ids[graph.edges[0]], graph.ids[graph.edges[1]]))
    assert sorted(zip(src.tolist(), dst.tolist())) == expected
    rowptr, col, _ = gs.csr()
    assert sorted(zip(np.repeat(np.arange(3000), np.diff(rowptr)).tolist(), col.tolist())) == expected
    with pytest.raises(KeyError):
        gs.get_edge_index(edge_type=("x", "y", "z"), layout="coo")
    attr = EdgeAttr(edge_type=("v", "e", "v"), layout="coo", size=(3, 3))
    pair = torch.tensor([0, 1]), torch.tensor([1, 2])
    assert gs.put_edge_index(pair, attr) and gs[attr] is pair and gs.remove_edge_index(attr) and not gs.remove_edge_index(attr)

    store, edges = kinds
    gs = gstore.pyg.GraphStore(store)
    src, dst, _ = gs.coo()
    for k, name in enumerate(("a", "b", "c")):
        t = ("node", name, "node")
        assert set(zip(src[t].tolist(), dst[t].tolist())) == edges[k]
    with pytest.raises(ValueError):
        gs.csc([("node", "d", "node")])


class InNeighbours(BaseSampler):
    """All incoming neighbours: a sampler for PyG's loaders that needs no pyg-lib."""

    def __init__(self, graph_store):
        self.row, self.colptr, _ = graph_store.csc()

    def sample_from_nodes(self, index):
        seeds = index.node
        spans = [self.row[self.colptr[v] : self.colptr[v + 1]] for v in seeds]
        extra = torch.unique(torch.cat(spans))
        node = torch.cat([seeds, extra[~torch.isin(extra, seeds)]])
        place = {v: k for k, v in enumerate(node.tolist())}
        row = torch.tensor([place[v] for s in spans for v in s.tolist()])
        col = torch.repeat_interleave(torch.arange(len(seeds)), torch.tensor([len(s) for s in spans]))
        return SamplerOutput(node=node, row=row, col=col, edge=None, batch=None, num_sampled_nodes=None, num_sampled_edges=None, metadata=(index.input_id, None))

    def sample_from_edges(self, index, neg_sampling=None):
        raise NotImplementedError


def test_node_loader(graph):
    """PyG's loader collects a batch's rows through the backend."""
    data = gstore.pyg.backend(graph.store)
    train = torch.from_numpy(graph.store.splits["train"])
    edges = set(zip(graph.ids[graph.edges[0]], graph.ids[graph.edges[1]]))
    seen = []
    for batch in NodeLoader(data, InNeighbours(data[1]), input_nodes=train, batch_size=100):
        n_id = batch.n_id.numpy()
        assert np.array_equal(batch.x, graph.store.features("x", n_id)) and np.array_equal(batch.y, graph.store.labels[n_id])
        assert all(e in edges for e in zip(n_id[batch.edge_index[0]], n_id[batch.edge_index[1]]))
        seen += n_id[: batch.batch_size].tolist()
    assert sorted(seen) == sorted(train.tolist())


@pytest.mark.skipif(not (WITH_PYG_LIB or WITH_TORCH_SPARSE), reason="PyG samples by pyg-lib or torch-sparse, neither of which is installed")
def test_pyg_samplers(graph, kinds):
    """PyG's NeighborLoader and LinkNeighborLoader run on a store as they are."""
    train = torch.from_numpy(graph.store.splits["train"])
    data = gstore.pyg.backend(graph.store)
    for batch in NeighborLoader(data, [4, 3], input_nodes=train, batch_size=100):
        assert np.array_equal(batch.x, graph.store.features("x", batch.n_id.numpy()))
    src, dst, _ = data[1].coo()
    for batch in LinkNeighborLoader(data, [4], edge_label_index=(None, torch.stack([src, dst])[:, :500]), batch_size=100):
        assert np.array_equal(batch.x, graph.store.features("x", batch.n_id.numpy()))
    store, _ = kinds
    data = gstore.pyg.backend(store)
    for batch in NeighborLoader(data, [4, 3], input_nodes=("node", torch.arange(150)), batch_size=50):
        assert np.array_equal(batch["node"].x, store.features("x", batch["node"].n_id.numpy()))
    for batch in LinkNeighborLoader(data, [4], edge_label_index=("node", "b", "node"), batch_size=100):
        assert np.array_equal(batch["node"].x, store.features("x", batch["node"].n_id.numpy()))
