"""The graphs that the rows are measured on, made once in a folder and kept: as stores, and as the arrays that peers read."""
import json, mmap, os, pathlib, shutil, subprocess

import numpy as np


def gstore(binary, *args):
    subprocess.run([binary, *map(str, args), "--quiet"], check=True)


def once(path, make):
    """Calls make(unfinished path) unless path is there from an earlier run."""
    path = pathlib.Path(path)
    if not path.exists():
        part = path.with_name(path.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        make(part)
        part.rename(path)
    return path


def csc(folder):
    """indptr and indices (int64, sources by destination) beside a folder's edge_index.npy."""

    def make(part):
        part.mkdir()
        src, dst = np.load(folder / "edge_index.npy", mmap_mode="r")
        nodes = json.loads((folder / "meta.json").read_text()).get("nodes") or len(np.load(folder / "node_label.npy", mmap_mode="r"))
        order = np.argsort(dst, kind="stable")
        np.save(part / "indices.npy", src[order])
        np.save(part / "indptr.npy", np.concatenate([[0], np.bincount(dst, minlength=nodes).cumsum()]))

    return once(folder / "csc", make)


class Graph:
    """A folder of numpy arrays as `gstore generate` makes it, and the store of it."""

    def __init__(self, binary, folder, store_options=()):
        self.binary, self.folder, self.store_options = binary, pathlib.Path(folder), store_options

    def arrays(self):
        csc(self.folder)
        return str(self.folder)

    def store(self):
        path = self.folder.with_suffix(".gstore")
        return str(once(path, lambda part: gstore(self.binary, "ingest", self.folder, part, "--partitioner", "random", *self.store_options)))


class Arrays:
    """A folder's arrays, read into memory unless they are asked for as they lie on disk."""

    def __init__(self, folder, mapped=False):
        self.folder = pathlib.Path(folder)
        self.indptr, self.indices = np.load(self.folder / "csc/indptr.npy"), np.load(self.folder / "csc/indices.npy")
        self.nodes = len(self.indptr) - 1
        self.splits = {part: np.load(self.folder / f"split/{part}.npy").astype(np.int64) for part in ("train", "valid", "test")}
        self.mapped = mapped

    def features(self):
        if not self.mapped:
            return np.load(self.folder / "node_feat.npy")
        rows = np.load(self.folder / "node_feat.npy", mmap_mode="c")
        rows._mmap.madvise(mmap.MADV_RANDOM)  # else a row brings 128 KiB around it
        return rows

    def labels(self):
        return np.load(self.folder / "node_label.npy").astype(np.int64)

    def edge_index(self):
        """int64 [2, edges]: sources and destinations, by destination. It is all that is held of the edges, but where memory is plenty."""
        edges = np.empty((2, len(self.indices)), np.int64)
        edges[0] = self.indices
        if self.mapped:
            self.indices = None
        edges[1] = np.repeat(np.arange(self.nodes), np.diff(self.indptr))
        return edges


def rmat(binary, top, nodes, edges, features):
    folder = once(top / f"rmat-{nodes}-{edges}-{features}", lambda part: gstore(
        binary, "generate", "rmat", part, "--nodes", nodes, "--edges", edges, "--features", features, "--classes", 16,
        "--train", 0.015, "--valid", 0.0005, "--test", 0.0005, "--seed", 1))  # fmt: skip
    return Graph(binary, folder)


def sbm(binary, top, nodes, edges, features):
    """Communities with an hundredth of the nodes to train on; features as many times the memory as the row says."""
    folder = once(top / f"sbm-{nodes}-{edges}-{features}", lambda part: gstore(
        binary, "generate", "sbm", part, "--nodes", nodes, "--edges", edges, "--features", features,
        "--train", 0.01, "--valid", 0.001, "--test", 0.001, "--seed", 1))  # fmt: skip
    return Graph(binary, folder, ("--partitions", 128))


def debdeps(binary, top, source):
    """The data set with each edge in both directions, once: what `gstore ingest --undirected` stores."""
    source = pathlib.Path(source)

    def make(part):
        part.mkdir()
        src, dst = np.load(source / "edge_index.npy")
        nodes = len(np.load(source / "node_label.npy"))
        keys = np.unique(np.concatenate([src * nodes + dst, dst * nodes + src]))
        np.save(part / "edge_index.npy", np.stack([keys // nodes, keys % nodes]))
        for name in ("node_feat.npy", "node_label.npy"):
            shutil.copy(source / name, part)
        shutil.copytree(source / "split", part / "split")
        (part / "meta.json").write_text(json.dumps({"nodes": nodes}))

    return Graph(binary, once(top / source.name, make))


def edges_csv(binary, top, nodes, edges):
    """GraphBolt's on-disk data set of the R-MAT graph: edges as csv without a header, seeds as numpy."""

    def make(part):
        gstore(binary, "generate", "rmat", part, "--nodes", nodes, "--edges", edges, "--features", 0, "--classes", 16, "--format", "tsv", "--seed", 1)
        with open(part / "edges.csv", "wb") as out:
            subprocess.run(["tr", "\\t", ","], stdin=open(part / "edges.tsv", "rb"), stdout=out, check=True)
        os.remove(part / "edges.tsv")
        np.save(part / "labels.npy", np.zeros(1000, np.int64))
        sets = ""
        for k, name in enumerate(("train_set", "validation_set", "test_set")):
            np.save(part / f"{name}.npy", np.arange(1000 * k, 1000 * (k + 1)))
            sets += (f"\n    {name}:\n      - data:\n          - {{format: numpy, in_memory: true, path: {name}.npy, name: seed_nodes}}\n"
                     f"          - {{format: numpy, in_memory: true, path: labels.npy, name: labels}}")  # fmt: skip
        (part / "metadata.yaml").write_text(f"dataset_name: rmat\ngraph:\n  nodes:\n    - num: {nodes}\n  edges:\n    - format: csv\n      path: edges.csv\n"
                                            f"tasks:\n  - name: nodes\n    num_classes: 16{sets}\n")  # fmt: skip

    return once(top / f"csv-{nodes}-{edges}", make)
