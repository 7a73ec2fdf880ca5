import numpy as np
import pytest

import gstore

pandas = pytest.importorskip("pandas", reason="pandas is not installed")


def test_frames(tmp_path):
    """Tables of edges and nodes, by the users' own ids, labels as text."""
    edges = pandas.DataFrame({"src": ["a", "c", "b"], "dst": ["b", "b", "d"], "weight": [1.0, 2.0, 3.0], "note": ["x", "y", "z"]})
    nodes = pandas.DataFrame(
        {"id": ["a", "b", "c", "d"], "age": [1, 2, 3, 4], "tall": [True, False, True, True], "label": ["cat", "dog", None, "cat"], "split": ["train", "val", "test", ""]}
    )
    scaled = gstore.ingest(tmp_path / "scaled", edges, nodes=nodes)
    x = np.array([[1, 1], [2, 0], [3, 1], [4, 1]])
    assert np.allclose(scaled.features("x", scaled.lookup(nodes["id"])), (x - x.mean(0)) / x.std(0), atol=1e-6)
    s = gstore.ingest(tmp_path / "s", edges, nodes=nodes, normalize="none")
    at = s.lookup(nodes["id"])
    assert s.features("x", at).tolist() == [[1, 1], [2, 0], [3, 1], [4, 1]]
    assert [s.class_names[k] if k >= 0 else None for k in s.labels[at]] == ["cat", "dog", None, "cat"]
    assert s.splits["train"].tolist() == [at[0]] and s.splits["valid"].tolist() == [at[1]] and s.splits["test"].tolist() == [at[2]]
    assert sorted(s.external(s.neighbors([at[1]]).nodes)) == ["a", "c"]
    assert s.columns["weight"].role == "weight"
    with pytest.raises(gstore.InputError, match="'e'"):
        gstore.ingest(tmp_path / "t", pandas.DataFrame({"src": ["a"], "dst": ["e"]}), nodes=nodes)


def test_names(tmp_path):
    """Columns by other names, in any order, as `gstore ingest` knows them; what cannot be ends is refused."""
    edges = pandas.DataFrame({"weight": [1.5, 2.5], "Source": [30, 10], "Target": [10, 20], "when": pandas.to_datetime(["2020-01-02", "2020-01-03"])})
    nodes = pandas.DataFrame({"account_id": [10, 20, 30], "balance": [1.0, 2.0, 3.0], "class": ["a", "b", "a"]})
    s = gstore.ingest(tmp_path / "s", edges, nodes=nodes, normalize="none")
    at = s.lookup([10, 20, 30])
    assert s.features("x", at).ravel().tolist() == [1, 2, 3] and list(s.class_names) == ["a", "b"]
    assert s.external(s.neighbors([at[0]]).nodes).tolist() == [30]
    assert s.columns["weight"].role == "weight" and "timestamp" in s.columns
    with pytest.raises(gstore.InvalidError, match="no columns src and dst"):
        gstore.ingest(tmp_path / "t", pandas.DataFrame({"weight": [1.5], "a": [1], "b": [2]}))


def test_unknown_labels(tmp_path):
    """A label that says that nobody knows it is none, unless one class would be left."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    edges = pd.DataFrame({"txId1": [1, 2], "txId2": [2, 3]})
    for classes, want, names in ((["1", "unknown", "2"], [0, -1, 1], ["1", "2"]), (["known", "unknown", "known"], [0, 1, 0], ["known", "unknown"])):
        s = gstore.ingest(tmp_path / names[1], edges, nodes=pd.DataFrame({"id": [1, 2, 3], "class": classes}))
        assert s.labels[s.lookup(np.array([1, 2, 3]))].tolist() == want and s.class_names == names


def test_integer_ids(tmp_path):
    nodes = pandas.DataFrame({"v": np.arange(3, dtype=np.float64), "label": [0.0, np.nan, 1.0]}, index=[10, 7, 2**60])
    s = gstore.ingest(tmp_path / "s", ([10, 7], [2**60, 10]), nodes=nodes)
    at = s.lookup([10, 7, 2**60, 1])
    assert at[3] == -1 and s.external(at[:3]).tolist() == [10, 7, 2**60]
    assert s.labels[at[:3]].tolist() == [0, -1, 1]
    assert s.neighbors([at[2]]).nodes.tolist() == [at[0]] and s.neighbors([at[0]]).nodes.tolist() == [at[1]]


def test_arrow(tmp_path):
    """Tables of pyarrow give what those of pandas give; a reader of record batches too."""
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    edges = {"src": ["a", "c", "b"], "dst": ["b", "b", "d"], "weight": [1.0, 2.0, 3.0]}
    nodes = {"id": ["a", "b", "c", "d"], "age": [1, 2, 3, 4], "label": ["cat", "dog", None, "cat"], "split": ["train", "val", "test", ""]}
    found = []
    table = arrow.table(edges)
    for k, (e, n) in enumerate([(pandas.DataFrame(edges), pandas.DataFrame(nodes)), (table, arrow.table(nodes)), (table.to_reader(), arrow.table(nodes))]):
        s = gstore.ingest(tmp_path / str(k), e, nodes=n)
        at = s.lookup(nodes["id"])
        found.append((s.features("x", at).tolist(), s.labels[at].tolist(), s.splits["valid"].tolist() == [at[1]], s.neighbors(at).indptr.tolist(), s.columns["weight"].role))
    assert found[0] == found[1] == found[2] and found[0][2]


def test_pieces(tmp_path):
    """Edges and nodes in pieces of any kind give what tables in memory give, and leave nothing behind."""
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import dataset, parquet

    r = np.random.default_rng(1)
    n, e = 3000, 20_000
    edges = arrow.table({"src": r.integers(0, n, e) * 7, "dst": r.integers(0, n, e) * 7, "weight": r.random(e)})
    x = r.random((n, 5), np.float32)
    rows = {"id": np.arange(n) * 7, "emb": arrow.FixedSizeListArray.from_arrays(x.ravel(), 5), "age": r.integers(0, 90, n), "label": r.integers(0, 3, n)}
    nodes = arrow.table({**rows, "split": np.array(["train", "valid", "test", ""])[r.integers(0, 4, n)]})
    parquet.write_table(edges, tmp_path / "edges.parquet", row_group_size=999)
    frame = edges.to_pandas()
    pieces = {
        "reader": (edges.to_reader(max_chunksize=777), nodes),
        "dataset": (dataset.dataset(tmp_path / "edges.parquet"), nodes.to_reader(max_chunksize=500)),
        "scanner": (dataset.dataset(tmp_path / "edges.parquet").scanner(), iter(nodes.to_batches(max_chunksize=100))),
        "frames": ((frame[k : k + 5000] for k in range(0, e, 5000)), nodes),
    }
    want = None
    for name, (some, of) in pieces.items():
        s = gstore.ingest(tmp_path / name, some, nodes=of, partitions=4, seed=1)
        at = s.lookup(nodes["id"].to_numpy())
        around = s.neighbors(at)
        found = (s.external(around.nodes).tolist(), around.indptr.tolist(), s.features("emb", at).tolist(), s.features("x", at).tolist(), s.labels[at].tolist(), s.splits["test"].tolist())
        want = want or found
        assert found == want and s.edges == e and s.columns["weight"].role == "weight"
        assert found[2] == x.tolist() and found[4] == nodes["label"].to_pylist()
    assert not list(tmp_path.glob("*.stream-*"))


def test_numpy_pieces(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    r = np.random.default_rng(1)
    edges = r.integers(0, 500, (2, 9000))
    s = gstore.ingest(tmp_path / "s", (edges[:, k : k + 1000] for k in range(0, 9000, 1000)))
    t = gstore.ingest(tmp_path / "t", edges)
    for store in (s, t):
        assert store.ids == "dense" and store.edges == 9000
    pairs = lambda store: [store.external(store.neighbors([v]).nodes).tolist() for v in store.lookup(np.arange(500))]
    assert [sorted(p) for p in pairs(s)] == [sorted(p) for p in pairs(t)]

    def broken():
        yield edges[:, :10]
        raise RuntimeError("the source ended")

    untouched = iter([edges])
    with pytest.raises(gstore.ExistsError):
        gstore.ingest(tmp_path / "s", untouched)
    assert next(untouched) is edges
    mixed = iter([([1, 2], [2, 0]), (np.empty(0, int), np.empty(0, int)), (np.array([5], np.uint8), np.array([0], np.int32))])
    assert gstore.ingest(tmp_path / "in" / "mixed", mixed).edges == 3
    for wrong, error in (
        (dict(edges=broken()), RuntimeError), (dict(edges=iter([edges]), num_nodes=600), gstore.InvalidError), (dict(edges=iter([])), gstore.InputError),
        (dict(edges=iter([edges]), nodes=iter([edges])), gstore.InvalidError), (dict(edges=iter([edges[:, :5], edges[:, :5] - 1000])), gstore.InvalidError),
    ):  # fmt: skip
        with pytest.raises(error):
            gstore.ingest(tmp_path / "wrong", **wrong)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "s", "t"]
