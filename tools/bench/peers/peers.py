#!/usr/bin/env python3
"""gstore beside PyG and GraphBolt, by turns: a Markdown table and, with --json, all that was measured.

usage: tools/bench/peers/run [--only ROW,…] [--dir DIR] [--rounds 3] [--threads 1,2] [--scale 1] [--quick] [--json FILE] [--datasets DIR]
       [--plans hanoi] [--matmul exact]

At the start of a row each contender says how many edges and input nodes its mini-batches have; where these are unequal a note says so.

Every contender of a row is a process of its own, which waits while another one works. In a round each takes its turn with
each number of threads. A figure is the median of the rounds, a ratio the median of the rounds' ratios, the other's seconds by
the one's: above 1 the one, which is gstore's, takes less. What a contender lacks is printed, and the rest goes on. Rows:

  ingest       30 M edges of a .npy file into a store; PyG's to_csc of them, in memory, and its arrays as files
  ingest-csv   30 M edges of GraphBolt's csv into a store; GraphBolt's OnDiskDataset
  sample       mini-batches of 1000 of the R-MAT graph, 15,10 and 15,10,5, edges alone
  loader       the same with rows of 128 float32 features, as PyTorch models take them
  loader-go    the same by gstore alone, from Python and in Go
  step         the same, and training of SAGE, hidden 128: 2 and 3 layers
  epoch        whole epochs of PyG's model, by gstore's loader and by PyG's
  debdeps      epochs of the data set and the test accuracy after the last (--datasets says where it lies)
  out-of-core  epochs of 2 layers, features four times the memory, each in a cgroup of that memory (takes root); PyG's model
               on gstore's loader by each plan, beside the same batches in memory and the disk alone (12 GB of memory)

--dir keeps graphs between runs (5 GB, and 22 GB for out-of-core); --scale .5 halves them. --quick is for tests of this script.
"""
import argparse, json, os, pathlib, platform, signal, statistics, subprocess, sys, tempfile, time

import data

HERE = pathlib.Path(__file__).resolve().parent
# As their users tune the peers: memory stays with the process (half of PyG's CPU time), and OpenMP's threads sleep rather than
# spin where others want the cores (spinning, GraphBolt's second thread took ten times the CPU time at a load of 30).
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "4000000000", "MALLOC_TOP_PAD_": "268435456", "OMP_WAIT_POLICY": "PASSIVE", "DGLBACKEND": "pytorch"}
ROWS = ("ingest", "ingest-csv", "sample", "loader", "loader-go", "step", "epoch", "debdeps", "out-of-core")
ON_GSTORE, HELD, DISK = "PyG on gstore's loader", "the same batches in memory", "the disk"
BASES = ("gstore in Go", "gstore", ON_GSTORE)  # what others are compared with, those that come before them here excepted
UNEQUAL = 1.1  # how far apart the edges and inputs of mini-batches may be that are compared
CGROUPS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))  # version 1 and 2


class Size:
    """What is measured: full, a share of the nodes, edges and memory, or quick for tests."""

    def __init__(self, quick, scale):
        def graph(nodes, edges, features):
            return int(nodes * scale), int(edges * scale), features

        self.rmat = (20_000, 300_000, 16) if quick else graph(2_000_000, 30_000_000, 128)
        self.sbm = (50_000, 400_000, 256) if quick else graph(4_000_000, 32_000_000, 512)
        # Python with PyTorch, and what a batch's layers take, is beside what gstore's loader holds.
        self.memory, self.beside = (1 << 30 if quick else int((2 << 30) * scale)), 512 << 20
        self.batches = {2: 2, 3: 1} if quick else {2: 10, 3: 5}
        self.loads = 3 if quick else 20
        self.epochs = 2 if quick else 10
        self.disk_batches = 1 if quick else 3


class Cgroup:
    """A memory control group, version 1 or 2, for processes that start through `enter`. What they read counts too, as cache."""

    def __init__(self, limit, tag="", roots=CGROUPS):
        tried = []
        for root, name in roots:
            self.path = pathlib.Path(root) / f"gstore-peers-{os.getpid()}{tag}"
            try:
                self.path.mkdir()
                (self.path / name).write_text(str(limit))
                return
            except OSError as e:
                tried.append(str(e))
                self.remove()
        raise RuntimeError(f"no memory cgroup can be made here, which takes root: {'; '.join(tried)}")

    def enter(self, command):
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.path / "cgroup.procs"), *command]

    def remove(self):
        """Ends what is left in it, such as a loader's workers when the kernel killed their parent, and waits until they are gone."""
        until = time.time() + 30
        while self.path.exists():
            try:
                for pid in (self.path / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
                self.path.rmdir()
            except OSError:
                if time.time() > until:
                    raise
                time.sleep(0.05)


class Contender:
    """A process of contenders.py."""

    def __init__(self, row, name, config, memory=0):
        self.name, self.group = name, None
        command = [sys.executable, str(HERE / "contenders.py"), row, name, json.dumps(config)]
        if memory:
            self.group = Cgroup(memory, "-" + "".join(filter(str.isalnum, name)))
            command = self.group.enter(command)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **TUNED})
        self.ready = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"missing": f"the process ended with {self.process.wait()}"}

    def ask(self, **request):
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        if self.group:
            self.group.remove()


class Bench:
    def __init__(self, a):
        self.a, self.size, self.top = a, Size(a.quick, a.scale), pathlib.Path(a.dir)
        self.results, self.notes, self.absent = [], {}, set()  # absent: rows' contenders that lack something
        self.top.mkdir(parents=True, exist_ok=True)

    def note(self, text):
        if text not in self.notes:
            self.notes[text] = True
            print("note:", text, file=sys.stderr, flush=True)

    def compare(self, row, variant, unit, names, config, rounds=0, threads=(), evaluate=False, memory=0, own=None, free=()):
        """Measures contenders by turns. memory: bytes of a cgroup of each one's own, but of those in free. own: what a contender's
        configuration has beside the others'."""
        rounds, threads = rounds or self.a.rounds, threads or self.a.threads
        running, samples, accuracy, notes = {}, {}, {}, {}
        config = {"binary": self.a.gstore, "scratch": str(self.top), "unit": unit, "evaluate": evaluate, **config}

        def turn(c, t):
            got = c.ask(threads=t, do="run")
            if "missing" in got:
                self.note(f"{row} {variant}, {c.name}, {t} threads: {got['missing']}")
                running.pop(c.name).close()
                return
            samples.setdefault((c.name, t), []).append(got)
            print(f"  {row} {variant} {c.name}, {t} threads: {got['cpu']:.2f} CPU s, {got['wall']:.2f} s for {got['units']}", file=sys.stderr, flush=True)

        try:
            for name in names:
                if (row, name) in self.absent:
                    continue
                c = running[name] = Contender(row, name, {**config, **(own or {}).get(name, {})}, 0 if name in free else memory)
                notes[name] = c.ready
                if "missing" in c.ready:
                    self.note(f"{row}: without {name}: {c.ready['missing']}")
                    self.absent.add((row, name))
                    running.pop(name).close()
            self.equal_work(f"{row} {variant}", running, threads[0], notes)
            for _ in range(rounds):
                for t in threads:
                    for c in list(running.values()):
                        turn(c, t)
            for name, c in running.items():
                if evaluate:
                    accuracy[name] = c.ask(threads=threads[0], do="evaluate")
        finally:
            for c in running.values():
                c.close()
        for t in threads:
            self.tabulate(row, variant, unit, t, samples, accuracy, notes)

    def equal_work(self, row, running, threads, notes):
        """Asks each contender how many edges and input nodes its mini-batches have, prints it, and says whose have others than the first's."""
        found = {name: c.ask(threads=threads, do="work") for name, c in running.items()}
        for name, work in found.items():
            if "missing" in work:
                self.note(f"{row}, {name}: {work['missing']}")
                running.pop(name).close()
                continue
            notes[name] = {**notes[name], **work}
            if work:
                print(f"  {row} {name}: a mini-batch has", ", ".join(f"{n:.0f} {k[6:]}" for k, n in work.items()), file=sys.stderr, flush=True)
        for k in ("batch_edges", "batch_inputs"):
            have = {name: work[k] for name, work in found.items() if k in work}
            for name, n in have.items():
                base, first = next(iter(have.items()))
                if not 1 / UNEQUAL < n / first < UNEQUAL:
                    self.note(f"{row}: unequal work: mini-batches of {name} have {n:.0f} {k[6:]}, those of {base} {first:.0f}")

    def tabulate(self, row, variant, unit, t, samples, accuracy, notes):
        per = {n: {k: [s[k] / s["units"] for s in got] for k in ("cpu", "wall")} for (n, at), got in samples.items() if at == t}
        for name, found in per.items():
            bases = [] if name == DISK else [b for b in BASES[: BASES.index(name) if name in BASES else len(BASES)] if b in per]
            ratios = {b: {k: statistics.median(p / g for p, g in zip(found[k], per[b][k])) for k in ("cpu", "wall")} for b in bases}
            self.results.append(
                {"row": row, "variant": variant, "unit": unit, "threads": t, "name": name, "cpu": statistics.median(found["cpu"]), "wall": statistics.median(found["wall"]),
                 "rounds": len(found["cpu"]), "samples": samples[name, t], "accuracy": accuracy.get(name), "ratios": ratios, **notes[name]})  # fmt: skip

    # rows

    def ingest(self):
        g = data.rmat(self.a.gstore, self.top, *self.size.rmat)
        only = data.once(self.top / (g.folder.name + "-edges"), lambda part: edges_alone(g, part))
        self.compare("ingest", "npy", "run", ["gstore", "PyG", "PyG, saved"],
                     {"input": str(only), "nodes": self.size.rmat[0], "options": ["--format", "numpy", "--num-nodes", self.size.rmat[0]]})  # fmt: skip

    def ingest_csv(self):
        folder = data.edges_csv(self.a.gstore, self.top, *self.size.rmat[:2])
        self.compare("ingest-csv", "csv", "run", ["gstore", "GraphBolt"], {"input": str(folder)})

    def by_fanouts(self, row, unit, names, **config):
        g = data.rmat(self.a.gstore, self.top, *self.size.rmat)
        for fanouts in ("15,10", "15,10,5"):
            self.compare(row, fanouts, unit, names, {"fanouts": fanouts, "arrays": g.arrays(), "store": g.store(), "batches": self.size.loads, **config})

    def sample(self):
        self.by_fanouts("sample", "edge", ["gstore", "PyG", "GraphBolt"], features=False, no_model=True)

    def loader(self):
        self.by_fanouts("loader", "batch", ["gstore", "PyG", "GraphBolt"], no_model=True)

    def loader_go(self):
        self.by_fanouts("loader-go", "batch", ["gstore in Go", "gstore"], layers=True)

    def step(self):
        g = data.rmat(self.a.gstore, self.top, *self.size.rmat)
        for layers, fanouts in ((2, "15,10"), (3, "15,10,5")):
            self.compare("step", f"{layers} layers", "batch", ["gstore", ON_GSTORE, "PyG", "GraphBolt"],
                         {"fanouts": fanouts, "arrays": g.arrays(), "store": g.store(), "batches": self.size.batches[layers],
                          "options": ["--plan", "memory", "--matmul", self.a.matmul]})  # fmt: skip

    def epoch(self):
        self.by_fanouts("epoch", "epoch", [ON_GSTORE, "PyG"], epochs=1, warm_epochs=1)  # opening the graph is not the epoch

    def debdeps(self):
        source = pathlib.Path(self.a.datasets) / "debdeps"
        if not source.exists():
            self.note(f"debdeps: {source} is not there; --datasets names the folder of data sets")
            return
        g = data.debdeps(self.a.gstore, self.top, source)
        for layers, fanouts in ((2, "15,10"), (3, "15,10,5")):
            self.compare("debdeps", f"{layers} layers, {self.size.epochs} epochs", "epoch", ["gstore", ON_GSTORE, "PyG", "GraphBolt"],
                         {"fanouts": fanouts, "arrays": g.arrays(), "store": g.store(), "epochs": self.size.epochs},
                         rounds=self.size.epochs, threads=self.a.threads[:1], evaluate=True)  # fmt: skip

    def out_of_core(self):
        g = data.sbm(self.a.gstore, self.top, *self.size.sbm)
        arrays, store, memory = g.arrays(), g.store(), self.size.memory
        try:
            Cgroup(memory).remove()
        except RuntimeError as e:
            self.note(f"out-of-core: {e}")
            return
        config = {"fanouts": "15,10", "arrays": arrays, "store": store, "mapped": True, "batches": self.size.disk_batches, "warm": 1}
        peers = ["PyG", "GraphBolt"]
        for plan in self.a.plans.split(","):
            epoch = {"epochs": 1, "warm_epochs": 1, "loader": {"plan": plan, "mem": memory - self.size.beside}}
            trains = {"options": ["--plan", plan, "--absent", "ignore", "--mem", str(memory - (64 << 20))]}
            forget(arrays, store)
            self.compare("out-of-core", plan, "batch", ["gstore", ON_GSTORE, HELD, DISK, *peers], config, threads=self.a.threads[-1:], memory=memory,
                         own={"gstore": trains, ON_GSTORE: epoch, HELD: epoch}, free=(HELD, DISK))  # fmt: skip
            self.of_larger(plan)
            peers = []  # they have no plans

    def of_larger(self, plan):
        """How much longer an epoch out of core takes than the larger of its batches in memory and its bytes by the disk."""
        found = {r["name"]: r for r in self.results if r["row"] == "out-of-core" and r["variant"] == plan}
        if not {ON_GSTORE, HELD, DISK} <= set(found):
            return
        ran = found[ON_GSTORE]
        batches, moved = (statistics.median(f(s) for s in ran["samples"]) for f in (lambda s: s["units"], lambda s: (s["bytes_read"] + s["bytes_written"]) / 1e9))
        wall, model, io = ran["wall"] * batches, found[HELD]["wall"] * batches, moved * found[DISK]["wall"]
        ran["of_larger"] = wall / max(model, io)
        self.note(f"out-of-core {plan}: an epoch of {batches:.0f} batches takes {wall:.1f} s; in memory they take {model:.1f} s, its {moved:.1f} GB take the disk "
                  f"alone {io:.1f} s ({1 / found[DISK]['wall']:.2f} GB/s): {ran['of_larger']:.2f} of the larger")  # fmt: skip

    def table(self):
        """Markdown: a line for each peer of each base, number of threads and variant."""
        lines = ["| row | threads | one | other | one, CPU / wall | other, CPU / wall | ratio, CPU / wall | test accuracy: one, other |",
                 "|---|---:|---|---|---:|---:|---:|---:|"]  # fmt: skip
        for one in self.results:
            peers = [(r, r["ratios"][one["name"]]) for r in self.results if same(one, r) and one["name"] in r["ratios"]]
            if not peers and not one["ratios"]:
                lines.append(f"| {one['row']} {one['variant']} | {one['threads']} | {one['name']} | | {amount(one)} | | | |")
            for r, ratio in peers:
                tests = ", ".join(f"{100 * x['accuracy']['test']:.2f} %" for x in (one, r) if x.get("accuracy") and "test" in x["accuracy"])
                name = r["name"] + (f" ({r['note']})" if r.get("note") else "")
                lines.append(f"| {r['row']} {r['variant']} | {r['threads']} | {one['name']} | {name} | {amount(one)} | {amount(r)} | "
                             f"{ratio['cpu']:.2f} / {ratio['wall']:.2f} | {tests} |")  # fmt: skip
        return "\n".join(lines)


def same(a, b):
    return all(a[k] == b[k] for k in ("row", "variant", "threads"))


def amount(r):
    """Seconds as people read them: rates of edges and of loaded batches, milliseconds of steps, seconds of the rest."""
    if r["unit"] == "edge":
        return f"{1e-6 / r['cpu']:.1f} / {1e-6 / r['wall']:.1f} M edges/s"
    if r["row"].startswith("loader"):
        return f"{1 / r['cpu']:.1f} / {1 / r['wall']:.1f} batches/s"
    if r["name"] == DISK:
        return f"{r['cpu']:.2f} / {r['wall']:.2f} s a GB"
    if r["unit"] == "batch":
        return f"{1000 * r['cpu']:.0f} / {1000 * r['wall']:.0f} ms"
    return f"{r['cpu']:.2f} / {r['wall']:.2f} s"


def edges_alone(g, part):
    part.mkdir()
    os.link(g.folder / "edge_index.npy", part / "edge_index.npy")


def forget(*folders):
    """Drops files from the page cache, which belongs to whom read them first and would be memory beside the limit."""
    os.sync()
    for folder in folders:
        for path in pathlib.Path(folder).rglob("*"):
            if path.is_file():
                fd = os.open(path, os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    return {"date": time.strftime("%Y-%m-%d"), "processor": model, "cores": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()[0],
            "python": platform.python_version()}  # fmt: skip


def main(argv=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gstore", default="gstore", help="the program (run builds it)")
    p.add_argument("--only", default=",".join(ROWS), help="rows, separated by commas")
    p.add_argument("--dir", default="", help="where graphs are kept (default: a temporary folder)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", default="1,2")
    p.add_argument("--quick", action="store_true", help="small graphs and few batches: a test of this script, not a measurement")
    p.add_argument("--scale", type=float, default=1, help="share of the graphs' nodes and edges, and of the memory out of core")
    p.add_argument("--json", default="", help="write everything that was measured to this file")
    p.add_argument("--plans", default="hanoi", help="of out-of-core: hanoi,rows is both; by rows PyTorch exceeds the memory")
    p.add_argument("--matmul", default="exact", help="of step: gstore's --matmul, exact or bf16")
    p.add_argument("--datasets", default=str(HERE.parents[3] / "shared/datasets"))
    a = p.parse_args(argv)
    rows = a.only.split(",")
    if unknown := set(rows) - set(ROWS):
        p.error(f"--only {','.join(sorted(unknown))}: rows are {', '.join(ROWS)}")
    a.threads = [int(t) for t in a.threads.split(",")]
    with tempfile.TemporaryDirectory(prefix="gstore-peers-") as scratch:
        a.dir = a.dir or scratch
        bench = Bench(a)
        before = machine()
        try:
            for row in rows:
                getattr(bench, row.replace("-", "_"))()
        except KeyboardInterrupt:
            bench.note("interrupted: the rows so far")
        now = machine()
    used = {k: v for r in bench.results for k, v in r.get("versions", {}).items()}
    print(f"{now['date']}, {now['cores']} × {now['processor']}, load {before['load']:.0f} to {now['load']:.0f}; "
          + ", ".join(f"{k} {v}" for k, v in sorted(used.items())) + f"; medians of {a.rounds}\n")  # fmt: skip
    print(bench.table())
    for text in bench.notes:
        print(f"\nnote: {text}")
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps({"machine": now, "versions": used, "notes": list(bench.notes), "results": bench.results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
