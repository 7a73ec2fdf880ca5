#!/usr/bin/env python3
"""What weight decay, input dropout and patience give where few nodes have labels.

    python3 tools/accuracy/fewlabels.py GSTORE INPUT ...

GSTORE is the program, INPUT what it ingests, such as a folder of Planetoid's files with their split of 20 labels a class. For three models it prints the
mean test accuracy of five seeds and its deviation: by default, with a weight decay of 1 divided by the number of training nodes, with input dropout too,
and with more patience too. The figures are those of docs/lab/findings.md, "Few labels".
"""

import re
import subprocess
import sys
import tempfile


def gstore(*args):
    return subprocess.run([sys.argv[1], *args], check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for path in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as folder:
            store = f"{folder}/store"
            gstore("ingest", path, store, "--quiet")
            nodes = int(re.search(r"train (\d+)", gstore("inspect", store))[1])
            print(f"{path}: {nodes} training nodes")
            decay = ["--weight-decay", f"{1 / nodes:.3g}"]
            dropout = [*decay, "--input-dropout", ".5"]
            for model in "sage", "gcn", "gat":
                for what, flags in {"default": [], "decay 1/N": decay, "and input dropout": dropout, "and patience": [*dropout, "--patience", "100"]}.items():
                    out = gstore("train", store, "--model", model, "--seeds", "5", *flags)
                    mean, deviation = re.search(r"^mean +([\d.]+)", out, re.M)[1], re.search(r"sd +([\d.]+)", out)[1]
                    print(f"  {model:5} {what:18} {mean} ± {deviation}")


if __name__ == "__main__":
    main()
