"""PyG's GraphSAGE trained by Ray Train's workers, one of which may be lost: all go on from the last checkpoint.

usage: python workers.py STORE RUN [--workers 2] [--epochs 30] [--every 20] [--plan auto] [--mem SIZE] [--buffer N] [--kill N]

RUN is a new folder for checkpoints, which every worker must reach. A checkpoint is the model, its optimiser, and of each
rank where its loader is (`state_dict`) and what dropout draws next, so that what follows has the batches, and on a CPU the
bits, of a run that lost none. --kill N kills a worker with SIGKILL after N of its batches, to see that.

needs: pip install ./tools/python and -r tools/python/requirements-torch.txt
"""

import argparse
import hashlib
import os
import pathlib
import signal
import tempfile

import ray
import ray.train
import ray.train.torch
import torch
import torch.nn.functional as F

import gstore
from sage import SAGE, accuracy


def restore(rank, model, optimizer, loader):
    """Goes on from the last checkpoint; returns the batches that were done before it, None where there is none."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder:
        shared, own = torch.load(f"{folder}/model.pt"), torch.load(f"{folder}/rank{rank}.pt")
    model.load_state_dict(shared["model"])
    optimizer.load_state_dict(shared["optimizer"])
    loader.load_state_dict(own["loader"])
    torch.set_rng_state(own["dropout"])
    return own["done"]


def save(rank, model, optimizer, loader, done, **metrics):
    """Reports a checkpoint: each rank gives its own file, and Ray joins them. All ranks do equally many batches, and so report at once."""
    with tempfile.TemporaryDirectory() as folder:
        if rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{folder}/model.pt")
        torch.save({"loader": loader.state_dict(), "dropout": torch.get_rng_state(), "done": done}, f"{folder}/rank{rank}.pt")
        ray.train.report({"batches": done, **metrics}, checkpoint=ray.train.Checkpoint.from_directory(folder))


def work(a):
    """What each worker does; a are the arguments."""
    rank, world = ray.train.get_context().get_world_rank(), ray.train.get_context().get_world_size()
    store = gstore.open(a.store)
    device = ray.train.torch.get_device()
    loader = gstore.NeighborLoader(
        store, [15, 10], a.batch_size, seed=a.seed, rank=rank, world_size=world, plan=a.plan, mem=a.mem, buffer=a.buffer, device=device
    )
    torch.manual_seed(a.seed)
    model = ray.train.torch.prepare_model(SAGE(store.columns[store.feature_names[0]].dim, a.hidden, store.classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    torch.manual_seed(a.seed + rank)  # of dropout
    before = restore(rank, model, optimizer, loader)
    done = before or 0
    while loader.epoch < a.epochs:
        model.train()
        for batch in loader:
            data = batch.to_pyg()
            out = model(data.x, data.edge_index)[: data.batch_size]
            if "label_shift" in data:  # out of core: a step's classes are not mixed as the graph's
                out = out + data.label_shift
            optimizer.zero_grad()
            F.cross_entropy(out, data.y[: data.batch_size]).backward()
            optimizer.step()
            done += 1
            if done % a.every == 0:
                save(rank, model, optimizer, loader, done)
            if done == a.kill and before is None and rank == world - 1:
                os.kill(os.getpid(), signal.SIGKILL)
    whole = getattr(model, "module", model).cpu()
    bits = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in whole.parameters())).hexdigest()[:16]
    save(rank, model, optimizer, loader, done, test=accuracy(whole, store, "test"), bits=bits, resumed_at=before or 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=os.path.abspath)
    parser.add_argument("run", type=os.path.abspath)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--every", type=int, default=20, help="batches between checkpoints")
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--plan", default="auto")
    parser.add_argument("--mem")
    parser.add_argument("--buffer", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kill", type=int, default=-1)
    a = parser.parse_args()
    here = str(pathlib.Path(__file__).resolve().parent)
    gpus = torch.cuda.device_count() >= a.workers
    ray.init(num_cpus=a.workers, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}})
    result = ray.train.torch.TorchTrainer(
        work,
        train_loop_config=a,
        scaling_config=ray.train.ScalingConfig(num_workers=a.workers, use_gpu=gpus, trainer_resources={"CPU": 0}),
        run_config=ray.train.RunConfig(
            name="run", storage_path=a.run, failure_config=ray.train.FailureConfig(max_failures=3), checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2)
        ),
    ).fit()
    print({k: result.metrics[k] for k in ("test", "batches", "bits", "resumed_at")})


if __name__ == "__main__":
    main()
