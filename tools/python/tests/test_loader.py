import gc

import numpy as np
import pytest

import gstore

PLANS = [
    dict(), dict(plan="hanoi", buffer=4, reuse=1), dict(plan="hanoi", buffer=3, layers=True), dict(plan="rows"),
    dict(plan="rows", row_reads="packed", layers=True),
]  # fmt: skip


def contents(batch):
    return {"place": (batch.epoch, batch.step, batch.batch_size), **{k: v.copy() for k, v in batch._arrays.items()}}


def same(a, b):
    return len(a) == len(b) and all(x.keys() == y.keys() and all(np.array_equal(x[k], y[k]) for k in x) for x, y in zip(a, b))


@pytest.mark.parametrize("options", PLANS)
def test_batches(graph, options):
    """Rows are those of the nodes, edges are the graph's, fanouts hold, and an epoch has every seed as often as it should."""
    edges = set(zip(graph.ids[graph.edges[0]], graph.ids[graph.edges[1]]))
    x, y = graph.store.features("x"), graph.store.labels
    loader = gstore.NeighborLoader(graph.store, [4, 3], 64, seed=7, **options)
    for epoch in range(2):
        seeds, count = [], len(loader)
        for b in loader:
            assert b.epoch == epoch and len(loader) == count
            seeds.append(b.n_id[: b.batch_size].copy())
            assert np.array_equal(b.x, x[b.n_id]) and np.array_equal(b.y, y[b.n_id]) and len(set(b.n_id)) == len(b.n_id)
            for pairs in [b.edge_index] if b.edge_index is not None else [layer.edge_index for layer in b.layers]:
                assert all(e in edges for e in zip(b.n_id[pairs[0]], b.n_id[pairs[1]]))
            assert sum(b.num_sampled_nodes) == len(b.n_id) and b.num_sampled_nodes[0] == b.batch_size
            if b.edge_index is not None:
                assert sum(b.num_sampled_edges) == b.edge_index.shape[1]
                first = np.bincount(b.edge_index[1], minlength=len(b.n_id))
                inner = b.batch_size
                assert first[:inner].max() <= 4 and first[inner:].max() <= 3
            else:
                assert [layer.num_dst for layer in b.layers][-1] == b.batch_size and b.layers[0].num_src == len(b.n_id)
        assert len(seeds) == count
        counted = np.bincount(np.concatenate(seeds), minlength=3000)
        expected = np.zeros(3000, int)
        expected[graph.ids[graph.splits["train"]]] = 1 + options.get("reuse", 0)
        assert np.array_equal(counted, expected)
    assert loader.epoch == 2


@pytest.mark.parametrize("options", PLANS)
def test_repeats_and_resumes(graph, options):
    """One seed gives the same batches for any number of threads; a state taken anywhere goes on to the same ones."""
    make = lambda **more: gstore.NeighborLoader(graph.store, [4, 3], 64, **{"seed": 7, **options, **more})
    loader, states, epochs = make(threads=1), [], []
    for _ in range(2):
        epochs.append([])
        for b in loader:
            epochs[-1].append(contents(b))
            states.append((len(epochs) - 1, len(epochs[-1]), loader.state_dict()))
    other = make(threads=4)
    assert same([contents(b) for b in other], epochs[0])
    assert not same(epochs[0], epochs[1])
    assert not same([contents(b) for b in make(seed=8)], epochs[0])
    for epoch, done, state in states[3::7]:
        resumed = make()
        resumed.load_state_dict(state)
        assert same([contents(b) for b in resumed], epochs[epoch][done:])
        if epoch == 0:
            assert same([contents(b) for b in resumed], epochs[1])
    with pytest.raises(gstore.InvalidError):
        make(seed=9).load_state_dict(states[0][2])


@pytest.mark.parametrize("row_reads", ["cached", "packed"])
def test_rows(make, row_reads):
    """Rows that are read as batches use them, within a budget, make the batches of plan memory; ranks share them, and who
    leaves an epoch or goes back gets the same ones."""
    g = make(nodes=20_001, edges=60_000, dim=500, partitions=8)
    options = dict(fanouts=[4, 3], batch_size=200, seed=7)
    memory = gstore.NeighborLoader(g.store, plan="memory", **options)
    epochs = [[contents(b) for b in memory] for _ in range(2)]
    loader = gstore.NeighborLoader(g.store, plan="rows", row_reads=row_reads, mem="136MiB", **options)
    next(iter(loader))
    state = loader.state_dict()
    assert same([contents(b) for b in loader], epochs[1])
    loader.load_state_dict(state)
    assert same([contents(b) for b in loader], epochs[0][1:])
    ranks = [gstore.NeighborLoader(g.store, plan="rows", row_reads=row_reads, rank=k, world_size=2, **options) for k in range(2)]
    seeds = [[b.n_id[: b.batch_size].tolist() for b in rank] for rank in ranks]
    assert len(seeds[0]) == len(seeds[1]) and sorted(sum(sum(seeds, []), [])) == sorted(g.ids[g.splits["train"]])


def test_left_early(graph):
    loader = gstore.NeighborLoader(graph.store, [4], 64, seed=7)
    whole = [contents(b) for b in gstore.NeighborLoader(graph.store, [4], 64, seed=7)]
    first = iter(loader)
    assert same([contents(next(first))], whole[:1])
    second = iter(loader)
    assert next(second).epoch == 1  # what was left counts as an epoch
    with pytest.raises(gstore.InvalidError):
        next(first)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_seeds(graph, split):
    loader = gstore.NeighborLoader(graph.store, [2], 100, split, shuffle=False)
    seeds = np.concatenate([b.n_id[: b.batch_size].copy() for b in loader])
    assert sorted(seeds) == sorted(graph.ids[graph.splits[split]])


def test_views(graph):
    """Views are of the next batch's memory then; a copy stays; either can be read when all else is gone."""
    store = gstore.open(graph.store.path)
    loader = gstore.NeighborLoader(store, [4, 3], 64, seed=7)
    batches = iter(loader)
    batch = next(batches)
    kept, view, n_id = batch.copy(), batch.x, batch.n_id.copy()
    assert not view.flags.owndata and kept.x.base is None
    for _ in batches:
        pass
    store.close()
    del loader, batches, batch, store
    gc.collect()
    assert len(view.tobytes()) == view.nbytes  # whatever it holds now, it is readable
    assert np.array_equal(kept.n_id, n_id) and np.array_equal(kept.x, graph.store.features("x", n_id))
    assert [len(b.n_id) for b in gstore.NeighborLoader(graph.store, [4], 500, copy=True)]


def test_closed(graph):
    loader = gstore.NeighborLoader(graph.store, [4], 64)
    batches = iter(loader)
    next(batches)
    loader.close()
    loader.close()
    for fails in (lambda: next(batches), lambda: iter(loader)):
        with pytest.raises(gstore.ClosedError):
            fails()
    with pytest.raises(gstore.InvalidError):
        gstore.NeighborLoader(graph.store, [4], 64, plan="best")
    with pytest.raises(gstore.InvalidError):
        next(iter(gstore.NeighborLoader(graph.store, [4], 64))).layers


def test_relations(tmp_path):
    r = np.random.default_rng(1)
    edges, kind = r.integers(0, 50, (2, 400)), r.integers(0, 3, 400)
    s = gstore.ingest(tmp_path / "s", edges, relations=kind, labels=np.zeros(50, int), splits={"train": np.arange(50)}, features={"x": np.ones((50, 1), np.float32)})
    ids = s.lookup(np.arange(50))
    known = {(a, b, k) for a, b, k in zip(ids[edges[0]], ids[edges[1]], kind)}
    known |= {(b, a, k + 3) for a, b, k in known}  # read against their direction
    for b in gstore.NeighborLoader(s, [5, 5], 10, relations=True, inverse=True):
        assert all(e in known for e in zip(b.n_id[b.edge_index[0]], b.n_id[b.edge_index[1]], b.edge_type))
    first, second, third = s.relations
    for fanouts in ({first: [4], second: [1], third: [2]}, {first: [4], "*": [1], third: [2]}):
        for b in gstore.NeighborLoader(s, fanouts, 10, inverse=True):
            assert all(e in known for e in zip(b.n_id[b.edge_index[0]], b.n_id[b.edge_index[1]], b.edge_type))
            most = [np.bincount(b.edge_index[1][b.edge_type == k]).max() for k in range(6)]
            assert most == [4, 1, 2] * 2  # a seed has 8 of each relation in expectation
    with pytest.raises(gstore.InvalidError, match="expected all of the store's relations"):
        gstore.NeighborLoader(s, {first: [4]}, 10)
    with pytest.raises(gstore.InvalidError, match='no relation "likes"'):
        gstore.NeighborLoader(s, {"likes": [4], "*": [1]}, 10)


@pytest.mark.parametrize("way", [dict(), dict(layers=True), dict(plan="hanoi", buffer=4), dict(plan="hanoi", buffer=3, layers=True, sampler="dense")])
def test_edge_features(tmp_path, way):
    """Every sampled edge has its own row: what stands there says which edge it is of."""
    r = np.random.default_rng(1)
    edges = r.integers(0, 300, (2, 3000))
    columns = {"ends": edges.T.astype(np.float32), "weight": (1 + edges[0]).astype(np.float32)}
    s = gstore.ingest(
        tmp_path / "s", edges, edge_columns=columns, labels=np.zeros(300, int), splits={"train": np.arange(300)}, features={"x": np.ones((300, 1), np.float32)}, partitions=6
    )
    seen = 0
    for b in gstore.NeighborLoader(s, [5, 5], 50, edge_features=["ends", "weight"], **way):
        external = s.external(b.n_id)
        for part in b.layers if way.get("layers") else [b]:
            src, dst = external[part.edge_index]
            assert part.edge_attr.dtype == np.float32 and np.array_equal(part.edge_attr, np.stack([src, dst, 1 + src], 1))
            seen += len(src)
    assert seen > 1000
    for wrong in (dict(edge_features="x"), dict(edge_features="nothing"), dict(edge_features=["ends", "ends"]), dict(edge_features="ends", relations=True), dict(edge_features="ends", plan="rows")):
        with pytest.raises(gstore.Error):
            gstore.NeighborLoader(s, [5, 5], 50, **wrong)


def test_samplers(graph):
    """Each way to draw gives batches of its own, the same ones for any number of threads; walks lead beyond adjacent nodes."""
    edges = {(int(a), int(b)) for a, b in graph.ids[graph.edges].T}
    first = lambda **options: next(iter(gstore.NeighborLoader(graph.store, [3, 2], 64, seed=7, **options)))
    ways = [dict(), dict(sampler="dense"), dict(prune=(0, 1)), dict(sampler="labor"), dict(sampler="pinsage"), dict(sampler="pinsage", walks=(20, 3, 0))]
    batches = [first(**way) for way in ways]
    for k, (way, b) in enumerate(zip(ways, batches)):
        assert same([contents(b)], [contents(first(threads=1, **way))]), way
        assert not any(same([contents(b)], [contents(other)]) for other in batches[:k] if way != dict(sampler="dense")), way
        near = [(int(s), int(d)) in edges for s, d in zip(b.n_id[b.edge_index[0]], b.n_id[b.edge_index[1]])]
        assert all(near) == (way.get("sampler") != "pinsage"), way


@pytest.mark.parametrize("wrong", [
    dict(sampler="best"), dict(prune=(1, -1)), dict(prune=(1, 1), sampler="labor"), dict(walks=(5, 2, 0.5)), dict(walks=(5, 2, 1.0), sampler="pinsage"), dict(fanouts=[0]), dict(fanouts=[]), dict(batch_size=0), dict(batch_size=-1), dict(batch_size=object()), dict(threads=-1),
    dict(io_engine="tape"), dict(row_reads="some"), dict(reuse=99), dict(buffer=-1), dict(mem=-1), dict(mem="lots"), dict(split="other"), dict(seed=-1),
    dict(plan="comet"), dict(plan="best"),
])  # fmt: skip
def test_wrong(graph, wrong):
    with pytest.raises(gstore.InvalidError):
        gstore.NeighborLoader(graph.store, **{"fanouts": [3], "batch_size": 64, **wrong})


def test_numbers(graph):
    """Numbers of numpy's, a path instead of a store, one feature's name, and "val" are taken."""
    first = lambda *args, **options: contents(next(iter(gstore.NeighborLoader(*args, seed=7, **options))))
    expected = first(graph.store, [3, 2], 64, "valid", mem="1GiB")
    assert same([expected], [first(graph.store.path, np.array([3, 2]), np.int64(64), "val", features="x", mem=np.float64(1 << 30))])


def test_budget(make):
    """A budget bounds buffer and batches, and decides the plan."""
    g = make(nodes=40_000, edges=80_000, dim=400, partitions=32)
    loader = gstore.NeighborLoader(g.store, [3, 3], 200, mem="112MiB")
    assert loader.config["plan"] == "hanoi" and 0 < loader.config["buffer"] < 32
    for b in loader:
        if b.label_shift is not None:
            assert b.label_shift.shape == (4,)
    with pytest.raises(gstore.BudgetError, match="smallest that works"):
        gstore.NeighborLoader(g.store, [3, 3], 200, mem="65MiB")


def test_precomputed_hop(tmp_path):
    r = np.random.default_rng(1)
    edges = r.integers(0, 80, (2, 300))
    x = r.random((80, 3), np.float32)
    s = gstore.ingest(tmp_path / "s", edges, features={"x": x}, labels=np.zeros(80, int), splits={"train": np.arange(80)}, precompute_hops=1)
    mean = np.stack([x[edges[0][edges[1] == v]].mean(0) if (edges[1] == v).any() else np.zeros(3) for v in range(80)])
    ids = s.lookup(np.arange(80))
    for b in gstore.NeighborLoader(s, [5, 5], 16, precomputed_hop=True):
        assert len(b.num_sampled_edges) == 1 and list(b.features) == ["x", "x.hop1"]
        assert np.allclose(b.features["x.hop1"], mean[np.argsort(ids)][b.n_id], atol=1e-6)


@pytest.mark.parametrize("fanouts", [{"*": [5, 2]}, {"edge": [5, 2]}, {"edge": [5, 2], "*": [9, 9]}])
@pytest.mark.parametrize("options", PLANS)
def test_fanouts_of_one_kind(graph, fanouts, options):
    """On a store whose edges are of one kind, fanouts by relation are those of that kind, and batches have no edge_type."""
    assert not graph.store.of_kinds
    batches = [contents(b) for b in gstore.NeighborLoader(graph.store, fanouts, 64, seed=7, **options)]
    assert same(batches, [contents(b) for b in gstore.NeighborLoader(graph.store, [5, 2], 64, seed=7, **options)])
    assert not any(k.startswith("edge_type") for b in batches for k in b)


@pytest.mark.parametrize(
    "fanouts", [{}, {"*": 5}, {"*": []}, {"*": "5"}, {("a", "b"): [5]}, {3: [5]}, {"nix": [5]}, {"nix": [5], "*": [5]}, {("a", "edge", "b"): [5]}]
)
def test_fanouts_refused(graph, fanouts):
    with pytest.raises(gstore.InvalidError, match="fanouts"):
        gstore.NeighborLoader(graph.store, fanouts, 64)


def test_relations_of_one_kind(graph):
    with pytest.raises(gstore.InvalidError, match="edges here are of one kind"):
        gstore.NeighborLoader(graph.store, [5], 64, relations=True)


def test_iterators_not_read(make):
    """An iterator that is never read costs no epoch, and no place that was resumed."""
    store = make(nodes=600, edges=2000).store
    new = lambda: gstore.NeighborLoader(store, [3], 32, seed=4)
    loader = new()
    iter(loader), iter(loader)
    assert loader.epoch == 0
    expected = [b.n_id.copy() for b in loader]
    assert loader.epoch == 1 and len(expected) > 3
    loader = new()
    batches = iter(loader)
    next(batches), next(batches)
    resumed = new()
    resumed.load_state_dict(loader.state_dict())
    iter(resumed), iter(resumed)
    rest = [b.n_id.copy() for b in resumed]
    assert len(rest) == len(expected) - 2 and all(np.array_equal(a, b) for a, b in zip(rest, expected[2:]))
    assert resumed.epoch == 1


def test_threads_share_an_iterator(make):
    """Each batch goes to one thread; views, which the next batch overwrites, are refused to a second one."""
    import threading

    g = make(nodes=3000, edges=9000)
    found, failed = [], []

    def read(batches):
        try:
            for b in batches:
                found.append(b.n_id[: b.batch_size])
        except gstore.InvalidError as e:
            failed.append(str(e))

    def readers(batches):
        threads = [threading.Thread(target=read, args=(batches,)) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]

    readers(iter(gstore.NeighborLoader(g.store, [3], 8, seed=4, copy=True)))
    assert not failed and np.array_equal(np.sort(np.concatenate(found)), g.store.splits["train"])
    batches = iter(gstore.NeighborLoader(g.store, [3], 8, seed=4))
    next(batches)
    readers(batches)
    assert len(failed) == 4 and "copy=True" in failed[0]
