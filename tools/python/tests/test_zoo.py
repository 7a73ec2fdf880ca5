"""Stores of the zoo's shapes (tools/zoo) by the loader: batches against brute force."""

import subprocess

import numpy as np
import pytest

import gstore
from conftest import REPOSITORY

SHAPES = [
    "nodes=1,edges=loops", "nodes=1,edges=none", "nodes=2,edges=one", "nodes=5,edges=parallel,classes=1", "nodes=37,edges=none", "nodes=97,edges=hub,classes=1",
    "nodes=97,edges=parallel,width=70", "nodes=211,edges=isolated,split=one", "nodes=37,edges=loops,split=novalid", "nodes=211,edges=random,columns=2,width=1",
    "nodes=3,edges=path,width=4000",
]  # fmt: skip


@pytest.fixture(scope="session")
def zoo(program, tmp_path_factory):
    """Makes a shape's arrays and its store of so many partitions."""
    binary = tmp_path_factory.mktemp("bin") / "zoo"
    subprocess.run(["go", "build", "-o", str(binary), "./tools/zoo/cmd"], cwd=REPOSITORY, check=True)

    def make(shape, partitions=1):
        folder = tmp_path_factory.mktemp("shape")
        subprocess.run([str(binary), "-case", shape, "-write", str(folder / "in")], check=True, stdout=subprocess.DEVNULL)
        more = ["--partitions", str(partitions), "--partitioner", "random", "--quiet"]
        subprocess.run([str(program), "ingest", str(folder / "in"), str(folder / "store"), *more], check=True)
        return folder / "in", gstore.open(folder / "store")

    return make


def arrays(folder, store):
    """Edges, seeds and features by the store's own numbers of nodes."""
    x = np.load(folder / "node_feat.npy")
    ids = store.lookup(np.arange(len(x)))
    edges = ids[np.load(folder / "edge_index.npy")]
    rows = np.empty_like(x)
    rows[ids] = x
    return edges, ids[np.load(folder / "split" / "train.npy")], rows


def into(edges, nodes):
    """The edges into nodes, as sorted pairs."""
    chosen = np.isin(edges[1], nodes)
    return sorted(zip(edges[0][chosen].tolist(), edges[1][chosen].tolist()))


@pytest.mark.parametrize("shape", SHAPES)
def test_whole_neighbourhoods(zoo, shape):
    """Without a bound a batch has each edge into its seeds, as often as the graph has it, and each node's own row. Over a part of
    the graph at a time it has those from the part, if one asks for that, and otherwise is refused."""
    for partitions in (1, 2, 3):
        nodes = int(shape.split(",")[0].removeprefix("nodes="))
        if partitions > nodes:
            continue
        folder, store = zoo(shape, partitions)
        with store:
            edges, train, rows = arrays(folder, store)
            for options in (dict(), dict(plan="rows"), dict(plan="hanoi", buffer=1), dict(plan="hanoi", buffer=partitions)):
                if options.get("buffer", partitions) < partitions:
                    with pytest.raises(gstore.InvalidError, match="are all neighbours"):
                        gstore.NeighborLoader(store, [-1], 7, seed=1, features=["x"], **options)
                    options["absent"] = "ignore"
                seen = []
                for b in gstore.NeighborLoader(store, [-1], 7, seed=1, features=["x"], **options):
                    seeds = b.n_id[: b.batch_size]
                    seen += seeds.tolist()
                    assert np.array_equal(b.x, rows[b.n_id])
                    drawn = sorted(zip(b.n_id[b.edge_index[0]].tolist(), b.n_id[b.edge_index[1]].tolist()))
                    if options.get("buffer", partitions) == partitions:
                        assert drawn == into(edges, seeds)
                    else:
                        assert set(drawn) <= set(into(edges, seeds))
                assert sorted(seen) == sorted(train.tolist())


@pytest.mark.parametrize("shape", ["nodes=37,edges=random", "nodes=97,edges=parallel", "nodes=16,edges=hub"])
def test_probabilities(zoo, shape):
    """Each edge into a seed is drawn as often as any other: min(1, 2 / edges into it)."""
    folder, store = zoo(shape)
    with store:
        edges, train, _ = arrays(folder, store)
        rounds, drawn = 400, {}
        for epoch in range(rounds):
            for b in gstore.NeighborLoader(store, [2], 64, seed=epoch, features=["x"]):
                for pair in zip(b.n_id[b.edge_index[0]].tolist(), b.n_id[b.edge_index[1]].tolist()):
                    drawn[pair] = drawn.get(pair, 0) + 1
        degree, times = np.bincount(edges[1]), {}
        for pair in into(edges, train):
            times[pair] = times.get(pair, 0) + 1
        assert drawn.keys() <= times.keys()
        for (src, dst), equal in times.items():
            p = min(1, 2 / degree[dst])
            mean, spread = rounds * equal * p, (rounds * equal * p * (1 - p)) ** 0.5
            assert abs(drawn.get((src, dst), 0) - mean) <= 5.5 * spread, (src, dst, equal, degree[dst])
