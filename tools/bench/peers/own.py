"""gstore's contenders: its command line, and the Python package's loader alone."""
import os, pathlib, shutil

import measure
from measure import contender, endless, set_threads


@contender("gstore", "ingest", "ingest-csv")
class Ingest:
    """`gstore ingest` of a folder, the whole command."""

    def __init__(self, c):
        self.c, self.out = c, pathlib.Path(c["scratch"]) / "ingested.gstore"

    def run(self, threads):
        shutil.rmtree(self.out, ignore_errors=True)
        r = measure.command(self.c["binary"], "ingest", self.c["input"], self.out, "--threads", threads, "--partitioner", "random", *self.c.get("options", []),
                            "--json", "--quiet")  # fmt: skip
        shutil.rmtree(self.out)
        return {"cpu": r["cpu"], "wall": r["wall"], "units": 1}


class Events:
    """A gstore command that is stopped after each event; one process a number of threads."""

    def __init__(self, c):
        self.c, self.processes = c, {}

    def next(self, threads, whole=False):
        if threads not in self.processes:
            self.processes[threads] = self.start(threads)
            self.processes[threads].next()  # reads the store, and warms up
        return self.processes[threads].next(whole)

    def close(self):
        for p in self.processes.values():
            p.kill()


@contender("gstore", "sample")
class Sample(Events):
    """`gstore-lab bench sample STORE`, a round a turn."""

    options, units = (), "sampled_edges"

    def start(self, threads):
        return measure.Stopped("round", self.c["binary"], "bench", "sample", self.c["store"], "--fanouts", self.c["fanouts"], "--threads", threads,
                               "--batches", 10 * self.c["batches"], "--rounds", 1000, "--json", *self.options)  # fmt: skip

    def run(self, threads):
        r = self.next(threads, whole=True)
        return {"cpu": r["cpu_seconds"], "wall": r["seconds"], "units": r[self.units]}

    def work(self, threads):
        r = self.next(threads, whole=True)
        return {"batch_edges": r["sampled_edges"] / r["batches"], "batch_inputs": r["inputs"] / r["batches"]}


@contender("gstore in Go", "loader-go")
class GoLoader(Sample):
    """The same with the batches' rows, as the Python package's loader gathers them."""

    options, units = ("--rows",), "batches"


@contender("gstore", "step", "debdeps", "out-of-core")
class Train(Events):
    """`gstore train`, an epoch a turn; the validation after the last of "epochs" is not counted."""

    def start(self, threads):
        layers = len(self.c["fanouts"].split(","))
        own = pathlib.Path(self.c["scratch"]) / f"train-{os.getpid()}-{threads}"  # several runs of a store at once, which none resumes
        return measure.Stopped("epoch", self.c["binary"], "train", self.c["store"], "--layers", layers, "--fanouts", self.c["fanouts"], "--threads", threads,
                               "--epochs", self.c.get("epochs", 1000), "--eval-every", self.c.get("epochs", 1000), "--checkpoint-every", 0, "--save", f"{own}.model",
                               "--checkpoint-file", f"{own}.checkpoint", "--json", *self.c.get("options", ["--plan", "memory"]))  # fmt: skip

    def next(self, threads):
        if self.c.get("epochs") and threads not in self.processes:
            self.processes[threads] = self.start(threads)  # every epoch counts for what is learned: none is to warm up
        return super().next(threads)

    def run(self, threads):
        r = self.next(threads)
        cpu, wall = r["cpu"], r["wall"]
        if r["valid_accuracy"] >= 0:
            cpu, wall = cpu * (1 - r["valid_seconds"] / wall), wall - r["valid_seconds"]
        return {"cpu": cpu, "wall": wall, "units": 1 if self.c.get("epochs") else r["batches"], "bytes_read": r["bytes_read"]}

    def work(self, threads):
        if self.c.get("epochs"):
            return {}  # every epoch is measured
        r = self.next(threads)
        return {"batch_edges": r["sampled_edges"] / r["batches"]}

    def evaluate(self, threads):
        last = self.processes[threads].end()
        return {"valid": last["valid_accuracy"], "test": last["test_accuracy"]}


@contender("gstore", "loader", "loader-go")
class Loader:
    """gstore.NeighborLoader in memory, with PyG's Data objects; a layer a hop in "layers", as training in Go samples."""

    def __init__(self, c):
        import gstore

        self.c, self.store, self.loaders = c, gstore.open(c["store"]), {}

    def iterate(self, threads):
        import gstore

        if threads not in self.loaders:
            self.loaders = {}
            fanouts = [int(f) for f in self.c["fanouts"].split(",")]
            loader = gstore.NeighborLoader(self.store, fanouts, 1000, seed=1, threads=threads, plan="memory", layers=self.c.get("layers", False))
            self.loaders[threads] = endless(loader)
        return (batch.to_pyg() for batch in self.loaders[threads])

    def run(self, threads):
        set_threads(threads)
        return measure.loop((1 for _ in self.iterate(threads)), self.c["batches"], warm=8)

    def work(self, threads):
        set_threads(threads)
        return measure.work((d.edge_index.shape[1], d.num_nodes) for d in self.iterate(threads))
