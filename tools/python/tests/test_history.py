import sys

import numpy as np
import pytest

import gstore
from conftest import REPOSITORY

OPTIONS = dict(plan="hanoi", buffer=3, seed=7)


def means(graph, loader, pushed, h):
    """Checks every batch of an epoch: sampled with all neighbours in memory, the completed mean is that of all that have a state."""
    n = graph.store.nodes
    around = graph.store.neighbors(np.arange(n))
    away = 0
    for b in loader:
        past = pulled(h, b)
        layer = b.layers[-1]
        for i, v in enumerate(b.n_id[: b.batch_size]):
            near = b.n_id[layer.edge_index[0][layer.indptr[i] : layer.indptr[i + 1]]]
            every = around.nodes[around.indptr[v] : around.indptr[v + 1]]
            gone = np.array([u for u in np.setdiff1d(every, near) if u in pushed], int)
            away += len(gone)
            assert past.absent[i] == (len(gone) > 0)
            counted = np.concatenate([every[np.isin(every, near)], every[np.isin(every, gone)]])
            mean = np.mean([pushed.get(u, np.zeros(3)) for u in every if u in near], 0) if len(near) else np.zeros(3)
            if len(counted):
                expected = np.mean([pushed.get(u, np.zeros(3)) for u in counted], 0)
                assert np.allclose(mean / past.divisor[i] + past.rest[i], expected, atol=1e-5)
    return away


def pulled(h, b):
    past = h.pull(b)
    assert past.rest.shape == (b.batch_size, 3) and past.divisor.shape == (b.batch_size,) and (past.divisor >= 1).all()
    return past


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_means(graph, share):
    loader = gstore.NeighborLoader(graph.store, [-1], 200, layers=True, absent="ignore", **OPTIONS)
    h = gstore.History(loader, 3)
    r = np.random.default_rng(2)
    nodes = np.flatnonzero(r.random(graph.store.nodes) < share)
    states = r.random((len(nodes), 3), np.float32)
    assert all(not pulled(h, b).rest.any() for b in loader)  # nothing was pushed
    h.push(nodes, states)
    assert means(graph, loader, dict(zip(nodes.tolist(), states)), h) > 100
    rows, known = h.states(np.arange(graph.store.nodes))
    assert np.array_equal(np.flatnonzero(known), nodes) and np.array_equal(rows[nodes], states) and not rows[~known].any()


def test_resumes(graph, tmp_path):
    """States that batches push, saved in the middle of an epoch beside the loader's, go on to the same means."""
    make = lambda: gstore.NeighborLoader(graph.store, [4, 3], 64, **OPTIONS)

    def run(loader, h, upto, stop=None):
        found = []
        while loader.epoch < upto:
            for b in loader:
                past = h.pull(b)
                found.append(np.concatenate([past.rest.ravel(), past.divisor]))
                h.push(b, b.x[: b.batch_size + 5, :3] + len(found) % 3)
                if len(found) == stop:
                    return found, loader.state_dict(), h.state_dict(str(tmp_path / "states.npy"))
        return found

    loader = make()
    with gstore.NeighborLoader(graph.store, [4, 3], 64, **OPTIONS) as first:
        expected = run(first, gstore.History(first, 3, dtype="float16"), 3)
    found, at, state = run(loader, gstore.History(loader, 3, dtype="float16"), 3, stop=len(expected) // 2)
    assert isinstance(state["states"], np.memmap) and any(x.any() for x in found)
    loader = make()
    h = gstore.History(loader, 3, dtype="float16")
    loader.load_state_dict(at)
    h.load_state_dict(state)
    rest = iter(expected[len(found) :])
    count = len(found)
    while loader.epoch < 3:
        for b in loader:
            past = h.pull(b)
            count += 1
            assert np.array_equal(np.concatenate([past.rest.ravel(), past.divisor]), next(rest))
            h.push(b, b.x[: b.batch_size + 5, :3] + count % 3)
    assert count == len(expected)
    with pytest.raises(gstore.InvalidError):
        gstore.History(loader, 4).load_state_dict(state)


def test_refused(graph):
    loader = gstore.NeighborLoader(graph.store, [4], 64, **OPTIONS)
    h = gstore.History(loader, 3)
    batches = iter(loader)
    kept = next(batches).copy()
    for wrong in (lambda: h.push([1, 2], np.zeros((2, 4))), lambda: h.push([1, 2], np.zeros((1, 3))), lambda: gstore.History(loader, 3, dtype="int8")):
        with pytest.raises(gstore.InvalidError):
            wrong()
    with pytest.raises(gstore.NotFoundError):
        h.push([-1], np.zeros((1, 3)))
    with pytest.raises(gstore.InvalidError, match="step in hand"):
        while True:
            next(batches)
            h.pull(kept)
    with pytest.raises(gstore.InvalidError):
        gstore.History(gstore.NeighborLoader(graph.store, [4], 64, "valid", **OPTIONS), 3)
    with pytest.raises(gstore.BudgetError):
        gstore.History(loader, 3, mem=1000)
    loader.close()
    with pytest.raises(gstore.ClosedError):
        h.pull(kept)
    h.close()
    with pytest.raises(gstore.ClosedError):
        h.push([1], np.zeros((1, 3)))


def test_example(tmp_path, monkeypatch):
    """The example's model learns out of core on Cora, and not the same with a history as without."""
    for needed in ("torch", "torch_geometric"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    sys.path.insert(0, str(REPOSITORY / "tools/python/examples"))
    import history
    import sage
    import torch

    store = gstore.ingest(tmp_path / "cora", **sage.cora(REPOSITORY), undirected=True, partitions=16, partitioner="fennel", precompute_hops=1)
    options = dict(epochs=4, hidden=32, fanouts=(10, 5), batch_size=200, plan="hanoi", buffer=4)
    models, test = [], history.test
    monkeypatch.setattr(history, "test", lambda model, *rest: models.append(model) or test(model, *rest))
    found = [history.train(store, with_history=with_history, **options) for with_history in (True, False)]
    learnt = [torch.cat([p.detach().flatten() for p in model.parameters()]) for model in models]
    assert min(found) > 0.75 and not torch.equal(*learnt)
