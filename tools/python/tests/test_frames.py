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
    s = gstore.ingest(tmp_path / "s", edges, nodes=nodes)
    at = s.lookup(nodes["id"])
    assert s.features("x", at).tolist() == [[1, 1], [2, 0], [3, 1], [4, 1]]
    assert [s.class_names[k] if k >= 0 else None for k in s.labels[at]] == ["cat", "dog", None, "cat"]
    assert s.splits["train"].tolist() == [at[0]] and s.splits["valid"].tolist() == [at[1]] and s.splits["test"].tolist() == [at[2]]
    assert sorted(s.external(s.neighbors([at[1]]).nodes)) == ["a", "c"]
    assert s.columns["weight"].role == "weight"
    with pytest.raises(gstore.InputError, match="'e'"):
        gstore.ingest(tmp_path / "t", pandas.DataFrame({"src": ["a"], "dst": ["e"]}), nodes=nodes)


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
