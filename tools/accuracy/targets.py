"""Scores of targets of rows, with and without an option that is on unasked.

    python3 tools/accuracy/targets.py past|counts|average GSTORE STORE TASK... [--seeds 3] [-- FLAG...]

past are earlier targets of the same entities, counts how many rows refer to each row, average the model's average over
steps. Each TASK is the folder of a training table, for past one whose manifest says timedelta, and is trained on a
copy of STORE with the default recipe and FLAGs. The models are those of the epochs that are best by validation.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile


def train(gstore, store, task, option, seed, flags):
    line = [gstore, "train", store, "--targets", task, "--x", option, "--seed", str(seed), "--json", *flags]
    run = subprocess.run(line, check=True, capture_output=True, text=True)
    (summary,) = (e for e in map(json.loads, run.stdout.splitlines()) if e.get("event") == "summary")
    return summary


def main():
    own, flags = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, flags = own[:at], own[at + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("option", choices=("past", "counts", "average"))
    parser.add_argument("gstore")
    parser.add_argument("store")
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    o = parser.parse_args(own)
    with tempfile.TemporaryDirectory() as folder:
        store = pathlib.Path(folder) / "copy.gstore"
        shutil.copytree(o.store, store)
        for task in o.tasks:
            for option in (f"{o.option}=no", f"{o.option}=yes"):
                runs = [train(o.gstore, store, task, option, seed, flags) for seed in range(o.seeds)]
                measure = next(m for m in ("mae", "roc_auc", "accuracy", "average_precision", "map_at_k") if m in runs[0]["test"])
                valid, test = ([run[part][measure] for run in runs] for part in ("valid", "test"))
                each = ", ".join(f"{x:.4f}" for x in test)
                print(f"{runs[0]['task']}, {option}: {measure} valid {statistics.mean(valid):.4f}, "
                      f"test {statistics.mean(test):.4f} ({each})", flush=True)


if __name__ == "__main__":
    main()
