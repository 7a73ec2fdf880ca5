#!/usr/bin/env python3
"""What the default run makes of a class that is rare: one class of a real graph against all others.

    python3 tools/accuracy/rareclass.py GSTORE [DATASETS] [NAME ...]

GSTORE is the program, DATASETS the folder of the graphs (default: ../shared/datasets). For each graph and three seeds it prints what `gstore
train` says of the best epoch. Needs NumPy. The figures are those of docs/design/gpu.md, "A class that is rare".
"""

import os
import re
import subprocess
import sys
import tempfile

import numpy as np

# Name: data set, class, and the share of the class's nodes that keep their label.
GRAPHS = {"cora5": ("cora", 5, 0.7), "fb3": ("facebook-pages", 3, 0.15), "fb0": ("facebook-pages", 0, 0.05), "deb": ("debdeps", 50, 1.0), "deb14": ("debdeps", 14, 1.0)}


def make(data, out, rare, kept, r):
    """Writes a folder of NumPy arrays whose labels are 1 for a class and 0 for the others, divided 60/20/20."""
    os.makedirs(os.path.join(out, "split"))
    classes = np.load(os.path.join(data, "node_label.npy"))
    labels = (classes == rare).astype(np.int64)
    labels[(classes == rare) & (r.random(len(classes)) > kept)] = -1
    np.save(os.path.join(out, "node_label.npy"), labels)
    for name in ("edge_index.npy", "node_feat.npy", "node_feat.npy.gz"):
        if os.path.exists(os.path.join(data, name)):
            os.symlink(os.path.abspath(os.path.join(data, name)), os.path.join(out, name))
    nodes = r.permutation(np.nonzero(labels >= 0)[0])
    n = len(nodes)
    for part, at in {"train": nodes[: n * 6 // 10], "valid": nodes[n * 6 // 10 : n * 8 // 10], "test": nodes[n * 8 // 10 :]}.items():
        np.save(os.path.join(out, "split", part + ".npy"), at)


def main():
    gstore, datasets = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "../shared/datasets"
    if not os.path.isdir(datasets):
        print(f"{datasets} is not there: skipped")
        return
    r = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as temp:
        for name, (data, rare, kept) in GRAPHS.items():
            folder = os.path.join(temp, name)
            make(os.path.join(datasets, data), folder, rare, kept, r)
            if sys.argv[3:] and name not in sys.argv[3:]:
                continue
            for seed in (1, 2, 3):
                store = os.path.join(temp, f"{name}-{seed}.gstore")
                subprocess.run([gstore, "ingest", folder, store, "--undirected", "--quiet"], check=True, stdout=subprocess.DEVNULL)
                said = subprocess.run([gstore, "train", store, "--seed", str(seed)], check=True, capture_output=True, text=True).stdout
                print(name, seed, "; ".join(re.findall(r"^(?:test accuracy|ranked by).*", said, re.M)), flush=True)


if __name__ == "__main__":
    main()
