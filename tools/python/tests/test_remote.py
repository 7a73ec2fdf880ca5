import numpy as np
import pytest

import gstore


def _store(path):
    n = 200
    src = np.arange(n)
    return gstore.ingest(path, (src, (src * 7 + 1) % n), num_nodes=n, features={"x": np.random.default_rng(1).random((n, 8), dtype=np.float32)})


def test_there_and_back(tmp_path):
    made = _store(tmp_path / "made")
    address = f"file://{tmp_path}/bucket"
    assert gstore.push(made, address, note="first") == 1
    assert gstore.push(tmp_path / "made", address) == 1
    for lazy in (False, True):
        with gstore.pull(address, tmp_path / f"there{lazy}", lazy=lazy, cache_size="1MiB" if lazy else None) as there:
            assert np.array_equal(there.features("x"), made.features("x"))
            loader = gstore.NeighborLoader(there, fanouts=[3, 2], input_nodes=np.arange(200), batch_size=50, seed=1)
            same = gstore.NeighborLoader(made, fanouts=[3, 2], input_nodes=np.arange(200), batch_size=50, seed=1)
            for a, b in zip(loader, same):
                assert np.array_equal(a.n_id, b.n_id)
    assert not list((tmp_path / "thereTrue" / "data").iterdir())


def test_refusals(tmp_path):
    address = f"file://{tmp_path}/bucket"
    _store(tmp_path / "a").close()
    _store(tmp_path / "b").close()
    gstore.push(tmp_path / "a", address)
    with pytest.raises(gstore.Error, match="force=True"):
        gstore.push(tmp_path / "b", address)
    assert gstore.push(tmp_path / "b", address, force=True) == 2
    with pytest.raises(gstore.NotFoundError, match="snapshot 7"):
        gstore.pull(address, tmp_path / "c", snapshot=7)
    with pytest.raises(gstore.InvalidError, match="s3://"):
        gstore.push(tmp_path / "a", "here")
    with pytest.raises(gstore.InvalidError, match="lazy"):
        gstore.pull(address, tmp_path / "c", cache_size="1GiB")


def test_opened_by_its_address(tmp_path, monkeypatch):
    made = _store(tmp_path / "made")
    address, home = f"file://{tmp_path}/buckets/graph", tmp_path / "home"
    gstore.push(made, address)
    with gstore.open(address, cache_dir=home, cache_size="64MiB") as there:
        assert there.path.startswith(str(home / "graph-")) and there.path.endswith("/graph.gstore")
        assert np.array_equal(there.features("x"), made.features("x"))
        for batch in gstore.NeighborLoader(there, fanouts=[3], input_nodes=np.arange(200), batch_size=100, mem="200MiB", seed=1):
            assert np.array_equal(batch.x, made.features("x", batch.n_id))
    monkeypatch.setenv("GSTORE_CACHE_DIR", str(home))
    with pytest.raises(gstore.NotFoundError):
        gstore.open(address, version=7)
    made.write_column("twice", 2 * made.features("x"))
    gstore.push(made, address)
    again = gstore.open(address)  # what was open is closed: it is brought up to date
    assert again.path == there.path and "twice" in again.columns
    assert gstore.NeighborLoader(address, fanouts=[2], input_nodes=[1, 2]) is not None
