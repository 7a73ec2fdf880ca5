"""Stores: open one and look."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _lib, errors, sizes

Nodes = Any  #: node ids: a list, an array or a tensor of integers
_SPLITS = ("", "train", "valid", "test")
TYPES = "node_type"  #: the column of types of nodes, counted from 1
_CHUNK = 1 << 20  # rows of a column at a time
PARTS = {"val": "valid", "validation": "valid"}  #: other names of a split's parts


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of nodes or edges. `dtype` is what its rows are read as, `stored` what they are on disk."""

    name: str
    role: str
    dtype: np.dtype
    stored: str
    dim: int
    derived: str = ""
    mean: Tuple[float, ...] = ()  #: of a feature that the store standardised: rows are (value − mean) / deviation
    deviation: Tuple[float, ...] = ()
    node_type: str = ""  #: whose nodes have rows, which are zero for others; "" of all


class Neighbors(NamedTuple):
    """Neighbours of a list of nodes: those of node i are `nodes[indptr[i]:indptr[i + 1]]`, ascending."""

    indptr: np.ndarray  #: int64 [n + 1]
    nodes: np.ndarray  #: int64, internal ids
    relations: Optional[np.ndarray]  #: uint32, parallel to nodes; None if not asked for or there are none


def open(
    path: Union[str, os.PathLike], version: Optional[int] = None, *, cache_dir: Union[None, str, os.PathLike] = None, cache_size: Union[None, int, str] = None
) -> "Store":
    """Opens the store in directory `path`; the newest version, or the one of that number.

    `path` may be an address (`gstore.push` says which there are). Then the store is one in a folder of the address below `cache_dir`
    (default: the environment's GSTORE_CACHE_DIR, or gstore/stores in the user's folder for caches), which is first brought to the newest
    snapshot, unless another program uses it. Of columns, edges and ids it reads what is needed when it is needed, and keeps at most
    `cache_size` of that ("50GiB"; default: half of what the disk has room for).
    """
    return Store(path, version, cache_dir=cache_dir, cache_size=cache_size)


def opened(store: Union["Store", str, os.PathLike]) -> "Store":
    """The store, or the one in a directory."""
    return store if isinstance(store, Store) else open(store)


class Store:
    """One committed version of a store, open for reading by any number of threads. Made by `gstore.open`.

    Nodes are internal ids, 0 … `nodes` − 1, everywhere but in `lookup` and `external`, which go from and to the ids of
    the data. Arrays that are returned are the caller's own.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike],
        version: Optional[int] = None,
        *,
        cache_dir: Union[None, str, os.PathLike] = None,
        cache_size: Union[None, int, str] = None,
    ):
        home = os.environ.get("GSTORE_CACHE_DIR", "") if cache_dir is None else os.fspath(cache_dir)
        request = {"path": os.fspath(path), "version": version or 0, "cache_dir": home, "cache_bytes": sizes.parse(cache_size)}
        answer = _lib.call(0, "open", request)
        self._handle = answer.handle
        self._drop = weakref.finalize(self, _lib.drop, answer.handle)
        self._drop.atexit = False  # what is left then ends with the process
        self._users: "weakref.WeakSet[Any]" = weakref.WeakSet()  # loaders that read through it
        about = answer.value
        self.path: str = about["path"]  #: its folder
        self._labelled: Optional[List[str]] = None
        self.version: int = about["version"]
        self.created: str = about["created"]
        self.note: str = about["note"]
        self.nodes: int = about["nodes"]
        self.edges: int = about["edges"]
        self.partitions: int = about["partitions"]
        self.bytes: int = about["bytes"]
        self.ids: str = about["ids"]
        self.schema: Dict[str, Any] = about["schema"]
        self.undirected: bool = bool(self.schema.get("undirected"))
        self.task: str = self.schema.get("task", "")
        self.classes: int = self.schema.get("classes", 0)
        self.class_names: List[str] = self.schema.get("class_names") or []
        self.relations: List[str] = [r["name"] for r in self.schema["relations"]]
        self.node_types: Dict[str, int] = {t["name"]: t.get("count", 0) for t in self.schema["node_types"]}  #: how many nodes are of each type
        self.columns: Dict[str, Column] = {
            c["name"]: Column(c["name"], c["role"], np.dtype(c["dtype"]), c["stored"], c["dim"], c.get("derived", ""), tuple(c.get("mean", ())), tuple(c.get("deviation", ())), c.get("node_type", ""))
            for c in about["columns"] or []
        }

    def __repr__(self) -> str:
        return f"<gstore.Store {self.path!r} version {self.version}: {self.nodes} nodes, {self.edges} edges, {self.partitions} partitions>"

    def close(self) -> None:
        """Closes the store and the loaders made of it. A second call does nothing."""
        for user in list(self._users):
            user.close()
        self._drop()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Tuple[Any, ...]:
        return Store, (self.path, self.version)  # another process opens it again

    @property
    def typed(self) -> bool:
        """Whether nodes are of several types."""
        return len(self.node_types) > 1

    @property
    def edge_types(self) -> List[Tuple[str, str, str]]:
        """Types of edges as PyG has them, relation by relation: (source's type, name, destination's type). A relation's name says it,
        with ":" or "__" between the three; of others the types of nodes are "" where there are several."""
        return [edge_type(name, list(self.node_types)) for name in self.relations]

    def type_range(self, name: str) -> Tuple[int, int]:
        """Of a store whose ids are numbers, type after type: the first of a type, and how many nodes it has."""
        if name not in self.node_types:
            raise errors.NotFoundError(f"{self.path}: no node type {name!r}; there are {list(self.node_types)}")
        first = 0
        for other, count in self.node_types.items():
            if other == name:
                return first, count
            first += count
        return first, 0

    @property
    def types(self) -> np.ndarray:
        """int64 [nodes]: of each node which of `node_types` it is of, by place."""
        return self._types_of(None)

    def _types_of(self, nodes: Optional[Nodes]) -> np.ndarray:
        """`types` of nodes."""
        if not self.typed:
            return np.zeros(self.nodes if nodes is None else len(nodes), np.int64)
        if TYPES in self.columns:
            return self.features(TYPES, nodes).astype(np.int64) - 1
        if self.ids != "dense":
            raise errors.NotFoundError(f"{self.path}: the store does not say of which type each node is: ingest it anew")
        ends = np.cumsum(list(self.node_types.values()))
        return np.searchsorted(ends, self.external(np.arange(self.nodes) if nodes is None else nodes).astype(np.int64), side="right")

    def _labelled_types(self) -> List[str]:
        """The types that have nodes with a label."""
        if self._labelled is None:
            column = next((c.name for c in self.columns.values() if c.role == "label"), None)
            found = np.zeros(len(self.node_types), np.int64)
            for first in range(0, self.nodes if column else 0, _CHUNK):
                nodes = np.arange(first, min(first + _CHUNK, self.nodes))
                labels = self.features(str(column), nodes)
                labels = labels.reshape(len(nodes), -1)[:, 0]
                with_label = nodes[~np.isnan(labels) if labels.dtype.kind == "f" else labels >= 0]
                found += np.bincount(self._types_of(with_label), minlength=len(found))
            self._labelled = [t for t, n in zip(self.node_types, found) if n]
        return self._labelled

    @property
    def feature_names(self) -> List[str]:
        """Names of the feature columns."""
        return [c.name for c in self.columns.values() if c.role == "feature"]

    @property
    def of_kinds(self) -> bool:
        """Whether edges have relations, which a column says; else they are of one kind, which is named in `relations` too."""
        return any(c.role == "relation" for c in self.columns.values())

    def _column(self, name: str) -> Column:
        if name not in self.columns:
            raise errors.NotFoundError(f"{self.path}: no column {name!r}; there are {sorted(self.columns)}")
        return self.columns[name]

    def _whole(self, name: str) -> np.ndarray:
        c = self._column(name)
        rows = np.empty((self.nodes, c.dim) if c.dim > 1 else (self.nodes,), c.dtype)
        _lib.call(self._handle, "column", {"column": name}, [rows])
        return rows

    @property
    def labels(self) -> np.ndarray:
        """The class of every node, int32 [nodes], −1 = none; of labels that are numbers float32 [nodes], NaN = none; of nodes
        with several labels float32 [nodes, labels] of 0 and 1, NaN = not known."""
        for c in self.columns.values():
            if c.role == "label":
                return self._whole(c.name)
        raise errors.NotFoundError(f"{self.path}: no labels")

    @property
    def several_labels(self) -> bool:
        """Whether a node may have several labels."""
        return any(c.role == "label" and c.dim > 1 for c in self.columns.values())

    @property
    def splits(self) -> Dict[str, np.ndarray]:
        """The nodes of each part of the first split: "train", "valid", "test" to int64 ids."""
        return self.split()

    def split(self, name: Optional[str] = None) -> Dict[str, np.ndarray]:
        """The nodes of each part of a split column, the first by default."""
        for c in self.columns.values():
            if c.role == "split" and name in (None, c.name):
                values = self._whole(c.name)
                return {part: np.flatnonzero(values == k) for k, part in enumerate(_SPLITS) if k}
        raise errors.NotFoundError(f"{self.path}: no split {name or ''}")

    def features(self, name: str, nodes: Optional[Nodes] = None) -> np.ndarray:
        """Rows of a node column: [len(nodes), dim], or [len(nodes)] of one element; all nodes' by default.

        bfloat16 and int8 columns come as float32. Rows that lie near each other are read together.
        """
        if nodes is None:
            return self._whole(name)
        c, ids = self._column(name), _nodes(nodes)
        rows = np.empty((len(ids), c.dim) if c.dim > 1 else (len(ids),), c.dtype)
        _lib.call(self._handle, "features", {"column": name}, [ids, rows])
        return rows

    def write_column(
        self,
        name: str,
        rows: Any,
        *,
        feature: bool = True,
        dtype: str = "",
        normalize: bool = False,
        keep_versions: int = 2,
        mem: Union[None, int, str] = None,
        threads: int = 0,
        note: str = "",
    ) -> "Store":
        """Adds a column of nodes, such as what `gstore.infer` returned, as the store's next version, and opens that.

        rows is an array or a tensor [nodes] or [nodes, dim], row k of internal id k, as `features` returns them. With
        feature=False models do not read the column unless they are asked to. dtype is what features are stored as ("float32",
        "bfloat16", "float16", "int8"); normalize brings them to mean 0 and deviation 1. Nothing that is there is written again, and
        stores that are open stay on their version.
        """
        values = rows.detach().cpu().numpy() if hasattr(rows, "detach") else np.asanyarray(rows)
        if values.ndim not in (1, 2) or len(values) != self.nodes:
            raise errors.InvalidError(f"column {name!r}: shape {values.shape}, expected ({self.nodes},) or ({self.nodes}, dim)")
        if values.dtype.kind not in "fiub":
            raise errors.InvalidError(f"column {name!r}: {values.dtype}, expected numbers")
        folder = tempfile.mkdtemp(prefix=".gstore-column-", dir=os.path.dirname(os.path.abspath(self.path)))
        try:
            file = os.path.join(folder, "rows.npy")
            out = np.lib.format.open_memmap(file, mode="w+", dtype=values.dtype, shape=values.shape)
            for begin in range(0, self.nodes, _CHUNK):
                part = values[begin : begin + _CHUNK]
                if self.ids == "dense":  # row k of the file is of id k
                    out[self.external(np.arange(begin, begin + len(part)))] = part
                else:
                    out[begin : begin + len(part)] = part
            out.flush()
            del out
            request = {
                "path": self.path, "name": name, "file": file, "feature": feature, "dtype": dtype, "normalize": normalize,
                "keep_versions": keep_versions, "memory_bytes": sizes.parse(mem), "threads": threads, "note": note,
            }  # fmt: skip
            _lib.call(0, "add", request)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return open(self.path)

    def neighbors(self, nodes: Nodes, out: bool = False, relations: bool = False) -> Neighbors:
        """The sources of the edges into nodes, or with `out` the destinations of those from them."""
        a = _lib.call(self._handle, "neighbors", {"out": out, "relations": relations}, [_nodes(nodes)]).arrays
        found = np.frombuffer(a[2], np.uint32).copy() if len(a) > 2 else None
        return Neighbors(np.frombuffer(a[0], np.int64).copy(), np.frombuffer(a[1], np.int64).copy(), found)

    def walks(
        self, length: int = 80, per_node: int = 10, *, p: float = 1, q: float = 1, seed: int = 0, mem: Union[None, int, str] = None, threads: int = 0
    ) -> np.ndarray:
        """node2vec's random walks along edges: int64 [nodes × per_node, length] of nodes, −1 behind a dead end.

        From t by v to x an edge counts 1/p if x is t, 1 if t has an edge to x, and 1/q otherwise. Walks are those of `gstore walks`,
        which streams them to a file: every node's first, in the order of its own ids, then every node's second, and so on.
        mem bounds what gstore holds, which is all edges; the array is beside it.
        """
        if length < 1 or per_node < 1 or not (p > 0 and q > 0):
            raise errors.InvalidError(f"{per_node} walks of {length} nodes with p {p} and q {q}: expected positive numbers")
        found = np.empty((self.nodes * per_node, length), np.int64)
        request = {"length": length, "per_node": per_node, "p": p, "q": q, "seed": seed, "memory_bytes": sizes.parse(mem), "threads": threads}
        _lib.call(self._handle, "walks", request, [found])
        return found

    def lookup(self, ids: Union[Sequence[Any], np.ndarray]) -> np.ndarray:
        """Internal ids, int64, of the data's own ids (integers or strings); −1 where there is no such node."""
        if self.ids == "strings":
            text, ends = encode_texts(ids)
            nodes = np.empty(len(ends), np.int64)
            _lib.call(self._handle, "lookup", {}, [text, ends, nodes])
            return nodes
        external = np.ascontiguousarray(ids)
        if external.dtype.kind not in "iu" and external.size:
            raise errors.InvalidError(f"ids of {external.dtype}: those of {self.path} are integers")
        external = external.astype(np.uint64)
        nodes = np.empty(len(external), np.int64)
        _lib.call(self._handle, "lookup", {}, [external, nodes])
        return nodes

    def external(self, nodes: Nodes) -> np.ndarray:
        """The data's own ids of nodes: uint64, or an array of str."""
        ids = _nodes(nodes)
        if self.ids != "strings":
            external = np.empty(len(ids), np.uint64)
            _lib.call(self._handle, "external", {}, [ids, external])
            return external
        text, raw = _lib.call(self._handle, "external", {}, [ids]).arrays
        ends = np.frombuffer(raw, np.uint64).tolist()
        return np.array([text[a:b].decode("utf-8", "surrogateescape") for a, b in zip([0] + ends, ends)], dtype=object)


def edge_type(relation: str, node_types: List[str]) -> Tuple[str, str, str]:
    """A relation's name as PyG's type of edges."""
    for between in (":", "__"):
        for source in node_types:
            for destination in node_types:
                head, tail = source + between, between + destination
                if relation.startswith(head) and relation.endswith(tail) and len(relation) > len(head) + len(tail):
                    return source, relation[len(head) : -len(tail)], destination
    of = node_types[0] if len(node_types) == 1 else ""
    return of, relation, of


def encode_texts(texts: Union[Sequence[Any], np.ndarray]) -> "tuple[np.ndarray, np.ndarray]":
    """Strings end to end in UTF-8, and where each ends."""
    raw = [t if isinstance(t, bytes) else str(t).encode("utf-8", "surrogateescape") for t in texts]
    ends = np.cumsum([len(r) for r in raw], dtype=np.uint64) if raw else np.empty(0, np.uint64)
    return np.frombuffer(b"".join(raw), np.uint8), ends


def _nodes(nodes: Nodes) -> np.ndarray:
    """Node ids as the library takes them."""
    if hasattr(nodes, "detach"):  # a torch tensor
        nodes = nodes.detach().cpu().numpy()
    ids = np.asarray(nodes)
    if ids.ndim != 1 or ids.size and ids.dtype.kind not in "iu":
        raise errors.InvalidError(f"nodes of {ids.dtype} and shape {ids.shape}: expected a list of integers")
    if ids.size and ids.dtype.kind == "i" and int(ids.min()) < 0:
        raise errors.NotFoundError(f"node {int(ids.min())}: expected internal ids, 0 or more; lookup gives −1 for ids that no node has")
    return np.ascontiguousarray(ids, np.int64)
