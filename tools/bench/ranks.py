#!/usr/bin/env python3
"""An epoch of several ranks beside one, a core each: tools/python/examples/ranks.py by turns; a JSON object a line.

usage: ranks.py STORE [--ranks 1,2] [--batch-size 1000] [--repeat 3] [--epochs 4] [--plan auto] [--mem SIZE] [--buffer N]

--batch-size is that of all ranks together; 1000,2000 has one for each number of ranks. Of each run: seconds and CPU seconds
of all ranks together of its epochs but the first, their medians; CPU seconds are what a busy machine leaves comparable. Each
rank has one core, one thread of PyTorch's and one of the loader's; the model is PyG's SAGEConv, two layers of 128, joined by
gloo.

needs: pip install ./tools/python and -r tools/python/requirements-torch.txt
"""
import argparse, json, os, pathlib, resource, statistics, subprocess, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python/examples"))


def work(a):
    """What each rank does."""
    core = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core[int(os.environ["LOCAL_RANK"]) % len(core)]})
    import torch
    import torch.distributed as dist

    import gstore
    import ranks

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks.accuracy = lambda model, store, split: 0.0
    spent = []

    def after():
        u = resource.getrusage(resource.RUSAGE_SELF)
        spent.append((time.time(), u.ru_utime + u.ru_stime))

    after()
    _, seeds = ranks.train(gstore.open(a.store), a.epochs, batch_size=int(a.batch_size), plan=a.plan, mem=a.mem, buffer=a.buffer, threads=1, after=after)
    found = [(b[0] - c[0], b[1] - c[1]) for c, b in zip(spent[1:], spent[2:])]
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, (found, len(seeds) // a.epochs, sum(map(len, seeds)) // a.epochs))
    if dist.get_rank() == 0:
        wall = statistics.median(max(one[0] for one in epoch) for epoch in zip(*(e[0] for e in every)))
        cpu = statistics.median(sum(one[1] for one in epoch) for epoch in zip(*(e[0] for e in every)))
        print(json.dumps({"ranks": len(every), "seconds": wall, "cpu_seconds": cpu, "batches": every[0][1], "seeds": sum(e[2] for e in every)}))
    dist.destroy_process_group()


def main(a):
    numbers = [int(n) for n in a.ranks.split(",")]
    sizes = [int(n) for n in a.batch_size.split(",")]
    sizes = dict(zip(numbers, sizes * len(numbers) if len(sizes) == 1 else sizes))
    found = {n: [] for n in numbers}
    for _ in range(a.repeat):
        for n in numbers:
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(n), __file__, a.store]
            command += ["--batch-size", str(sizes[n] // n), "--epochs", str(a.epochs), "--plan", a.plan, "--buffer", str(a.buffer)] + (["--mem", a.mem] if a.mem else [])
            run = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
            if run.returncode != 0:
                sys.exit(run.stderr)
            print(run.stdout, end="", flush=True)
            found[n].append(json.loads(run.stdout))
    of = lambda n, what: statistics.median(run[what] for run in found[n])
    one = numbers[0]
    for n in numbers[1:]:
        summary = {"event": "summary", "ranks": n, "beside": one, "speedup": of(one, "seconds") / of(n, "seconds"), "cpu_ratio": of(n, "cpu_seconds") / of(one, "cpu_seconds")}
        print(json.dumps({**summary, "speedup_by_cpu": n / one / summary["cpu_ratio"]}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--batch-size", default="1000")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--plan", default="auto")
    parser.add_argument("--mem")
    parser.add_argument("--buffer", type=int, default=0)
    arguments = parser.parse_args()
    (work if "RANK" in os.environ else main)(arguments)
