"""Stores of graphs in memory."""

from __future__ import annotations

import logging
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _frames, _lib, _stream, errors, sizes
from .store import PARTS, Store, encode_texts
from .store import open as open_store

_Array = Any  # whatever numpy.asarray takes, torch tensors too


def ingest(
    path: Union[str, os.PathLike],
    edges: Union[_Array, str, os.PathLike],
    *,
    format: str = "",
    schema: Union[None, str, os.PathLike] = None,
    dangling: str = "",
    features: Optional[Mapping[Any, _Array]] = None,
    node_columns: Optional[Mapping[Any, _Array]] = None,
    labels: Optional[_Array] = None,
    splits: Optional[Mapping[str, _Array]] = None,
    nodes: Any = None,
    num_nodes: int = 0,
    node_types: Optional[Mapping[str, int]] = None,
    ids: Optional[Sequence[Any]] = None,
    relations: Optional[_Array] = None,
    relation_names: Optional[Sequence[str]] = None,
    edge_columns: Optional[Mapping[str, _Array]] = None,
    class_names: Optional[Sequence[str]] = None,
    undirected: bool = False,
    partitions: int = 0,
    partitioner: str = "auto",
    hubs: Union[float, str] = 0.0,
    precompute_hops: int = 0,
    feature_dtype: str = "",
    split_random: str = "",
    dedup: str = "",
    self_loops: str = "",
    missing: str = "",
    normalize: str = "tables",
    mem: Union[None, int, str] = None,
    threads: int = 0,
    seed: int = 0,
    note: str = "",
) -> Store:
    """Makes a store in the new directory `path` of a graph in memory, or of files, and opens it.

    edges: [2, E] or [E, 2] node numbers or ids; or a table of pandas or pyarrow, whose first two columns, or "src" and "dst",
    are the ends, "relation" their relation and others edge columns.
    nodes: such a table with a row a node: "id" (or pandas' index) names it, "label" and "split" are what they say, all
    other numeric columns together are the feature "x", which gets mean 0 and deviation 1 unless normalize is "none".
    What comes in pieces need not fit memory: a pyarrow RecordBatchReader, dataset or scanner, or an iterator of record batches,
    tables, or of edges pairs of arrays, for edges and for nodes. It is written to a folder beside `path` first (as Parquet, which
    takes pyarrow), and read from there as files of `gstore ingest` are, within `mem`; columns mean what docs/formats.md says
    of tables. Everything of nodes is then in `nodes`.
    Or edges is the path of what `gstore ingest` reads (docs/formats.md): a folder or a file of any format, an SQLite file, or
    the address of a PostgreSQL database; format names the format where it is not seen, schema is a database's, dangling what
    becomes of its references to rows that are not there. All of nodes is then in the files.
    node_types: names to counts, of nodes whose types follow each other; num_nodes is their sum.
    features: name to [N, D] arrays, or (type, name) to rows of that type's nodes alone, which are column "type.name";
    node_columns: the same of what is kept beside them and is no feature; labels: [N], classes, −1 = none, or numbers with fractions, NaN = none; [N, K] of 0 and 1: any number of K labels a node, NaN = not known; splits: "train", "valid", "test" to node numbers, or boolean
    masks; ids: the nodes' own ids, integers or strings, by which edges name them then.

    The other options are those of `gstore ingest`; docs/formats.md has what they mean.
    """
    if isinstance(hubs, str) and hubs != "auto":
        raise errors.InvalidError(f"hubs {hubs!r}: expected a share of the nodes, or 'auto'")
    for name, named in (("features", features), ("node_columns", node_columns), ("splits", splits), ("edge_columns", edge_columns)):
        if named is not None and not isinstance(named, Mapping):
            raise errors.InvalidError(f"{name} of {type(named).__name__}: expected a dict of arrays by name")
    if node_types:
        total = sum(int(n) for n in node_types.values())
        if num_nodes not in (0, total):
            raise errors.InvalidError(f"num_nodes {num_nodes}: node_types count {total} nodes; leave num_nodes out")
        num_nodes = total
    options = {
        "path": os.fspath(path), "nodes": num_nodes,
        "node_types": [{"name": name, "count": int(n)} for name, n in (node_types or {}).items()], "input": "python", "undirected": undirected, "dedup": dedup,
        "self_loops": self_loops, "partitions": partitions, "partitioner": partitioner, "hubs_auto": hubs == "auto",
        "hubs": 0.0 if isinstance(hubs, str) else hubs, "precompute_hops": precompute_hops, "feature_dtype": feature_dtype,
        "split_random": split_random, "missing": missing, "normalize": normalize, "memory_bytes": sizes.parse(mem), "threads": threads, "seed": seed, "note": note,
    }  # fmt: skip
    given = {
        "features": features, "node_columns": node_columns, "labels": labels, "splits": splits, "ids": ids, "relations": relations, "edge_columns": edge_columns,
        "num_nodes": num_nodes or None, "node_types": node_types, "relation_names": relation_names, "class_names": class_names,
    }  # fmt: skip
    if isinstance(edges, (str, os.PathLike)):
        beside = ", ".join(k for k, v in {**given, "nodes": nodes}.items() if v is not None)
        if beside:
            raise errors.InvalidError(f"{beside} beside {os.fspath(edges)!r}, a path: expected all of the graph there, or arrays")
        return _made(path, {**options, **_file_options(edges, format, schema, dangling)}, [])
    if format or schema is not None or dangling:
        raise errors.InvalidError("format, schema and dangling are for files: expected the path of an input as edges")
    if _stream.is_stream(edges) or _stream.is_stream(nodes):
        beside = ", ".join(k for k, v in given.items() if v is not None)
        if beside:
            raise errors.InvalidError(f"{beside} beside edges or nodes in pieces: expected all of nodes in nodes=, all of edges in edges=")
        with _stream.spooled(path, edges=edges, nodes=nodes) as spool:
            options.update(folder=spool["folder"], dense=_stream.dense(spool["edges"], nodes))
            return _made(path, options, [])
    g = _Graph()
    columns = dict(edge_columns or {})
    table = _frames.columns_of(edges)
    if table is not None:
        src, dst, relations, found = _frames.edge_frame(table, relations)
        columns = {**found, **columns}
    else:
        src, dst = _ends(edges)
    arrays = set(features or {})  # and all other features are columns of a table
    features = dict(features or {})
    if nodes is not None:
        table = _frames.columns_of(nodes)
        if table is None:
            raise errors.InvalidError(f"nodes of {type(nodes)}: expected a table of pandas or pyarrow")
        index = nodes.index.to_numpy() if hasattr(nodes, "iloc") else None
        ids, labels, splits, class_names = _frames.node_frame(table, index, features, ids, labels, splits, class_names)
    if ids is not None:
        external = _ids(ids)
        src, dst = _positions(external, src, "source"), _positions(external, dst, "destination")
        if splits is not None:
            splits = {k: v if np.asarray(v).dtype == bool else _positions(external, v, k) for k, v in splits.items()}
        if external.dtype.kind in "iu":
            g.add({"use": "ids"}, external.astype(np.uint64))
        else:
            text, ends = encode_texts(external)
            g.add({"use": "names"}, text)
            g.add({"use": "ends"}, ends)
    tables = {**{("features", k): v for k, v in features.items()}, **{("node_columns", k): v for k, v in (node_columns or {}).items()}}
    rows_of_nodes = _check_rows(tables, labels, ids, num_nodes, node_types or {}, (src, dst))
    g.add({"use": "src"}, _numbers(src, "sources"))
    g.add({"use": "dst"}, _numbers(dst, "destinations"))
    if relations is not None:
        relations = np.asarray(_host(relations))
        if relations.dtype.kind not in "iu":
            names, relations = np.unique(relations.astype(str), return_inverse=True)
            relation_names = [str(n) for n in names]
        if relation_names is None:
            relation_names = [str(r) for r in range(int(relations.max(initial=-1)) + 1)]
        g.add({"use": "relation"}, relations.astype(np.uint32))
    for (kind, key), rows in tables.items():
        g.column("node", key, "feature" if kind == "features" else "node", rows, kind == "features" and key not in arrays)
    if labels is not None:
        labels = np.asarray(_host(labels))
        if labels.ndim > 1 and labels.shape[1] > 1:
            g.column("node", "label", "label", labels.astype(np.float32))
        else:
            labels, class_names = _frames.labels_of(labels.reshape(-1), class_names)
            g.column("node", "label", "label", labels if labels.dtype.kind == "f" else labels.astype(np.int64))
    for name, rows in columns.items():
        rows = np.asarray(_host(rows))
        weight = name == "weight" and rows.ndim == 1
        g.column("edge", name, "weight" if weight else "edge", rows.astype(np.float32) if weight else rows)
    for part, members in (splits or {}).items():
        part = PARTS.get(part, part)
        if part not in ("train", "valid", "test"):
            raise errors.InvalidError(f"a split's part {part!r}: expected train, valid or test")
        members = np.asarray(_host(members))
        if members.dtype == bool and rows_of_nodes and len(members) != rows_of_nodes:
            raise errors.InvalidError(f"splits[{part!r}] as a mask of {len(members)}: there are {rows_of_nodes} nodes")
        g.add({"use": part, "name": "split"}, _numbers(np.flatnonzero(members) if members.dtype == bool else members, part))
    options.update(
        arrays=g.infos, relation_names=list(relation_names or []), class_names=list(class_names) if class_names is not None else None
    )
    return _made(path, options, g.arrays)


def _file_options(input: Union[str, os.PathLike], format: str, schema: Union[None, str, os.PathLike], dangling: str) -> Dict[str, Any]:
    """What names an input of files."""
    return {"file": os.fspath(input), "format": format, "schema": os.fspath(schema) if schema is not None else "", "dangling": dangling}


def append(
    path: Union[str, os.PathLike],
    input: Union[str, os.PathLike],
    *,
    format: str = "",
    schema: Union[None, str, os.PathLike] = None,
    dangling: str = "",
    keyless: str = "",
    change: str = "",
    missing: str = "",
    new_nodes: str = "few",
    keep_versions: int = 2,
    mem: Union[None, int, str] = None,
    threads: int = 0,
    note: str = "",
) -> Store:
    """Adds what is at `input` to the store at `path`, as its next version, and opens it: edges, or a database's new rows.

    input is the path of files that `gstore append` reads (docs/formats.md), or of a database as it is now, or the address of one: of
    it the rows are added whose keys the store does not have. Where there are none, the version stays. keyless says which rows
    of tables without a key are new: "later", "all" or "rest". change is "" (edges come beside those that are there), "update" or
    "delete"; new_nodes "ok" lets any number of nodes be new. Stores that are open stay on their version.
    """
    if change not in ("", "update", "delete"):
        raise errors.InvalidError(f"change {change!r}: expected '', 'update' or 'delete'")
    if new_nodes not in ("few", "ok"):
        raise errors.InvalidError(f"new_nodes {new_nodes!r}: expected 'few' or 'ok'")
    if keyless not in ("", "later", "all", "rest"):
        raise errors.InvalidError(f"keyless {keyless!r}: expected 'later', 'all' or 'rest'")
    request = {
        "path": os.fspath(path), **_file_options(input, format, schema, dangling), "keyless": keyless, "change": change, "missing": missing,
        "new_nodes": new_nodes == "ok", "keep_versions": keep_versions, "memory_bytes": sizes.parse(mem), "threads": threads, "note": note,
    }  # fmt: skip
    for line in _called("append", request, [])["notes"] or []:
        logging.getLogger("gstore").info("%s: %s", path, line)
    return open_store(path)


def _called(method: str, request: Dict[str, Any], arrays: List[np.ndarray]) -> Any:
    """What a method answers. Options have other names here than on the command line, which errors have."""
    try:
        return _lib.call(0, method, request, arrays).value
    except errors.Error as e:
        words = re.sub(r"--(missing|keyless|dangling|schema) ([A-Za-z]+)", r'\1="\2"', str(e))
        raise type(e)(words) from None


def _made(path: Union[str, os.PathLike], request: Dict[str, Any], arrays: List[np.ndarray]) -> Store:
    """Makes the store that a request asks for, and opens it."""
    why = _called("ingest", request, arrays)["why"]
    if why:
        logging.getLogger("gstore").info("%s: %s", path, why)
    return open_store(path)


class _Graph:
    """Arrays of an ingest, and what each is."""

    def __init__(self) -> None:
        self.infos: List[Dict[str, Any]] = []
        self.arrays: List[np.ndarray] = []

    def add(self, info: Dict[str, Any], array: np.ndarray) -> None:
        self.infos.append(info)
        self.arrays.append(np.ascontiguousarray(array))

    def column(self, use: str, key: Any, role: str, rows: _Array, measured: bool = False) -> None:
        name, of = (key, "") if isinstance(key, str) else (f"{key[0]}.{key[1]}", key[0])
        if hasattr(rows, "toarray") and hasattr(rows, "tocoo"):
            raise errors.InvalidError(f"column {name!r} is a sparse {type(rows).__name__}: expected rows of numbers: .toarray() makes them")
        rows = np.asarray(_host(rows))
        if rows.ndim > 2 or rows.ndim == 0:
            raise errors.InvalidError(f"column {name!r} of shape {rows.shape}: expected [N] or [N, D]")
        if rows.dtype == bool:
            rows = rows.astype(np.uint8)
        self.add({"use": use, "name": name, "role": role, "dtype": rows.dtype.name, "dim": 1 if rows.ndim == 1 else rows.shape[1], "of": of, "measured": measured}, rows)


def _host(array: _Array) -> _Array:
    """A torch tensor as numpy's, anything else as it is."""
    return array.detach().cpu().numpy() if hasattr(array, "detach") else array


def _ends(edges: _Array) -> Tuple[np.ndarray, np.ndarray]:
    if isinstance(edges, tuple) and len(edges) == 2:
        return np.asarray(_host(edges[0])), np.asarray(_host(edges[1]))
    if hasattr(edges, "tocoo"):  # of scipy: a row has its edges' destinations
        edges = edges.tocoo()
        return np.asarray(edges.row), np.asarray(edges.col)
    if hasattr(edges, "canonical_etypes") and hasattr(edges, "edges"):  # a graph of DGL
        src, dst = edges.edges()
        return np.asarray(_host(src)), np.asarray(_host(dst))
    named = hasattr(edges, "adjacency") or hasattr(edges, "get_edgelist")  # graphs of networkx and igraph, which iterate over something
    pairs = np.zeros(()) if named else np.asarray(_host(edges))
    if pairs.ndim == 0:
        hint = "list(g.edges)" if hasattr(edges, "adjacency") else "g.get_edgelist()" if hasattr(edges, "get_edgelist") else "its edges as [2, E] or [E, 2]"
        raise errors.InvalidError(f"edges of type {type(edges).__module__}.{type(edges).__name__}: expected numbers or a table: give {hint}")
    if pairs.ndim == 2 and pairs.shape[0] == 2:
        return pairs[0], pairs[1]
    if pairs.ndim == 2 and pairs.shape[1] == 2:
        return pairs[:, 0], pairs[:, 1]
    raise errors.InvalidError(f"edges of shape {pairs.shape}: expected [2, E] or [E, 2]")


def _numbers(array: np.ndarray, what: str) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype.kind == "f" and np.isnan(array).any() or array.dtype == object and any(v is None or v != v for v in array.tolist()):
        at = next(k for k, v in enumerate(array.tolist()) if v is None or v != v)
        raise errors.InvalidError(f"{what}: none at row {at}: expected a node in each")
    if array.size and array.dtype.kind not in "iu":
        raise errors.InvalidError(f"{what} of {array.dtype}: expected node numbers; ids that are no numbers need ids= or nodes=")
    if array.size and array.dtype.kind == "i" and int(array.min()) < 0:
        raise errors.InvalidError(f"{what}: node {int(array.min())}, expected 0 or more")
    return array.reshape(-1).astype(np.uint64, copy=array.dtype.itemsize != 8).view(np.uint64)


def _ids(ids: Sequence[Any]) -> np.ndarray:
    """External ids as an array of integers or of objects of str."""
    found = np.asarray(_host(ids))
    if found.dtype.kind in "iu":
        return found
    return np.array([i.decode() if isinstance(i, bytes) else str(i) for i in found.tolist()], dtype=object)


def _positions(ids: np.ndarray, named: Any, what: str) -> np.ndarray:
    """Where in ids each of named is."""
    named = np.asarray(_host(named))
    if ids.dtype == object:
        at = {name: k for k, name in enumerate(ids.tolist())}
        found = np.fromiter((at.get(str(n), -1) for n in named.tolist()), np.int64, len(named))
    else:
        order = np.argsort(ids, kind="stable")
        k = np.minimum(np.searchsorted(ids[order], named), max(len(ids) - 1, 0))
        found = order[k] if len(ids) else np.full(len(named), -1)
        found = np.where(ids[found] == named, found, -1) if len(ids) else found
    if (found < 0).any():
        raise errors.InputError(f"{what} {named[found < 0][0]!r}: none of the {len(ids)} nodes has that id")
    return found


def _check_rows(tables: Mapping[Any, _Array], labels: Any, ids: Any, num_nodes: int, node_types: Mapping[str, int], ends: Tuple[np.ndarray, np.ndarray]) -> int:
    """Refuses columns of different lengths, and edges that name nodes beyond them, by what they are called; the number of nodes, 0 where
    only edges say it."""
    known = {f"num_nodes={num_nodes}": num_nodes} if num_nodes else {}
    for (kind, key), rows in tables.items():
        n = rows.shape[0] if getattr(rows, "shape", ()) else len(rows) if hasattr(rows, "__len__") and not hasattr(rows, "shape") else 0
        if isinstance(key, str):
            known[f"{kind}[{key!r}]"] = n
        elif key[0] not in node_types:
            raise errors.InvalidError(f"{kind}[{key!r}]: {key[0]!r} is none of the node_types {list(node_types)}")
        elif n != node_types[key[0]]:
            raise errors.InvalidError(f"{kind}[{key!r}] of {n} rows: there are {node_types[key[0]]} nodes of type {key[0]!r}")
    for name, rows in (("labels", labels), ("ids", ids)):
        if rows is not None:
            known[name] = len(rows)
    if not known:
        return 0
    if len(set(known.values())) > 1:
        raise errors.InvalidError("rows of nodes: " + ", ".join(f"{name} has {n}" for name, n in known.items()) + ": expected a row for each node in each")
    name, n = next(iter(known.items()))
    for what, end in zip(("source", "destination"), ends):
        end = np.asarray(end)
        if end.size and end.dtype.kind in "iu" and int(end.max()) >= n:
            at = int(np.argmax(end))
            raise errors.InputError(f"edge {at} has {what} {int(end[at])}, but {name} has {n} nodes, numbered from 0: expected more rows, or fewer nodes in edges")
    return n
