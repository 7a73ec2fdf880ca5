import numpy as np
import pytest

import gstore

COUNTS = {"author": 50, "paper": 120}
KINDS = [("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "rev_writes", "author")]


def typed(path, **options):
    """A graph of two types of nodes whose features are of different widths, and what it was made of."""
    r = np.random.default_rng(3)
    x = {t: r.random((n, 3 + k), np.float32) for k, (t, n) in enumerate(COUNTS.items())}
    pairs = {k: np.stack([r.integers(0, COUNTS[k[0]], 300), r.integers(0, COUNTS[k[2]], 300)]) for k in KINDS}
    first = {"author": 0, "paper": 50}
    edges = np.concatenate([pairs[k] + np.array([[first[k[0]]], [first[k[2]]]]) for k in KINDS], 1)
    y = np.concatenate([np.full(50, -1), r.integers(0, 4, 120)])
    time = r.integers(0, 10**12, 120)
    store = gstore.ingest(
        path, edges, node_types=COUNTS, relations=np.repeat(np.arange(3), 300), relation_names=[":".join(k) for k in KINDS], labels=y,
        features={(t, "x"): rows for t, rows in x.items()}, node_columns={("paper", "time"): time}, splits={"train": np.arange(50, 100)}, **options,
    )  # fmt: skip
    return store, x, pairs, y[50:], time


def test_store(tmp_path):
    """Columns of a type have its rows alone, and stay what they are; a store says what its types are."""
    s, x, _, y, time = typed(tmp_path / "s", partitions=4)
    assert s.typed and s.node_types == COUNTS and s.edge_types == KINDS and s.type_range("paper") == (50, 120)
    ids = s.lookup(np.arange(170))
    assert np.array_equal(s.types[ids], np.repeat([0, 1], [50, 120]))
    assert np.array_equal(s.features("author.x", ids[:50]), x["author"]) and not s.features("author.x", ids[50:]).any()
    assert np.array_equal(s.features("paper.time", ids[50:]), time) and s.columns["paper.time"].dtype == np.int64
    assert s.columns["author.x"].node_type == "author" and s.feature_names == ["author.x", "paper.x"]
    s.close()


@pytest.mark.parametrize("options", [dict(), dict(plan="hanoi", buffer=2), dict(plan="rows")])
def test_seeds_of_a_type(tmp_path, options):
    s, x, _, y, _ = typed(tmp_path / "s", partitions=4, partitioner="random")
    mask = np.arange(120) % 3 == 0
    for given, expected in (
        ("paper", np.arange(120)),
        (("paper", None), np.arange(120)),
        (("paper", mask), np.flatnonzero(mask)),
        (("author", [7, 3]), np.array([3, 7])),
    ):
        got = [
            (b.ids[: b.batch_size].copy(), b.y[: b.batch_size].copy(), b.edge_type is not None)
            for b in gstore.NeighborLoader(s, [2, 2], 16, input_nodes=given, **options)
        ]
        ids = np.sort(np.concatenate([g[0] for g in got]))
        assert np.array_equal(ids, expected + (50 if given[0] != "author" else 0)) and all(g[2] for g in got)
    for bad, match in (
        (("paper", [120]), "there are 120"),
        (("paper", np.ones(50, bool)), "mask of 50: there are 120"),
        (("author", [-1]), "-1"),
    ):
        with pytest.raises(gstore.Error, match=match):
            gstore.NeighborLoader(s, [2], input_nodes=bad)
    with pytest.raises(gstore.InvalidError, match="inverse"):
        gstore.NeighborLoader(s, [2], inverse=True)
    s.close()


def test_wrong_columns(tmp_path):
    edges = np.array([[0, 1], [1, 2]])
    x = np.ones((3, 2), np.float32)
    for more, match in (
        (dict(features={("a", "x"): x}, node_types={"a": 2, "b": 1}), r"of 3 rows: there are 2 nodes of type 'a'"),
        (dict(features={("c", "x"): x}, node_types={"a": 2, "b": 1}), "'c' is none of the node_types"),
        (dict(node_columns=[1]), "node_columns of list"),
    ):
        with pytest.raises(gstore.InvalidError, match=match):
            gstore.ingest(tmp_path / "s", edges, **more)
    assert not (tmp_path / "s").exists()


def test_fanouts_of_each_type(tmp_path):
    """A list of fanouts is of each type of edges, as PyG's."""
    s = typed(tmp_path / "s")[0]
    for b in gstore.NeighborLoader(s, [2], 30, input_nodes="paper"):
        degrees = [np.bincount(b.edge_index[1][b.edge_type == k], minlength=b.batch_size) for k in range(3)]
        near = s.neighbors(b.n_id[: b.batch_size], relations=True)
        kinds = [np.bincount(near.relations[a:e], minlength=3) for a, e in zip(near.indptr, near.indptr[1:])]
        assert np.array_equal(np.stack(degrees, 1), np.minimum(2, kinds))
    s.close()
