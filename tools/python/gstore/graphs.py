"""Stores of the graph objects of PyG and OGB."""

from __future__ import annotations

import os
import warnings
from typing import Any, Dict, Mapping, Tuple, Union

import numpy as np

from . import errors
from ._frames import labels_of
from .ingest import _host, ingest
from .store import TYPES, Store


def from_pyg(data: Any, path: Union[str, os.PathLike], **options: Any) -> Store:
    """Makes a store of a graph object. `options` are those of `ingest`, before what the object says.

    A `torch_geometric.data.Data`: edge_index, x, y, edge_type, edge_weight, edge_attr, and the split that its train_mask,
    val_mask and test_mask are (the first of several columns). What else it has of each node or edge, such as time, pos or
    edge_time, is kept as a column under its name, which is no feature: `NeighborLoader(columns=["time"])` hands it out, and
    edge_features those of edges. What cannot be kept is named by a warning.
    A `HeteroData`: nodes of all types in one numbering, type after type; edge types are relations. Features that all types
    have, of one width, are one column; others are columns by name, such as "paper.x", of that type's nodes alone. So is what else nodes have. Of
    edges, it is one column, or "author__writes__paper.edge_attr", zero for edges of other types. edge_weight is 1 for types of edges without.
    A dataset of OGB, for nodes or in PyG's form, with its split; its edge_feat are the column "feat".
    """
    splits = None
    if hasattr(data, "get_idx_split"):
        splits = {part: nodes for part, nodes in data.get_idx_split().items()}
        data = data[0]
        if isinstance(data, tuple):  # a dictionary of arrays, labels
            graph, labels = data
            if "edge_index" not in graph:
                raise errors.InvalidError(f"a dataset whose graph has {sorted(graph)}: one of several types of nodes is read in PyG's form, such as PygNodePropPredDataset")
            found: Dict[str, Any] = {"edges": graph["edge_index"], "num_nodes": graph["num_nodes"], "labels": _classes(labels), "splits": splits}
            if graph.get("node_feat") is not None:
                found["features"] = {"x": graph["node_feat"]}
            if graph.get("edge_feat") is not None:
                found["edge_columns"] = {"feat": graph["edge_feat"]}
            return ingest(path, **{**found, **options})
    if hasattr(data, "node_types"):
        return ingest(path, **{**_hetero(data, splits), **options})
    if getattr(data, "edge_index", None) is None:
        raise errors.InvalidError(f"a {type(data).__name__} without edge_index (it has {sorted(data.keys())}): expected edges as [2, E]; of a sparse adj_t they are torch.stack(data.adj_t.t().coo()[:2])")
    found = {"edges": tuple(_host(data.edge_index)), "num_nodes": data.num_nodes, "splits": splits or _masks(data)}
    if getattr(data, "x", None) is not None:
        found["features"] = {"x": data.x}
    if getattr(data, "y", None) is not None:
        found["labels"] = _classes(data.y)
    if getattr(data, "edge_type", None) is not None:
        found["relations"] = data.edge_type
    found["node_columns"], of_edges = _others(data, data.num_nodes, data.edge_index.shape[1], "")
    columns = {name: getattr(data, key, None) for name, key in (("weight", "edge_weight"), ("edge_attr", "edge_attr"))}
    found["edge_columns"] = {**{name: c for name, c in columns.items() if c is not None}, **of_edges}
    return ingest(path, **{**found, **options})


_KNOWN = {"edge_index", "x", "y", "edge_type", "edge_weight", "edge_attr", "train_mask", "val_mask", "test_mask", "num_nodes"}


def _others(of: Any, nodes: int, edges: int, where: str) -> Tuple[Dict[str, np.ndarray], Dict[str, np.ndarray]]:
    """What a graph, or its nodes or edges of a type, has beside what is known: a row a node, and a row an edge. What is neither is
    named by a warning."""
    of_nodes: Dict[str, np.ndarray] = {}
    of_edges: Dict[str, np.ndarray] = {}
    left = []
    for name in list(of.keys()) if hasattr(of, "keys") and callable(of.keys) else list(vars(of)):
        value = getattr(of, name)
        if name in _KNOWN or value is None:
            continue
        rows = np.asarray(_host(value)) if hasattr(value, "shape") and hasattr(value, "dtype") and not hasattr(value, "to_dense_adj") else None
        if rows is None or rows.ndim not in (1, 2) or rows.dtype.kind not in "iufb" or rows.ndim == 2 and not rows.shape[1]:
            left.append(name)
        elif len(rows) == edges and (len(rows) != nodes or name.startswith(("edge_", "e_"))):
            of_edges[name] = rows
        elif len(rows) == nodes:
            of_nodes["node_types" if name == TYPES else name] = rows  # of a homogeneous view, whose numbers count from 0
        else:
            left.append(name)
    if left:
        warnings.warn(f"from_pyg leaves out {', '.join(where + name for name in sorted(left))}: no number, or no row, for each node or edge", stacklevel=4)
    return of_nodes, of_edges


def _classes(y: Any) -> np.ndarray:
    """y as a class a node, −1 where there is none, as a number a node, NaN where there is none, or as rows of 0 and 1 of several labels a node."""
    y = np.asarray(_host(y))
    if y.ndim > 1 and y.shape[1] > 1:
        return y.astype(np.float32)
    return labels_of(y.reshape(-1))[0]


def _masks(data: Any) -> Any:
    """The nodes of each part by the masks that data has, None without any."""
    splits = {}
    for part, name in (("train", "train_mask"), ("valid", "val_mask"), ("test", "test_mask")):
        mask = getattr(data, name, None)
        if mask is not None:
            mask = np.asarray(_host(mask))
            splits[part] = np.flatnonzero(mask if mask.ndim == 1 else mask[:, 0])
    return splits or None


def _apart(name: str, types: Mapping[str, Any]) -> Dict[Any, np.ndarray]:
    """The rows that objects have under a name: one column where all have some of one shape, else one of each, by (object, name)."""
    tables = {t: np.asarray(_host(rows)) for t, rows in types.items() if rows is not None}
    if tables and len(tables) == len(types) and len({(x.shape[1:], x.dtype) for x in tables.values()}) == 1:
        return {name: np.concatenate(list(tables.values()))}
    return {(t, name): rows for t, rows in tables.items()}


def _padded(columns: Mapping[Any, np.ndarray], counts: Mapping[str, int]) -> Dict[str, np.ndarray]:
    """Columns that some objects have, with zeros for those of others."""
    found = {}
    ends = np.cumsum([0, *counts.values()]).tolist()
    first = dict(zip(counts, ends))
    for key, rows in columns.items():
        if isinstance(key, str):
            found[key] = rows
            continue
        of, name = key
        found[f"{of}.{name}"] = np.zeros((ends[-1], *rows.shape[1:]), rows.dtype)
        found[f"{of}.{name}"][first[of] : first[of] + len(rows)] = rows
    return found


def structure(data: Any) -> Dict[str, Any]:
    """Arguments of ingest for a HeteroData's nodes and edges: type after type, relations by edge type."""
    counts: Mapping[str, int] = {t: int(data[t].num_nodes) for t in data.node_types}
    first = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist()))
    ends, kinds, names = [np.empty((2, 0), np.int64)], [np.empty(0, np.int64)], []
    for k, edge_type in enumerate(data.edge_types):
        pairs = np.asarray(_host(data[edge_type].edge_index))
        ends.append(pairs + np.array([[first[edge_type[0]]], [first[edge_type[2]]]]))
        kinds.append(np.full(pairs.shape[1], k))
        names.append("__".join(edge_type))
    return {
        "edges": tuple(np.concatenate(ends, 1)), "relations": np.concatenate(kinds), "relation_names": names, "num_nodes": sum(counts.values()),
        "node_types": counts,
    }  # fmt: skip


def _hetero(data: Any, splits: Any) -> Dict[str, Any]:
    """Arguments of ingest for a HeteroData, whose split may be given by type."""
    counts: Mapping[str, int] = {t: int(data[t].num_nodes) for t in data.node_types}
    first = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist()))
    total = sum(counts.values())
    found = structure(data)
    names, kinds = found["relation_names"], [np.flatnonzero(found["relations"] == k) for k in range(len(data.edge_types))]
    features = _apart("x", {t: getattr(data[t], "x", None) for t in counts})
    of_edges = dict(zip(names, (data[t] for t in data.edge_types)))
    sizes = {name: len(k) for name, k in zip(names, kinds)}
    others = {name: _others(of, -1, sizes[name], name + ".")[1] for name, of in of_edges.items()}
    others = {name: {**({} if getattr(of_edges[name], "edge_attr", None) is None else {"edge_attr": of_edges[name].edge_attr}), **o} for name, o in others.items()}
    keys = dict.fromkeys(key for o in others.values() for key in o)
    apart = {k: v for key in keys for k, v in _apart(key, {name: o.get(key) for name, o in others.items()}).items()}
    edge_columns = _padded(apart, sizes)
    kept = {t: _others(data[t], counts[t], -1, t + ".")[0] for t in counts}
    keys = dict.fromkeys(key for o in kept.values() for key in o)
    node_columns = {k: v for key in keys for k, v in _apart(key, {t: o.get(key) for t, o in kept.items()}).items()}
    weights = [getattr(data[t], "edge_weight", None) for t in data.edge_types]
    if any(w is not None for w in weights):
        edge_columns["weight"] = np.concatenate([np.ones(len(k), np.float32) if w is None else np.asarray(_host(w), np.float32) for w, k in zip(weights, kinds)])
    found.update(features=features, edge_columns=edge_columns, node_columns=node_columns)
    labelled = [t for t in counts if getattr(data[t], "y", None) is not None]
    if len(labelled) > 1:
        raise errors.InvalidError(f"labels of nodes of types {labelled}: a store has those of one task: delete y of the others")
    for t in labelled:
        own = _classes(data[t].y)
        found["labels"] = np.full((total, *own.shape[1:]), np.nan if own.dtype.kind == "f" else -1, own.dtype if own.dtype.kind == "f" else np.int64)
        found["labels"][first[t] : first[t] + counts[t]] = own
        parts = splits or _masks(data[t]) or {}
        parts = {part: nodes[t] if isinstance(nodes, Mapping) else nodes for part, nodes in parts.items()}
        if parts:
            found["splits"] = {part: np.asarray(_host(nodes)) + first[t] for part, nodes in parts.items()}
    return found
