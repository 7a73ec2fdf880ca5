#!/usr/bin/env python3
"""What the default recipe gives where few nodes have labels, beside what it was without its weight decay and its long patience.

    python3 tools/accuracy/fewlabels.py GSTORE INPUT ...
    python3 tools/accuracy/fewlabels.py --splits GRAPH.npz SPLITS.npz

GSTORE is the program, INPUT what it ingests, such as a folder of Planetoid's files with their split of 20 labels a class. For each of its splits
and three models the first prints the mean test accuracy of five seeds and its deviation. The second makes an input of six splits of a graph (edge_index, x,
y): twice each of 5, 20 and 50 labels a class at random, 500 nodes for validation, the others for the test. The figures are those of
docs/lab/findings.md, "Few labels".
"""

import re
import subprocess
import sys
import tempfile

WAYS = {
    "default": [],
    "no decay": ["--weight-decay", "0"],
    "nor patience": ["--weight-decay", "0", "--patience", "20"],
}


def splits(graph, out):
    import numpy as np

    arrays = dict(np.load(graph))
    y = arrays["y"]
    masks = []
    for k in 5, 20, 50:
        for draw in 0, 1:
            rng = np.random.default_rng(100 * k + draw)
            train = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:k] for c in np.unique(y[y >= 0])])
            rest = rng.permutation(np.setdiff1d(np.flatnonzero(y >= 0), train))
            masks.append([np.isin(np.arange(len(y)), ids) for ids in (train, rest[:500], rest[500:])])
    for i, name in enumerate(["train_mask", "val_mask", "test_mask"]):
        arrays[name] = np.stack([m[i] for m in masks])
    np.savez(out, **arrays)


def gstore(*args):
    return subprocess.run([sys.argv[1], *args], check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--splits":
        return splits(*sys.argv[2:])
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for path in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as folder:
            store = f"{folder}/store"
            gstore("ingest", path, store, "--undirected", "--quiet")
            for split in re.findall(r"^(\S+) +split ", gstore("inspect", store), re.M):
                for model in "sage", "gcn", "gat":
                    line = f"{path} {split:8} {model:5}"
                    for way, flags in WAYS.items():
                        out = gstore("train", store, "--split", split, "--model", model, "--seeds", "5", *flags)
                        mean, deviation = re.search(r"^mean +([\d.]+)", out, re.M)[1], re.search(r"sd +([\d.]+)", out)[1]
                        line += f"  {way} {mean} ± {deviation}"
                    print(line, flush=True)


if __name__ == "__main__":
    main()
