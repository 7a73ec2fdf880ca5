import os
import pathlib
import subprocess

import numpy as np
import pytest

import gstore

REPOSITORY = pathlib.Path(os.environ.get("GSTORE_REPOSITORY") or pathlib.Path(__file__).resolve().parents[3])


class Graph:
    """A random graph and the store that was made of it."""

    def __init__(self, path, nodes=3000, edges=20000, dim=6, seed=1, **options):
        r = np.random.default_rng(seed)
        self.edges = r.integers(0, nodes, (2, edges))
        self.x = r.random((nodes, dim), np.float32)
        self.y = r.integers(-1, 4, nodes)
        where = r.integers(0, 4, nodes)
        self.splits = {part: np.flatnonzero(where == k) for k, part in enumerate(("train", "valid", "test"), 1)}
        self.store = gstore.ingest(path, self.edges, features={"x": self.x}, labels=self.y, splits=self.splits, **options)
        self.ids = self.store.lookup(np.arange(nodes))


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The command line with its benchmarks, which tools/bench/peers calls, built from the repository."""
    path = tmp_path_factory.mktemp("bin") / "gstore"
    subprocess.run(["go", "build", "-o", str(path), "./tools/gstore-lab"], cwd=REPOSITORY, check=True)
    return path


@pytest.fixture(scope="session")
def graph(tmp_path_factory):
    g = Graph(tmp_path_factory.mktemp("stores") / "graph", partitions=12, seed=3)
    yield g
    g.store.close()


@pytest.fixture(scope="session")
def make(tmp_path_factory):
    return lambda **options: Graph(tmp_path_factory.mktemp("stores") / "graph", **options)
