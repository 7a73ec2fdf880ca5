"""Graph objects of OGB and PyG: their shapes are what is used of them, so that neither is needed here."""

from types import SimpleNamespace

import numpy as np
import pytest

import gstore


class Hetero(dict):
    """As much of PyG's HeteroData as from_pyg reads."""

    node_types = property(lambda self: [k for k in self if isinstance(k, str)])
    edge_types = property(lambda self: [k for k in self if not isinstance(k, str)])


class Dataset:
    """As much of an OGB dataset as from_pyg reads."""

    def __init__(self, item, splits):
        self.item, self.splits = item, splits

    def get_idx_split(self):
        return self.splits

    def __getitem__(self, k):
        assert k == 0
        return self.item


def test_ogb(tmp_path):
    """A dictionary of arrays with labels [n, 1], some of which are none, and a split."""
    r = np.random.default_rng(1)
    edges, x = r.integers(0, 50, (2, 200)), r.random((50, 3), np.float32)
    y = r.integers(0, 4, (50, 1)).astype(np.float32)
    y[7] = np.nan
    splits = {"train": np.arange(30), "valid": np.arange(30, 40), "test": np.arange(40, 50)}
    s = gstore.from_pyg(Dataset(({"edge_index": edges, "node_feat": x, "num_nodes": 50}, y), splits), tmp_path / "s", undirected=True)
    ids = s.lookup(np.arange(50))
    assert s.undirected and np.array_equal(s.features("x", ids), x)
    assert np.array_equal(s.labels[ids], np.where(np.isnan(y), -1, y).reshape(-1))
    assert set(s.splits["valid"]) == set(ids[30:40])
    with pytest.raises(gstore.InvalidError, match="PyG"):
        gstore.from_pyg(Dataset(({"edge_index_dict": {}}, y), splits), tmp_path / "t")


def hetero(r, width):
    data = Hetero()
    data["paper"] = SimpleNamespace(num_nodes=20, x=r.random((20, 3), np.float32), y=r.integers(0, 3, 20), train_mask=np.arange(20) < 12, val_mask=np.arange(20) >= 12)
    data["author"] = SimpleNamespace(num_nodes=10, x=r.random((10, width), np.float32))
    data["author", "writes", "paper"] = SimpleNamespace(edge_index=np.stack([r.integers(0, 10, 40), r.integers(0, 20, 40)]))
    data["paper", "cites", "paper"] = SimpleNamespace(edge_index=r.integers(0, 20, (2, 60)))
    return data


def test_hetero(tmp_path):
    """Types follow each other, edge types are relations, features of one width are one column."""
    data = hetero(np.random.default_rng(2), 3)
    s = gstore.from_pyg(data, tmp_path / "s")
    ids = s.lookup(np.arange(30))
    assert [(t["name"], t["count"]) for t in s.schema["node_types"]] == [("paper", 20), ("author", 10)]
    assert s.relations == ["author__writes__paper", "paper__cites__paper"]
    assert np.array_equal(s.features("x", ids), np.concatenate([data["paper"].x, data["author"].x]))
    assert np.array_equal(s.labels[ids[:20]], data["paper"].y) and (s.labels[ids[20:]] == -1).all()
    assert set(s.splits["train"]) == set(ids[:12])
    near = s.neighbors(ids[:20], relations=True)
    found = set(zip(near.nodes.tolist(), near.relations.tolist(), np.repeat(ids[:20], np.diff(near.indptr)).tolist()))
    writes, cites = data["author", "writes", "paper"].edge_index, data["paper", "cites", "paper"].edge_index
    expected = {(ids[20 + a], 0, ids[p]) for a, p in writes.T} | {(ids[a], 1, ids[b]) for a, b in cites.T}
    assert found == expected

    data = hetero(np.random.default_rng(2), 5)
    s = gstore.from_pyg(Dataset(data, {"train": {"paper": np.arange(5)}, "valid": {"paper": np.arange(5, 9)}}), tmp_path / "t")
    ids = s.lookup(np.arange(30))
    assert s.features("paper.x", ids[20:]).sum() == 0 and np.array_equal(s.features("author.x", ids[20:]), data["author"].x)
    assert set(s.splits["train"]) == set(ids[:5])
    data["author"].y = np.zeros(10, int)
    with pytest.raises(gstore.InvalidError, match="author"):
        gstore.from_pyg(data, tmp_path / "u")


def test_partitioner_auto(tmp_path):
    """What is left open of a graph that training will not have in memory is laid out to be learnt out of core."""
    r = np.random.default_rng(3)
    n = 100_000
    groups = r.integers(0, 40, n)
    order = np.argsort(groups, kind="stable")
    edges = np.stack([order, np.roll(order, 1)])
    x = np.zeros((n, 600), np.float16)
    options = dict(features={"x": x}, labels=groups, splits={"train": np.arange(0, n, 2), "test": np.arange(1, n, 2)}, undirected=True)
    s = gstore.ingest(tmp_path / "s", edges, mem="112MiB", **options)
    assert s.partitions >= 512 and "x.hop1" in s.columns


def test_edge_attributes(tmp_path):
    """edge_attr, and OGB's edge_feat, are columns of edges; where types of edges differ each has its own."""
    r = np.random.default_rng(3)
    edges, rows = r.integers(0, 50, (2, 200)), r.random((200, 2), np.float32)
    plain = SimpleNamespace(edge_index=edges, num_nodes=50, edge_weight=rows[:, 0], edge_attr=rows, y=np.zeros(50, int), train_mask=np.arange(50) < 30)
    ogb = Dataset(({"edge_index": edges, "edge_feat": rows, "num_nodes": 50}, np.zeros((50, 1))), {"train": np.arange(30)})
    for data, path, names in ((plain, "a", ["weight", "edge_attr"]), (ogb, "b", ["feat"])):
        s = gstore.from_pyg(data, tmp_path / path)
        expected = np.concatenate([rows[:, :1], rows], 1) if "weight" in names else rows
        known = {(a, b, *v) for (a, b), v in zip(edges.T.tolist(), expected.tolist())}
        for b in gstore.NeighborLoader(s, [4], 10, edge_features=names):
            src, dst = s.external(b.n_id)[b.edge_index].tolist()
            assert known >= {(a, d, *v) for a, d, v in zip(src, dst, b.edge_attr.tolist())}
    data = hetero(r, 5)
    writes, cites = data["author", "writes", "paper"], data["paper", "cites", "paper"]
    writes.edge_attr = r.random(40).astype(np.float32)
    assert "author__writes__paper.edge_attr" in gstore.from_pyg(data, tmp_path / "c").columns
    cites.edge_attr = r.random(60).astype(np.float32)
    cites.edge_weight = 2 + r.random(60).astype(np.float32)
    s = gstore.from_pyg(data, tmp_path / "d")
    rows = {tuple(row) for b in gstore.NeighborLoader(s, [-1], 10, edge_features=["edge_attr", "weight"]) for row in b.edge_attr.tolist()}
    assert rows and rows <= {(a, 1) for a in writes.edge_attr.tolist()} | set(zip(cites.edge_attr.tolist(), cites.edge_weight.tolist()))
    assert {w for _, w in rows} & set(cites.edge_weight.tolist()) and 1 in {w for _, w in rows}


def test_node_types_count_nodes(tmp_path):
    """num_nodes is the sum of node_types; PyG's edge types name the relations that from_pyg joins by "__"."""
    r = np.random.default_rng(2)
    edges = np.stack([r.integers(0, 40, 300), r.integers(40, 60, 300)])
    common = dict(node_types={"user": 40, "item": 20}, features={"x": r.random((60, 2), np.float32)}, splits={"train": np.arange(60)})
    s = gstore.ingest(tmp_path / "s", edges, relations=np.arange(300) % 2, relation_names=["user__likes__item", "user__buys__item"], **common)
    assert s.nodes == 60 and [t["count"] for t in s.schema["node_types"]] == [40, 20]
    fanouts = {("user", "likes", "item"): [2], ("user", "buys", "item"): [1]}
    batch = next(iter(gstore.NeighborLoader(s, fanouts, 60)))
    kinds = np.unique(batch.edge_type)
    assert {0, 1} <= set(kinds.tolist())
    with pytest.raises(gstore.InvalidError, match="count 60 nodes"):
        gstore.ingest(tmp_path / "t", edges, num_nodes=70, **common)
