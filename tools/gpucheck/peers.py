#!/usr/bin/env python3
"""What PyTorch takes for gstore's operations and training steps on the same GPU: one line of JSON each.

usage: peers.py ops [--table-mib 4096] [--repeats 20] [--device cuda|cpu|auto]
       peers.py steps DUMP [--hidden 256] [--repeats 3] [--device cuda|cpu|auto]

auto is the GPU where PyTorch finds one, else the processor, which says that the script runs and nothing more. Sizes and names of operations are those of "gstore-lab bench ops --device"; the device's time is taken by events, medians over rounds, beside a
copy in the device's memory. DUMP is a width's folder of "gstore-lab bench train --dump-batches": the same blocks are trained
eagerly with SAGEConv (PyTorch Geometric's, or the same formula where that is not installed), rows gathered from a table in the
device's memory, which gstore's are not: what remains is the step alone.
"""
import argparse, json, os, statistics, time

import numpy as np
import torch
import torch.nn.functional as F

try:
    from torch_geometric.nn import SAGEConv
except ImportError:
    SAGEConv = None

DIM = 128


def clock(device, run, least=0.002):
    """The device's seconds of one of several runs."""
    n = 1
    while True:
        if device.type == "cuda":
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            for _ in range(n):
                run()
            b.record()
            b.synchronize()
            took = a.elapsed_time(b) / 1e3
        else:
            start = time.perf_counter()
            for _ in range(n):
                run()
            took = time.perf_counter() - start
        if took >= least or n >= 1024:
            return took / n
        n *= 4


def device_of(a):
    if a.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if a.device.startswith("cuda") and not torch.cuda.is_available():
        raise SystemExit(f"peers.py: PyTorch {torch.__version__} finds no GPU: is it a build with CUDA, for a driver as new as this one's?")
    return torch.device(a.device)


def ops(a):
    device = device_of(a)
    rows = a.table_mib * (1 << 20) // (4 * DIM)
    table = torch.rand(rows, DIM, device=device) - 0.5
    part = table[: max(1, min(rows // 2, (256 << 20) // (4 * DIM)))]
    copy = torch.empty_like(part)

    def report(name, bytes, run, flops=0):
        run()
        seconds, copies, shares = [], [], []
        for _ in range(a.repeats):
            c = clock(device, lambda: copy.copy_(part))
            s = clock(device, run)
            rate = 2 * part.numel() * 4 / c
            seconds.append(s), copies.append(rate / 1e9), shares.append(bytes / s / rate)
        s = statistics.median(seconds)
        r = dict(event="operation", name=name, seconds=s, bytes=bytes, flops=flops, gb_s=bytes / s / 1e9, copy_gb_s=statistics.median(copies), share=statistics.median(shares))
        print(json.dumps(r), flush=True)

    n, degree = max(1, rows // 8), 10
    for elem, size in ((torch.float32, 4), (torch.bfloat16, 2)):
        t = table if elem == torch.float32 else table.to(elem)
        index, out = torch.randint(rows, (n,), device=device), torch.empty(n, DIM, dtype=elem, device=device)
        report(f"index_select {DIM} {str(elem).removeprefix('torch.')}", n * (2 * DIM * size + 8), lambda: torch.index_select(t, 0, index, out=out))
    edges = n * degree
    indptr = torch.arange(0, edges + 1, degree, device=device)
    adj = torch.sparse_csr_tensor(indptr, torch.randint(rows, (edges,), device=device), torch.full((edges,), 1 / degree, device=device), size=(n, rows))
    report(f"sparse mm {DIM} float32", edges * (DIM * 4 + 8) + 4 * n * DIM, lambda: adj @ table)
    m = min(100_000, max(1, rows // 8))
    for k, c in ((128, 256), (256, 256), (512, 256), (128, 512)):
        x, w, y = (torch.rand(s, device=device) - 0.5 for s in ((m, k), (k, c), (m, c)))
        for tf32 in (False, True) if device.type == "cuda" else (False,):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            kind = "tf32" if tf32 else "float32"
            for name, run in (("Y=XW", lambda: torch.mm(x, w)), ("dX=dY·Wᵀ", lambda: torch.mm(y, w.T)), ("dW=Xᵀ·dY", lambda: torch.mm(x.T, y))):
                report(f"mm {kind} {name} {m}×{k}×{c}", 4 * (m * k + k * c + m * c), run, 2 * m * k * c)


class Mean(torch.nn.Module):
    """SAGEConv with mean, without PyTorch Geometric."""

    def __init__(self, into, out):
        super().__init__()
        self.l, self.r = torch.nn.Linear(into, out), torch.nn.Linear(into, out, bias=False)

    def forward(self, xs, edges):
        x, own = xs
        n = own.shape[0]
        sums = torch.zeros(n, x.shape[1], device=x.device).index_add_(0, edges[1], x[edges[0]])
        return self.l(sums / torch.bincount(edges[1], minlength=n).clamp(min=1).unsqueeze(1)) + self.r(own)


def load(folder, layers, device):
    read = lambda name: np.load(os.path.join(folder, name + ".npy")).astype(np.int64)
    blocks = []
    for l in range(layers):
        indptr, indices = read(f"indptr_{l}"), read(f"indices_{l}")
        n = len(indptr) - 1
        blocks.append((torch.from_numpy(np.stack([indices, np.repeat(np.arange(n), np.diff(indptr))])).to(device), n))
    return torch.from_numpy(read("input")).to(device), torch.from_numpy(read("labels")).to(device), blocks


def steps(a):
    device = device_of(a)
    with open(os.path.join(a.dump, "meta.json")) as f:
        meta = json.load(f)
    layers, conv = len(meta["fanouts"]), SAGEConv or Mean
    elem = {"float32": torch.float32, "float16": torch.float16}[meta["elem"]]
    table = (torch.rand(meta["nodes"], meta["dim"], device=device) - 0.5).to(elem)
    batches = [load(os.path.join(a.dump, str(i)), layers, device) for i in range(meta["batches"] + 1)]
    sizes = [meta["dim"]] + [a.hidden] * (layers - 1) + [meta["classes"]]
    torch.manual_seed(1)
    net = torch.nn.ModuleList(conv(i, o) for i, o in zip(sizes, sizes[1:])).to(device)
    adam = torch.optim.Adam(net.parameters(), lr=0.005)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None

    def step(rows, labels, blocks):
        x = table.index_select(0, rows).float()
        for i, (layer, (edges, n)) in enumerate(zip(net, blocks)):
            x = layer((x, x[:n]), edges)
            if i + 1 < layers:
                x = F.dropout(F.relu(x), p=0.5, training=True)
        loss = F.cross_entropy(x, labels)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    rounds, loss = [], 0.0
    for repeat in range(a.repeats + 1):
        wait()
        start = time.perf_counter()
        for b in batches[1:]:
            loss = step(*b)
        wait()
        if repeat > 0:
            rounds.append((time.perf_counter() - start) / (len(batches) - 1))
    r = dict(event="result", model="sage", device=f"{device.type}, {conv.__name__}", dim=meta["dim"], hidden=a.hidden, step_s=statistics.median(rounds), loss=float(loss))
    r["sampled_edges"] = sum(sum(e.shape[1] for e, _ in b[2]) for b in batches[1:]) / (len(batches) - 1)
    r["input_rows"] = sum(len(b[0]) for b in batches[1:]) / (len(batches) - 1)
    print(json.dumps(r), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("what", choices=("ops", "steps"))
    p.add_argument("dump", nargs="?")
    p.add_argument("--table-mib", type=int, default=4096)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--repeats", type=int, default=20)
    p.add_argument("--device", default="auto")
    a = p.parse_args()
    if a.what == "steps" and not a.dump:
        p.error("steps: the folder of the batches is missing")
    (ops if a.what == "ops" else steps)(a)


if __name__ == "__main__":
    main()
