import json
import os
import subprocess
import sys

import numpy as np
import pytest

import conftest
import gstore


@pytest.mark.parametrize("options", [dict(), dict(plan="hanoi", buffer=2, reuse=1), dict(plan="hanoi", buffer=8)])
@pytest.mark.parametrize("world", [2, 3])
def test_epoch(graph, options, world):
    """Ranks do equally many batches; their seeds together are the epoch's of one process; any place goes on."""
    make = lambda rank, of: gstore.NeighborLoader(graph.store, [3], 64, seed=7, rank=rank, world_size=of, **options)
    seeds = lambda loader: [b.n_id[: b.batch_size].copy() for b in loader]
    parts = [seeds(make(rank, world)) for rank in range(world)]
    assert len(make(1, world)) == len(parts[1])
    assert len({len(p) for p in parts}) == 1 and len(parts[0]) > 2
    assert sorted(np.concatenate(sum(parts, []))) == sorted(np.concatenate(seeds(make(0, 1))))
    loader = make(1, world)
    batches = iter(loader)
    next(batches), next(batches)
    again = make(1, world)
    again.load_state_dict(loader.state_dict())
    assert all(np.array_equal(a, b) for a, b in zip(seeds(again), parts[1][2:]))
    with pytest.raises(gstore.InvalidError):
        make(0, world).load_state_dict(loader.state_dict())
    with pytest.raises(gstore.InvalidError):
        make(world, world)


RANK = """
import json, sys
import torch.distributed as dist
import gstore, ranks
dist.init_process_group("gloo")
result, seeds = ranks.train(gstore.open(sys.argv[1]), epochs=4, hidden=32, fanouts=(10, 5), batch_size=200, plan="hanoi", buffer=4)
with open(f"{sys.argv[2]}/{dist.get_rank()}.json", "w") as f:
    json.dump({"result": result, "batches": len(seeds), "seeds": sorted(int(v) for s in seeds for v in s)}, f)
dist.destroy_process_group()
"""


def test_torchrun(tmp_path):
    """Two ranks by torchrun, out of core: one model, every seed once an epoch, what a run of one learns."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("torch_geometric", reason="PyG is not installed")
    examples = conftest.REPOSITORY / "tools/python/examples"
    sys.path.insert(0, str(examples))
    import sage

    store = gstore.ingest(tmp_path / "cora", **sage.cora(conftest.REPOSITORY), undirected=True, partitions=16, partitioner="fennel")
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(examples), os.environ.get("PYTHONPATH", "")]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script), store.path, str(tmp_path)]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stderr
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert found[0]["batches"] == found[1]["batches"] and found[0]["result"] == found[1]["result"] > 0.75
    once = sorted(store.splits["train"].tolist() * 4)
    assert sorted(found[0]["seeds"] + found[1]["seeds"]) == once
