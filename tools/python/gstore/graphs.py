"""Stores of the graph objects of PyG and OGB."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Sequence, Union

import numpy as np

from . import errors
from .ingest import _host, _labels, ingest
from .store import Store


def from_pyg(data: Any, path: Union[str, os.PathLike], **options: Any) -> Store:
    """Makes a store of a graph object. `options` are those of `ingest`, before what the object says.

    A `torch_geometric.data.Data`: edge_index, x, y, edge_type, edge_weight, edge_attr, and the split that its train_mask,
    val_mask and test_mask are (the first of several columns).
    A `HeteroData`: nodes of all types in one numbering, type after type; edge types are relations. Features that all types
    have, of one width, are one column; others are columns by name, such as "paper.x", zero for nodes of other types. So are
    edge_attr of types of edges: one column, or "author__writes__paper.edge_attr". edge_weight is 1 for types of edges without.
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
    found = {"edges": data.edge_index, "num_nodes": data.num_nodes, "splits": splits or _masks(data)}
    if getattr(data, "x", None) is not None:
        found["features"] = {"x": data.x}
    if getattr(data, "y", None) is not None:
        found["labels"] = _classes(data.y)
    if getattr(data, "edge_type", None) is not None:
        found["relations"] = data.edge_type
    columns = {name: getattr(data, key, None) for name, key in (("weight", "edge_weight"), ("edge_attr", "edge_attr"))}
    found["edge_columns"] = {name: c for name, c in columns.items() if c is not None}
    return ingest(path, **{**found, **options})


def _classes(y: Any) -> np.ndarray:
    """y as a class a node, −1 where there is none."""
    y = np.asarray(_host(y))
    if y.ndim > 1 and y.shape[1] > 1:
        raise errors.InvalidError(f"y of {y.dtype} and shape {y.shape}: expected one class a node")
    return _labels(y.reshape(-1))[0]


def _masks(data: Any) -> Any:
    """The nodes of each part by the masks that data has, None without any."""
    splits = {}
    for part, name in (("train", "train_mask"), ("valid", "val_mask"), ("test", "test_mask")):
        mask = getattr(data, name, None)
        if mask is not None:
            mask = np.asarray(_host(mask))
            splits[part] = np.flatnonzero(mask if mask.ndim == 1 else mask[:, 0])
    return splits or None


def _columns(name: str, types: Mapping[str, Any], counts: Sequence[int]) -> Dict[str, np.ndarray]:
    """The rows that objects have under a name, object after object: one column where all have some of one shape, else one of each."""
    tables = {t: np.asarray(_host(getattr(of, name))) for t, of in types.items() if getattr(of, name, None) is not None}
    if tables and len(tables) == len(types) and len({(x.shape[1:], x.dtype) for x in tables.values()}) == 1:
        return {name: np.concatenate(list(tables.values()))}
    found, ends = {}, np.cumsum([0, *counts]).tolist()
    for t, first in zip(types, ends):
        if t in tables:
            rows = np.zeros((ends[-1], *tables[t].shape[1:]), tables[t].dtype)
            rows[first : first + len(tables[t])] = tables[t]
            found[f"{t}.{name}"] = rows
    return found


def _hetero(data: Any, splits: Any) -> Dict[str, Any]:
    """Arguments of ingest for a HeteroData, whose split may be given by type."""
    counts: Mapping[str, int] = {t: int(data[t].num_nodes) for t in data.node_types}
    first = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist()))
    total = sum(counts.values())
    ends, kinds, names = [], [], []
    for k, edge_type in enumerate(data.edge_types):
        pairs = np.asarray(_host(data[edge_type].edge_index))
        ends.append(pairs + np.array([[first[edge_type[0]]], [first[edge_type[2]]]]))
        kinds.append(np.full(pairs.shape[1], k))
        names.append("__".join(edge_type))
    features = _columns("x", {t: data[t] for t in counts}, list(counts.values()))
    edge_columns = _columns("edge_attr", dict(zip(names, (data[t] for t in data.edge_types))), [len(k) for k in kinds])
    weights = [getattr(data[t], "edge_weight", None) for t in data.edge_types]
    if any(w is not None for w in weights):
        edge_columns["weight"] = np.concatenate([np.ones(len(k), np.float32) if w is None else np.asarray(_host(w), np.float32) for w, k in zip(weights, kinds)])
    found: Dict[str, Any] = {
        "edges": np.concatenate(ends, 1), "relations": np.concatenate(kinds), "relation_names": names, "features": features,
        "edge_columns": edge_columns, "num_nodes": total, "node_types": counts,
    }  # fmt: skip
    labelled = [t for t in counts if getattr(data[t], "y", None) is not None]
    if len(labelled) > 1:
        raise errors.InvalidError(f"labels of nodes of types {labelled}: a store has those of one task: delete y of the others")
    for t in labelled:
        found["labels"] = np.full(total, -1, np.int64)
        found["labels"][first[t] : first[t] + counts[t]] = _classes(data[t].y)
        parts = splits or _masks(data[t]) or {}
        parts = {part: nodes[t] if isinstance(nodes, Mapping) else nodes for part, nodes in parts.items()}
        if parts:
            found["splits"] = {part: np.asarray(_host(nodes)) + first[t] for part, nodes in parts.items()}
    return found
