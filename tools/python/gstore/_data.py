"""Batches as PyG's objects: Data, and HeteroData of stores of several types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Tuple

import numpy as np

from . import errors
from .store import Store, edge_type

if TYPE_CHECKING:
    from .loader import Batch


def _float(rows: Any) -> Any:
    """Features as layers take them."""
    import torch

    return rows.float() if rows.dtype == torch.float16 else rows


def _attribute(name: str) -> str:
    return name.replace(".", "_")


def _extra(batch: "Batch", device: Any) -> Dict[str, Any]:
    """The columns that the loader names, of the batch's nodes: tensors, or lists of texts."""
    import torch

    found: Dict[str, Any] = {}
    for name in batch._columns:
        rows = batch.column(name)
        found[name] = rows.tolist() if rows.dtype == object else torch.from_numpy(_signed(rows)).to(device)
    return found


def _signed(rows: np.ndarray) -> np.ndarray:
    """What PyTorch has no type for, in one that it has."""
    wider = {"uint16": np.int32, "uint32": np.int64, "uint64": np.int64}.get(rows.dtype.name)
    return rows.astype(wider) if wider is not None else rows


def plain(batch: "Batch") -> Any:
    """The batch as Data."""
    import torch
    from torch_geometric.data import Data

    data, sent = Data(), batch.to_torch()
    for k, (name, value) in enumerate(sent.features.items()):
        data["x" if k == 0 else _attribute(name)] = _float(value)
    data.n_id = sent.n_id
    data.batch_size = batch.batch_size
    if batch.input_id is not None:
        data.input_id = torch.from_numpy(batch.input_id)
    if sent.y is not None:
        data.y = sent.y
    if sent.edge_index is not None:
        data.edge_index = sent.edge_index
        if sent.edge_type is not None:
            data.edge_type = sent.edge_type
        if sent.edge_attr is not None:
            data.edge_attr = sent.edge_attr
    else:
        data.adjs = [(layer.edge_index, (layer.num_src, layer.num_dst)) for layer in sent.layers]
    data.num_nodes = len(batch.n_id)
    data.num_sampled_nodes, data.num_sampled_edges = list(batch.num_sampled_nodes), list(batch.num_sampled_edges)
    if sent.label_shift is not None:
        data.label_shift = sent.label_shift
    for name, rows in _extra(batch, sent.n_id.device).items():
        data[_attribute(name)] = rows
    return data


def owner(store: Store, column: str) -> Tuple[str, str]:
    """Whose nodes a feature is of, "" of all types, and what it is called there."""
    named = store.columns[column].node_type
    for t in [named] if named else sorted(store.node_types, key=len, reverse=True):
        if column.startswith(t + "."):
            return t, column[len(t) + 1 :]
    return named, column


def _per_hop(counts: List[int], which: np.ndarray, kinds: int) -> np.ndarray:
    """How many of each kind are in each hop, [kinds, hops], of things that lie hop by hop."""
    found, begin = np.zeros((kinds, len(counts)), np.int64), 0
    for hop, n in enumerate(counts):
        found[:, hop] = np.bincount(which[begin : begin + n], minlength=kinds)
        begin += n
    return found


def hetero(batch: "Batch") -> Any:
    """The batch as HeteroData: nodes and edges of each type by themselves, in the batch's order, so that those that were asked for
    come first."""
    import torch
    from torch_geometric.data import HeteroData

    if batch.edge_index is None:
        raise errors.InvalidError("HeteroData of a loader with layers=True: expected one edge_index: leave layers out")
    store, sent = batch._store, batch.to_torch()
    types = list(store.node_types)
    of = batch._node_type()
    if of is None:
        if store.typed:
            raise errors.NotFoundError(
                f"{store.path}: the store does not say of which type each node is: ingest it anew"
            )
        of = np.zeros(len(batch.n_id), np.int64)
    device = sent.n_id.device
    data, members = HeteroData(), [np.flatnonzero(of == k) for k in range(len(types))]
    local = np.empty(len(of), np.int64)
    for at in members:
        local[at] = np.arange(len(at))
    hops, extra, labelled = (
        _per_hop(batch.num_sampled_nodes, of, len(types)),
        _extra(batch, device),
        store._labelled_types(),
    )
    seeds = of[: batch.batch_size]
    for k, t in enumerate(types):
        mine = torch.from_numpy(members[k]).to(device)
        nodes = data[t]
        for name, rows in sent.features.items():
            whose, called = owner(store, name)
            if whose not in ("", t):
                continue
            called = _attribute(called) if "x" in nodes else "x"
            nodes[called] = _float(rows[mine])
        nodes.n_id = sent.n_id[mine]
        if sent.y is not None and t in labelled:
            nodes.y = sent.y[mine]
        for name, rows in extra.items():
            whose, called = owner(store, name) if name in store.columns else ("", name)
            if whose in ("", t):
                nodes[_attribute(called)] = (
                    [rows[i] for i in members[k].tolist()] if isinstance(rows, list) else rows[mine]
                )
        if "ids" in extra and store.ids == "dense" and store.typed:
            nodes.ids = nodes.ids - store.type_range(t)[0]
        nodes.num_nodes = len(members[k])
        nodes.num_sampled_nodes = hops[k].tolist()
        asked = int((seeds == k).sum())
        if asked:
            nodes.batch_size = asked
            if batch.input_id is not None:
                nodes.input_id = torch.from_numpy(batch.input_id[seeds == k])
    _edges(batch, data, of, local)
    if sent.label_shift is not None:
        data.label_shift = sent.label_shift
    return data


def _edges(batch: "Batch", data: Any, of: np.ndarray, local: np.ndarray) -> None:
    """Adds the edges of each type: the store's relations, cut by the types of their ends."""
    import torch

    store, types = batch._store, list(batch._store.node_types)
    device = batch.to_torch().n_id.device
    host = lambda a: a.cpu().numpy() if hasattr(a, "cpu") else a
    ends = host(batch.edge_index)
    names = list(store.relations)
    kind = np.zeros(ends.shape[1], np.int64) if batch.edge_type is None else host(batch.edge_type)
    if len(kind) and int(kind.max()) >= len(names):
        raise errors.InvalidError(
            "HeteroData of a loader with inverse=True: edges against their direction are of no type: leave inverse out"
        )
    n = len(types)
    code = (kind * n + of[ends[0]]) * n + of[ends[1]]
    found = {int(c): np.flatnonzero(code == c) for c in np.unique(code)}
    for k, name in enumerate(names):  # in the relations' order, those that have no edge here too
        source, middle, destination = edge_type(name, types)
        pairs = {(c // n % n, c % n): c for c in found if c // (n * n) == k}
        if source:
            pairs.setdefault((types.index(source), types.index(destination)), -1)
        for (s, d), c in sorted(pairs.items()):
            at = found.get(c, np.empty(0, np.int64))
            edges = data[types[s], middle, types[d]]
            edges.edge_index = torch.from_numpy(np.stack([local[ends[0][at]], local[ends[1][at]]])).to(device)
            if batch.edge_attr is not None:
                edges.edge_attr = batch.to_torch().edge_attr[torch.from_numpy(at).to(device)]
            hop = np.searchsorted(np.cumsum(batch.num_sampled_edges), at, side="right")
            edges.num_sampled_edges = np.bincount(hop, minlength=len(batch.num_sampled_edges)).tolist()
