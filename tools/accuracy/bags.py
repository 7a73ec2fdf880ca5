"""Test accuracy of bags of words in a table, standardised and as they are, by the number of words.

    python3 tools/accuracy/bags.py GSTORE EDGES NODES [--seeds 3] [--words 64,256,0]

EDGES is a CSV file of src,dst, NODES one of an id, columns of zeros and ones, and a label, all named in its first
line. For each number of words, the most frequent ones, 0 for all, the table is ingested with --normalize=none and
with --normalize=all, and trained with the default recipe.
"""

import argparse
import csv
import pathlib
import subprocess
import tempfile


def measure(gstore, edges, nodes, normalize, seeds, folder):
    store = folder / f"{normalize}.gstore"
    ingest = [gstore, "ingest", edges, store, "--nodes", nodes, "--undirected", f"--normalize={normalize}", "--quiet"]
    subprocess.run(ingest, check=True)
    run = subprocess.run([gstore, "train", store, "--seeds", str(seeds)], check=True, capture_output=True, text=True)
    last = {line.split("  ")[0].strip(): line.split() for line in run.stdout.splitlines()}
    return f"{last['mean'][1]} ± {last['± sd'][2]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gstore")
    parser.add_argument("edges")
    parser.add_argument("nodes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--words", default="0")
    o = parser.parse_args()
    with open(o.nodes, newline="") as f:
        header, *rows = csv.reader(f)
    counts = [sum(row[k] == "1" for row in rows) for k in range(1, len(header) - 1)]
    order = sorted(range(len(counts)), key=lambda k: -counts[k])
    for words in map(int, o.words.split(",")):
        keep = [k + 1 for k in (order[:words] if words else range(len(counts)))]
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            nodes = folder / "nodes.csv"
            with open(nodes, "w", newline="") as f:
                out = csv.writer(f)
                for row in [header, *rows]:
                    out.writerow([row[0], *(row[k] for k in keep), row[-1]])
            ones = sum(counts[k - 1] for k in keep) / len(keep) / len(rows)
            plain, standard = (measure(o.gstore, o.edges, nodes, n, o.seeds, folder) for n in ("none", "all"))
            print(f"{len(keep)} words, {100 * ones:.1f} % ones: as they are {plain}, standardised {standard}", flush=True)


if __name__ == "__main__":
    main()
