import pickle
import re

import numpy as np
import pytest

import gstore
from conftest import Graph

PLANS = [dict(plan="memory"), dict(plan="rows"), dict(plan="hanoi", buffer=4)]


def seeds(batches):
    return np.concatenate([b.n_id[: b.batch_size].copy() for b in batches])


@pytest.mark.parametrize("options", PLANS)
def test_input_nodes(graph, options):
    """Ids of the user's, as a list, an array or a mask, are the seeds, each once; input_id says where they were in what was given."""
    ids = np.random.default_rng(4).permutation(3000)[:700]
    mask = np.zeros(3000, bool)
    mask[ids] = True
    for given, order in ((ids, ids), (ids.tolist(), ids), (ids.astype(np.uint32), ids), (mask, np.arange(3000))):
        for shuffle in (True, False):
            seen = []
            loader = gstore.NeighborLoader(graph.store, [4, 3], 64, input_nodes=given, shuffle=shuffle, **options)
            for b in loader:
                assert np.array_equal(order[b.input_id], b.ids[: b.batch_size]) and np.array_equal(
                    b.ids, graph.store.external(b.n_id)
                )
                seen.append(b.ids[: b.batch_size].copy())
            seen = np.concatenate(seen)
            assert np.array_equal(np.sort(seen), np.sort(ids)) and len(loader) >= 11
            if not shuffle and options["plan"] == "memory":
                assert np.array_equal(seen, np.flatnonzero(mask) if given is mask else order)


def test_as_a_split(graph):
    """A split's nodes given one by one are the split's batches; all nodes are there with split=None."""
    make = lambda **more: [
        b.copy() for b in gstore.NeighborLoader(graph.store, [4, 3], 64, seed=5, plan="memory", **more)
    ]
    named, split = make(input_nodes=graph.splits["valid"]), make(input_nodes="val")
    assert len(named) == len(split)
    for a, b in zip(named, split):
        assert np.array_equal(a.n_id, b.n_id) and np.array_equal(a.edge_index, b.edge_index)
        assert b.input_id is None
    assert np.array_equal(np.sort(seeds(make(split=None))), np.arange(3000))


@pytest.mark.parametrize("options", PLANS)
def test_drop_last(graph, options):
    loader = gstore.NeighborLoader(graph.store, [4], 64, drop_last=True, **options)
    for _ in range(2):
        sizes = [b.batch_size for b in loader]
        assert set(sizes) == {64} and len(sizes) == len(loader)
    with pytest.raises(gstore.InvalidError, match="full batches"):
        gstore.NeighborLoader(graph.store, [4], 64, drop_last=True, rank=0, world_size=2)


def test_transform_and_columns(graph):
    loader = gstore.NeighborLoader(
        graph.store, [4], 64, transform=lambda b: ("seen", b.batch_size), columns=["ids", "train_mask", "label"]
    )
    assert all(name == "seen" and n <= 64 for name, n in loader)
    loader = gstore.NeighborLoader(graph.store, [4], 64, split=None, columns=["train_mask"])
    train = np.zeros(3000, bool)
    train[graph.store.splits["train"]] = True
    for b in loader:
        assert np.array_equal(b.column("train_mask"), train[b.n_id]) and np.array_equal(b.column("label"), b.y)
    with pytest.raises(gstore.NotFoundError, match="no column 'when'"):
        gstore.NeighborLoader(graph.store, [4], columns=["when"])


class Imbalanced:
    """What PyG's ImbalancedSampler is to a loader: places, some of them again and again."""

    def __init__(self, places):
        self.places = places

    def __iter__(self):
        return iter(self.places)

    def __len__(self):
        return len(self.places)


def test_sampler(graph):
    """Batches are those that the sampler draws, each node once in one."""
    ids = np.arange(100, 200)
    loader = gstore.NeighborLoader(graph.store, [4], 4, input_nodes=ids, sampler=Imbalanced([5, 5, 7, 1, 99, 5]))
    assert len(loader) == 2
    got = [(b.ids[: b.batch_size].tolist(), b.input_id.tolist()) for b in loader]
    assert got == [([105, 107, 101], [5, 7, 1]), ([199, 105], [99, 5])]
    state = loader.state_dict()
    next(iter(loader))
    with pytest.raises(gstore.InvalidError, match="sampler object"):
        loader.state_dict()
    loader.load_state_dict(state)
    with pytest.raises(gstore.InvalidError, match="places in the 100"):
        list(gstore.NeighborLoader(graph.store, [4], input_nodes=ids, sampler=Imbalanced([100])))
    with pytest.raises(gstore.InvalidError, match="plan memory"):
        gstore.NeighborLoader(graph.store, [4], input_nodes=ids, sampler=Imbalanced([1]), plan="hanoi", buffer=4)


@pytest.mark.parametrize("options", PLANS)
def test_resumes(graph, options):
    """A state goes on to the same batches, in another process's loader too; seeds are a part of who a loader is."""
    for shuffle in (True, False):
        make = lambda ids: gstore.NeighborLoader(
            graph.store, [4, 3], 64, input_nodes=ids, shuffle=shuffle, seed=3, **options
        )
        ids = np.arange(0, 3000, 5)
        loader = make(ids)
        before = [b.n_id.copy() for b in loader]
        loader = make(ids)
        it = iter(loader)
        for _ in range(3):
            next(it)
        other = pickle.loads(pickle.dumps(loader))
        assert other.epoch == 0 and other.store.path == graph.store.path
        rest = [(b.n_id.copy(), b.input_id.copy()) for b in other]
        assert all(np.array_equal(a, b) for a, (b, _) in zip(before[3:], rest)) and len(rest) == len(before) - 3
        assert all(np.array_equal(graph.store.external(n[: len(i)]), ids[i]) for n, i in rest)
        with pytest.raises(gstore.InvalidError, match="another loader"):
            make(ids + 1).load_state_dict(loader.state_dict())


def test_wrong_seeds(graph, tmp_path):
    make = lambda **more: gstore.NeighborLoader(graph.store, [4], 64, **more)
    for nodes, error, match in (
        ([1, 2, 1], gstore.InvalidError, "input_nodes 0 and 2 are one node"), ([], gstore.InvalidError, "no node"), (np.zeros(3000, bool), gstore.InvalidError, "no node"),
        (np.ones(2999, bool), gstore.InvalidError, "mask of 2999: there are 3000"), ([3000], gstore.NotFoundError, "3000, which is none of the 3000"),
        ([-1], gstore.NotFoundError, "node -1"), ([1.5], gstore.InvalidError, "float64"), ("paper", gstore.InvalidError, "split 'paper'"),
        (("paper", [1]), gstore.NotFoundError, "no node type 'paper'"), ([[1, 2]], gstore.InvalidError, "shape"),
    ):  # fmt: skip
        with pytest.raises(error, match=match):
            make(input_nodes=nodes)
    for split in (np.array([1]), ["train"], "training"):
        with pytest.raises(gstore.InvalidError, match="input_nodes="):
            make(split=split)


def test_named_nodes(tmp_path):
    """Ids that are texts, or numbers with gaps, are given as they are; a mask has nothing to go by."""
    edges = ([0, 1, 2, 3], [1, 2, 3, 0])
    for kind, ids in (("text", ["a", "b", "c", "d"]), ("gaps", [10, 20, 30, 70])):
        named = [np.asarray(ids)[e] for e in edges]
        with gstore.ingest(tmp_path / kind, tuple(named), ids=ids, features={"x": np.eye(4, dtype=np.float32)}) as s:
            (b,) = gstore.NeighborLoader(s, [-1], input_nodes=[ids[2], ids[0]], shuffle=False)
            assert list(b.ids[:2]) == [ids[2], ids[0]] and b.input_id.tolist() == [0, 1]
            with pytest.raises(gstore.NotFoundError, match="none of the 4"):
                gstore.NeighborLoader(s, [-1], input_nodes=[ids[0], "z" if kind == "text" else 11])
            with pytest.raises(gstore.InvalidError, match="as a mask"):
                gstore.NeighborLoader(s, [-1], input_nodes=[True, False, False, True])


def test_all_neighbours(make):
    """Fanouts of −1 are all neighbours, whatever mem is, or refused."""
    g = make(nodes=20_001, edges=400_000, dim=500, partitions=16, partitioner="random")
    degrees = np.bincount(g.ids[g.edges[1]], minlength=20_001)
    with pytest.raises(gstore.BudgetError, match="smallest that works is [0-9]+MiB") as e:
        gstore.NeighborLoader(g.store, [-1], 100, split="valid", mem="110MiB")
    least = re.search("smallest that works is ([0-9]+MiB)", str(e.value)).group(1)
    for mem in (None, least, "250MiB"):
        loader = gstore.NeighborLoader(g.store, [-1], 100, split="valid", shuffle=False, mem=mem)
        assert loader.config["plan"] in ("memory", "rows")
        found = 0
        for b in loader:
            assert np.array_equal(np.bincount(b.edge_index[1], minlength=b.batch_size), degrees[b.n_id[: b.batch_size]])
            found += b.edge_index.shape[1]
        assert found == degrees[g.ids[g.splits["valid"]]].sum()
    options = dict(split="valid", plan="hanoi", buffer=4)
    with pytest.raises(gstore.InvalidError, match='absent="ignore"'):
        gstore.NeighborLoader(g.store, [-1], 100, **options)
    some = sum(b.edge_index.shape[1] for b in gstore.NeighborLoader(g.store, [-1], 100, absent="ignore", **options))
    assert 0 < some < found


def test_directions(make):
    """relations=True has the edges' own types; inverse=True those against them too."""
    r = np.random.default_rng(2).integers(0, 3, 20_000)
    g = make(relations=r, relation_names=["a", "b", "c"])
    edges = set(zip(g.ids[g.edges[0]], g.ids[g.edges[1]], r))
    for inverse, kinds in ((False, 3), (True, 6)):
        seen = set()
        for b in gstore.NeighborLoader(g.store, [3, 2], 100, relations=True, inverse=inverse):
            seen |= set(b.edge_type.tolist())
            for s, d, k in zip(b.n_id[b.edge_index[0]], b.n_id[b.edge_index[1]], b.edge_type):
                assert (s, d, k) in edges if k < 3 else (d, s, k - 3) in edges
        assert seen == set(range(kinds))
