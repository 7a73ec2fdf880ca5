"""What people get wrong, and what they are told."""

import numpy as np
import pytest

import gstore

EDGES = np.array([[0, 1, 3], [1, 2, 0]])
ROWS = np.ones((3, 2), np.float32)


@pytest.mark.parametrize(
    "edges, more, match",
    [
        (EDGES, dict(features={"x": ROWS}), r"edge 2 has source 3, but features\['x'\] has 3 nodes"),
        (EDGES, dict(features={"x": ROWS}, num_nodes=4), r"num_nodes=4 has 4, features\['x'\] has 3"),
        (
            EDGES,
            dict(features={"x": np.ones((4, 2), np.float32)}, labels=[1, 2]),
            r"features\['x'\] has 4, labels has 2",
        ),
        (EDGES, dict(labels=np.full((4, 2), 2)), "label 2 in column 0 of 2, expected 0 or 1"),
        (
            EDGES,
            dict(splits={"train": np.ones(3, bool)}, num_nodes=4),
            r"splits\['train'\] as a mask of 3: there are 4",
        ),
        (EDGES, dict(features={"x": np.full((4, 1), np.nan, np.float32)}), 'missing="mean"'),
        ((np.array([0, np.nan]), np.array([1, 0])), {}, "sources: none at row 1"),
        ((np.array([0, 1]), np.array([1, None], object)), {}, "destinations: none at row 1"),
        ("edges.csv", dict(labels=[1, 2]), "labels beside 'edges.csv', a path"),
        ("no-such-edges.csv", {}, "no-such-edges.csv"),
        (EDGES, dict(schema="s.yaml"), "are for files"),
        (object(), {}, "edges of type builtins.object"),
    ],
)
def test_ingest(tmp_path, edges, more, match):
    with pytest.raises(gstore.Error, match=match) as e:
        gstore.ingest(tmp_path / "s", edges, **more)
    assert "--" not in str(e.value) and not (tmp_path / "s").exists()


def test_more_nodes_than_edges_name(tmp_path):
    """Nodes without edges are nodes; a mask and what is as long are taken."""
    with gstore.ingest(
        tmp_path / "s", EDGES, features={"x": np.ones((6, 2), np.float32)}, splits={"train": np.ones(6, bool)}
    ) as s:
        assert s.nodes == 6


def test_objects(tmp_path):
    """Graphs of other libraries are taken, or what to give is said."""
    sparse = pytest.importorskip("scipy.sparse")
    with gstore.ingest(tmp_path / "scipy", sparse.coo_matrix((np.ones(3), EDGES), shape=(4, 4)).tocsr()) as s:
        ids = s.lookup(np.arange(4))
        assert s.external(s.neighbors(ids[:1]).nodes).tolist() == [3]
    with pytest.raises(gstore.InvalidError, match="toarray"):
        gstore.ingest(tmp_path / "x", EDGES, features={"x": sparse.eye(4).tocsr()})
    networkx = pytest.importorskip("networkx")
    with pytest.raises(gstore.InvalidError, match=r"networkx.*list\(g.edges\)"):
        gstore.ingest(tmp_path / "x", networkx.path_graph(4))


def test_polars(tmp_path):
    polars = pytest.importorskip("polars")
    edges = polars.DataFrame({"src": EDGES[0], "dst": EDGES[1], "weight": [1.0, 2.0, 3.0]})
    for k, frame in enumerate((edges, edges.lazy())):
        with gstore.ingest(tmp_path / str(k), frame) as s:
            assert s.nodes == 4 and s.edges == 3 and "weight" in s.columns


def test_nodes(graph):
    for call in (
        lambda: graph.store.neighbors([-1]),
        lambda: graph.store.features("x", [3, -1]),
        lambda: graph.store.external([-1]),
    ):
        with pytest.raises(gstore.NotFoundError, match="node -1: expected internal ids"):
            call()


def test_without_torch(graph, monkeypatch):
    """Who has no PyTorch is told what is missing, and what there is instead."""
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    batch = next(iter(gstore.NeighborLoader(graph.store, [2], 10)))
    with pytest.raises(ModuleNotFoundError, match="pip install torch torch_geometric"):
        batch.to_pyg()
