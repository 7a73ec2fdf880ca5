"""What it gives that training waits for the validation loss too, and what it takes.

    python3 tools/accuracy/stops.py GSTORE STORE ... [--seeds 3] [--first 0] [--flags "--model gat"]

Each store of nodes is trained with the default recipe. Of the same epochs the line of a store says what a run that waits
for the accuracy alone would have taken, where it would have ended, and what the run did. Accuracies are those of the
test, means over seeds; seconds are those of epochs and validations. The figures are those of docs/lab/findings.md,
"When training stops".
"""

import argparse
import json
import shlex
import statistics
import subprocess


def train(gstore, store, seed, flags):
    run = [gstore, "train", store, "--seed", str(seed), "--baselines=false", "--json", *flags]
    events = [json.loads(line) for line in subprocess.run(run, check=True, capture_output=True, text=True).stdout.splitlines()]
    return [e for e in events if e["event"] == "epoch"], events[-1]


def accuracy_alone(epochs, patience):
    """The best epoch's index by accuracy, and how many epochs a run has that waits for nothing else."""
    best = None
    for i, e in enumerate(epochs):
        if "valid_accuracy" not in e:
            continue
        if best is None or e["valid_accuracy"] > epochs[best]["valid_accuracy"]:
            best = i
        if i - best >= patience:
            return best, i + 1
    return best, len(epochs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gstore")
    parser.add_argument("stores", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--flags", default="")
    o = parser.parse_args()
    for store in o.stores:
        before, after = ([], [], []), ([], [], [])
        for seed in range(o.first, o.first + o.seeds):
            epochs, summary = train(o.gstore, store, seed, shlex.split(o.flags))
            seconds = [e["seconds"] + e.get("valid_seconds", 0) for e in epochs]
            patience = len(epochs) - max(summary["best_epoch"], summary["least_valid_loss_epoch"])
            best, ends = accuracy_alone(epochs, patience)
            for to, at, n in (before, best, ends), (after, summary["best_epoch"] - 1, len(epochs)):
                for values, x in zip(to, (100 * epochs[at]["test_accuracy"], n, sum(seconds[:n]))):
                    values.append(x)
        text = [f"{statistics.mean(a):.2f} ± {statistics.stdev(a):.2f}, {statistics.mean(n):.0f} epochs, {statistics.mean(s):.1f} s" for a, n, s in (before, after)]
        print(f"{store} {o.flags}: by accuracy alone {text[0]}; with the loss {text[1]}", flush=True)


if __name__ == "__main__":
    main()
