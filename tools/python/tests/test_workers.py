import ast
import os
import subprocess
import sys

import pytest

import gstore
from conftest import REPOSITORY

for module in ("ray", "torch_geometric"):
    pytest.importorskip(module, reason=f"{module} is not installed: pip install -r requirements-torch.txt")

EXAMPLES = REPOSITORY / "tools/python/examples"


def test_lost_worker(tmp_path):
    """A worker of Ray Train's that is killed costs nothing but time: the model has the bits of a run that lost none."""
    sys.path.insert(0, str(EXAMPLES))
    import sage

    store = gstore.ingest(tmp_path / "cora", **sage.cora(REPOSITORY), undirected=True, partitions=16, partitioner="fennel")
    env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "OMP_NUM_THREADS": "1"}
    found = []
    for kill in ("-1", "5"):
        args = ["--epochs", "4", "--every", "3", "--batch-size", "200", "--hidden", "32", "--plan", "hanoi", "--buffer", "4", "--kill", kill]
        command = [sys.executable, str(EXAMPLES / "workers.py"), store.path, str(tmp_path / f"run{kill}"), *args]
        run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
        assert run.returncode == 0, run.stderr
        found.append(ast.literal_eval(run.stdout.strip().splitlines()[-1]))
    assert found[0].pop("resumed_at") == 0 and found[1].pop("resumed_at") == 3
    assert found[0] == found[1] and found[0]["test"] > 0.8
