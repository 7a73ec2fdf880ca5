#!/usr/bin/env python3
"""What the default run makes of a wide graph whose features are words: most of them 0.

    python3 tools/accuracy/words.py GSTORE [MIB ...]

GSTORE is the program. The graph has the shape of a citation network: 3,327 nodes of 6 classes, 3,703 words of which a node has some 32, a tenth of them
words of its class, and 4,600 edges of which three of four stay within a class. For no budget and for each of MIB (default: 122 150 200), and three seeds
of graph and run, it prints the plan, the test accuracy, seconds, peak and bytes read. Needs NumPy. The figures are those of docs/design/gpu.md,
"Features that are mostly 0".
"""

import os
import re
import subprocess
import sys
import tempfile

import numpy as np


def make(out, seed):
    """Writes a folder of NumPy arrays."""
    r = np.random.default_rng(seed)
    nodes, words, classes, own = 3327, 3703, 6, 150
    label = r.integers(0, classes, nodes)
    topics = r.permutation(words)
    x = np.zeros((nodes, words), np.float32)
    for v in range(nodes):
        k = r.poisson(31) + 1
        of_class = topics[label[v] * own + (r.random(k) ** 2 * own).astype(int)]
        x[v, np.where(r.random(k) < 0.1, of_class, (r.random(k) ** 1.5 * words).astype(int))] = 1
    by_class = [np.flatnonzero(label == c) for c in range(classes)]
    a = r.integers(0, nodes, 4600)
    b = np.array([r.choice(by_class[label[v]]) if r.random() < 0.74 else r.integers(nodes) for v in a])
    os.makedirs(out)
    np.save(os.path.join(out, "node_feat.npy"), x)
    np.save(os.path.join(out, "node_label.npy"), label)
    np.save(os.path.join(out, "edge_index.npy"), np.stack([a, b]))


def run(*args):
    """Runs a command and returns what it says; a refusal too."""
    done = subprocess.run(args, capture_output=True, text=True)
    return done.stdout + done.stderr


def main():
    gstore, budgets = sys.argv[1], [int(x) for x in sys.argv[2:]] or [122, 150, 200]
    with tempfile.TemporaryDirectory() as temp:
        for seed in (1, 2, 3):
            folder = os.path.join(temp, f"words{seed}")
            make(folder, seed)
            for mib in [0, *budgets]:
                memory = ["--mem", f"{mib}MiB"] if mib else []
                store = f"{folder}-{mib}.gstore"
                run(gstore, "ingest", folder, store, "--undirected", *memory)
                said = run(gstore, "train", store, "--seed", str(seed), *memory)
                print(seed, f"{mib} MiB" if mib else "no budget", "; ".join(re.findall(r"^(?:test accuracy|[\d.]+ s \(|gstore: memory).*", said, re.M)), flush=True)


if __name__ == "__main__":
    main()
