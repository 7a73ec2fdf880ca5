"""PyG's GraphSAGE trained by several processes: torchrun starts them, PyTorch's DistributedDataParallel joins their gradients.

usage: torchrun --nproc_per_node 2 ranks.py STORE [--epochs 30] [--batch-size 1000] [--plan auto] [--mem SIZE] [--buffer N] [--seed N]

Each rank has its part of every epoch from gstore.NeighborLoader: equally many batches, and all seeds once together. A
step of the optimiser is of a batch of each rank: --batch-size is that of all together, so that any number of ranks learns
alike. On machines with GPUs, one a rank, the backend is NCCL, elsewhere gloo.
"""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gstore
from sage import SAGE, accuracy, arguments, descend


def train(store, epochs=30, hidden=128, fanouts=(15, 10), batch_size=1000, lr=0.005, seed=0, after=None, **options):
    """Trains on all ranks of the process group; returns rank 0's test accuracy, others' too, and the seeds this rank had.
    `after` is called after every epoch."""
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if dist.get_backend() == "nccl" else torch.device("cpu")
    torch.manual_seed(seed)
    model = SAGE(store.columns[store.feature_names[0]].dim, hidden, store.classes, len(fanouts)).to(device)
    joined = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    torch.manual_seed(seed + rank)  # of dropout
    loader = gstore.NeighborLoader(store, fanouts, batch_size, seed=seed, rank=rank, world_size=world, device=device, **options)
    seeds = []
    for _ in range(epochs):
        joined.train()
        for batch in loader:
            data = batch.to_pyg()
            descend(optimizer, joined(data.x, data.edge_index), data)
            seeds.append(batch.n_id[: batch.batch_size].copy())
        if after is not None:
            after()
    return accuracy(model, store, "test"), seeds


if __name__ == "__main__":
    parser = arguments()
    parser.add_argument("--batch-size", type=int, default=1000)
    a = parser.parse_args()
    dist.init_process_group("nccl" if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]) else "gloo")
    result, _ = train(gstore.open(a.store), a.epochs, batch_size=a.batch_size // dist.get_world_size(), seed=a.seed, plan=a.plan, mem=a.mem, buffer=a.buffer)
    if dist.get_rank() == 0:
        print("test", round(result, 4))
    dist.destroy_process_group()
