#!/usr/bin/env python3
"""What an edge costs as graphs grow: nanoseconds of CPU of ingest, partitioning, and epochs in and out of memory; a JSON object a line.

usage: scaling.py DIR [--edges 3,30,300] [--gstore PROGRAM] [--mem 8GiB] [--threads 2] [--no-epochs]

--edges are millions, of block models of 10 edges a node with 32 features (`gstore generate sbm`), a tenth of the nodes for
training. All are by edge of the graph: FENNEL of one pass without levels; an epoch of SAGE with fanouts 10,5, the CPU
seconds of a run of several, of small graphs the more, less those of one. Out of core a quarter of the partitions is in memory
at a time. DIR must not exist; it is removed.
"""
import argparse, json, pathlib, shutil, subprocess, sys

def run(a, *args):
    """The summary of a command."""
    done = subprocess.run([a.gstore, *map(str, args), "--threads", str(a.threads), "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"gstore {args[0]}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def epoch(a, store, edges, *plan):
    """Nanoseconds of CPU of an epoch by edge of the graph."""
    more = 3 + round(min(20, 6e7 / edges))
    one, all = (run(a, "train", store, "--epochs", n, "--eval-every", 99, "--fanouts", "10,5", "--absent", "ignore", "--checkpoint-every", 0, "--seed", 1, *plan) for n in (1, more))
    return 1e9 * (all["cpu_seconds"] - one["cpu_seconds"]) / (more - 1) / edges


def measure(a, directory, millions):
    graph, store = directory / "graph", directory / "graph.gs"
    edges = int(millions * 1e6)
    run(a, "generate", "sbm", graph, "--nodes", edges // 10, "--edges", edges, "--features", 32, "--train", 0.1, "--valid", 0.01, "--test", 0.01, "--format", "binary")
    made = run(a, "ingest", graph, store, "--partitioner", "random", "--mem", a.mem)
    shutil.rmtree(graph)
    parted = run(a, "partition", store, "--partitioner", "fennel", "--passes", 1, "--mem", a.mem)
    found = {"edges": edges, "ingest": 1e9 * made["cpu_seconds"] / edges, "ingest_peak_bytes": made["peak_rss_bytes"]}
    found.update(partition=1e9 * parted["cpu_seconds"] / edges, partitions=made["partitions"])
    if a.epochs:
        found["memory"] = epoch(a, store, edges, "--plan", "memory")
        found["hanoi"] = epoch(a, store, edges, "--plan", "hanoi", "--buffer", max(2, made["partitions"] // 4))
    print(json.dumps({k: round(v, 1) for k, v in found.items()}), flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("dir", type=pathlib.Path)
    p.add_argument("--edges", default="3,30,300", help="of the graphs, in millions")
    p.add_argument("--gstore", default="gstore")
    p.add_argument("--mem", default="8GiB", help="of ingest and partitioning")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--no-epochs", dest="epochs", action="store_false", help="ingest and partition alone")
    a = p.parse_args()
    a.dir.mkdir(parents=True)
    try:
        for millions in a.edges.split(","):
            here = a.dir / millions
            here.mkdir()
            measure(a, here, float(millions))
            shutil.rmtree(here)
    finally:
        shutil.rmtree(a.dir)
