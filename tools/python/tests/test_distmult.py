import os
import signal
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import gstore  # noqa: E402

import conftest  # noqa: E402

sys.path.insert(0, str(conftest.REPOSITORY / "tools/python/examples"))

NODES, GROUPS = 400, 20


def triples(seed, n):
    """Relation k leads from group g to group g + k: what DistMult can learn of them is the groups."""
    r = np.random.default_rng(seed)
    head, kind = r.integers(0, NODES, n), r.integers(0, 4, n)
    return np.stack([head, kind, (head + kind) % GROUPS + GROUPS * r.integers(0, NODES // GROUPS, n)], 1)


OPTIONS = dict(epochs=4, dim=16, batch_size=500, negatives=50, seed=3, checkpoint_every=7, plan="comet", buffer=4)

KILLED = """
import os, signal, sys
import torch, gstore, distmult
torch.use_deterministic_algorithms(True)
def after(table):
    if table.steps == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
distmult.train(gstore.open(sys.argv[1]), "killed", resume=len(sys.argv) > 3, after=after, **%r)
"""


def test_killed(tmp_path):
    """DistMult through COMET learns; killed twice and resumed, rows and relations are those of the run that was not, to the bit."""
    import distmult

    torch.use_deterministic_algorithms(True)
    try:
        known = triples(1, 6000)
        store = gstore.ingest(tmp_path / "s", known[:, [0, 2]], relations=known[:, 1], partitions=8, num_nodes=NODES, seed=1)
        table, model = distmult.train(store, "whole", **OPTIONS)
        ids = store.lookup(np.arange(NODES))
        asked = triples(2, 200)
        asked[:, [0, 2]] = ids[asked[:, [0, 2]]]
        assert distmult.mrr(table, model, asked, asked) > 0.1  # of 400 nodes; at random .016
        env = {**os.environ, "PYTHONPATH": str(conftest.REPOSITORY / "tools/python/examples")}
        for more in (["17"], ["31", "resume"]):
            run = subprocess.run([sys.executable, "-c", KILLED % OPTIONS, store.path, *more], env=env, capture_output=True, text=True)
            assert run.returncode == -signal.SIGKILL, run.stderr
        resumed, other = distmult.train(store, "killed", resume=True, **OPTIONS)
        assert resumed.steps == table.steps
        assert np.array_equal(resumed.read(np.arange(NODES)), table.read(np.arange(NODES)))
        assert torch.equal(other.relations, model.relations)
    finally:
        torch.use_deterministic_algorithms(False)
