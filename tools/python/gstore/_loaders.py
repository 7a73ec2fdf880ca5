"""PyG's NeighborLoader, on a store: arguments and batches are PyG's."""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch

from . import _seeds, errors, loader
from .graphs import structure
from .ingest import ingest
from .store import Store, opened

_EXACT = 1 << 24  # below which float32 has every whole number: edges' columns are handed out as that


class NeighborLoader(loader.NeighborLoader):
    """PyG's NeighborLoader on a store, or on a Data or HeteroData, of which a store is made in a temporary folder.

    It yields Data, or HeteroData of a store of several types of nodes. What differs from `gstore.NeighborLoader` is what
    PyG calls things: num_neighbors, input_nodes (None: all nodes), batch_size 1 and shuffle=False by default; n_id are
    the user's own ids, of HeteroData those within the type, so that `data.y[batch.n_id]` is right; and every column of
    nodes is handed out. Of a Data or HeteroData, e_id are the edges' places in its edge_index, and its columns of edges
    are handed out (of a Data where it has fewer than 2^24 edges). weight_attr draws by weights. options are those of
    `gstore.NeighborLoader`: mem, plan, seed, threads, columns …

    replace, disjoint, time_attr, input_time and subgraph_type other than "directional" are refused; num_workers and
    what else PyTorch's DataLoader takes change nothing: batches are sampled ahead on threads.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: Optional[str] = None,
        weight_attr: Optional[str] = None,
        transform: Any = None,
        is_sorted: bool = False,
        filter_per_worker: Optional[bool] = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Any = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        persistent_workers: bool = False,
        prefetch_factor: Optional[int] = None,
        **options: Any,
    ):
        unknown = {
            "input_time": input_time is not None, "replace": replace, "disjoint": disjoint, "time_attr": time_attr is not None, "directed": not directed,
            "subgraph_type": str(getattr(subgraph_type, "value", subgraph_type)) != "directional", "neighbor_sampler": neighbor_sampler is not None,
            "temporal_strategy": temporal_strategy != "uniform",
        }  # fmt: skip
        if any(unknown.values()):
            raise errors.InvalidError(
                f"{', '.join(k for k, v in unknown.items() if v)}: gstore's loader has no such sampling: leave it out, or use PyG's own loader on gstore.pyg.backend(store)"
            )
        self._folder: Optional[tempfile.TemporaryDirectory] = None
        self._given: Any = None
        self._ends: Dict[Tuple[str, str, str], Tuple[np.ndarray, np.ndarray]] = {}
        self._by_edge = False  # whether batches have the numbers of their edges
        if isinstance(data, tuple):
            raise errors.InvalidError("a FeatureStore and a GraphStore: PyG's own NeighborLoader takes them; this one a store, a Data or a HeteroData")
        if isinstance(data, (Store, str, os.PathLike)):
            store = opened(data)
        else:
            store = self._made_of(data, weight_attr)
        if hasattr(data, "node_types") and store.of_kinds and not isinstance(num_neighbors, Mapping):
            num_neighbors = {name: list(num_neighbors) for name in store.relations}
        if self._by_edge:
            options.setdefault("edge_features", "e_id")
        if weight_attr is not None:
            if "weight" not in store.columns:
                raise errors.InvalidError(f"weight_attr={weight_attr!r}: {store.path} has no column weight")
            if sampler is not None:
                raise errors.InvalidError("weight_attr beside sampler: expected one of them")
            sampler = "weighted"
        if "columns" not in options:
            options["columns"] = _columns(store)
        options["columns"] = [*dict.fromkeys(["ids", *options["columns"]])]
        self._input_nodes = input_nodes
        self._input_type = (
            input_nodes if isinstance(input_nodes, str) else input_nodes[0] if isinstance(input_nodes, tuple) else None
        )
        asked = {
            "batch_size": batch_size,
            "shuffle": shuffle,
            "sampler": "uniform" if sampler is None else sampler,
            "input_nodes": input_nodes,
            **options,
        }
        if isinstance(input_nodes, tuple) and len(input_nodes) == 2 and input_nodes[0] is None:
            asked["input_nodes"] = input_nodes[1]
        self._then = transform
        super().__init__(
            store, num_neighbors, split=None if asked["input_nodes"] is None else "train", transform=self._pyg, **asked
        )
        self._made = {
            "data": store if self._given is None else self._given, "num_neighbors": num_neighbors, "input_nodes": input_nodes, "transform": transform, "weight_attr": weight_attr,
            "batch_size": batch_size, "shuffle": shuffle, "sampler": sampler, **options,
        }  # fmt: skip

    def _made_of(self, data: Any, weight_attr: Optional[str]) -> Store:
        """A store of the edges of a graph of PyG's, in a folder that goes with the loader; rows stay the graph's."""
        self._given, self._folder = data, tempfile.TemporaryDirectory(prefix="gstore-")
        if hasattr(data, "node_types"):
            found = structure(data)
            if weight_attr is not None:
                weights = [np.asarray(data[t][weight_attr], np.float32) for t in data.edge_types]
                found["edge_columns"] = {"weight": np.concatenate(weights)}
        else:
            edges = data.edge_index.shape[1]
            found = {"edges": tuple(data.edge_index), "num_nodes": data.num_nodes, "edge_columns": {}}
            if weight_attr is not None:
                found["edge_columns"]["weight"] = data[weight_attr]
            elif edges < _EXACT:
                self._by_edge = True
                found["edge_columns"]["e_id"] = np.arange(edges, dtype=np.int64)
        store = ingest(os.path.join(self._folder.name, "graph"), partitions=1, **found)
        self._finalizer = weakref.finalize(self, _removed, store, self._folder)
        return store

    def __iter__(self) -> Iterator[Any]:
        return super().__iter__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __call__(self, index: Any) -> Any:
        """The batch of some of the nodes, as PyG's loaders have it."""
        index = torch.as_tensor(index)
        of, nodes = self._input_nodes if isinstance(self._input_nodes, tuple) else (None, self._input_nodes)
        if isinstance(nodes, str):
            of, nodes = nodes, None
        if nodes is not None:
            nodes = torch.as_tensor(nodes)
            index = (nodes.nonzero()[:, 0] if nodes.dtype == torch.bool else nodes)[index]
        one = {
            **self._made,
            "input_nodes": index if of is None else (of, index),
            "batch_size": len(index),
            "shuffle": False,
            "sampler": None,
        }
        with type(self)(**one) as loader:
            return next(iter(loader)).clone()

    def _pyg(self, batch: Any) -> Any:
        """The batch as PyG has it."""
        found = batch.to_pyg(True if hasattr(self._given, "node_types") else None)
        if hasattr(found, "node_types"):
            for t in found.node_types:
                _renamed(found[t])
                if self._given is not None:
                    _filtered(self._given[t], found[t], self._given[t].num_nodes)
            if self._input_type is not None:
                found.input_type = self._input_type
            for t in found.edge_types if self._given is not None else ():
                self._numbered(found, t)
        else:
            _renamed(found)
            if self._given is not None:
                _filtered(self._given, found, self._given.num_nodes)
            self._edges(found)
        return found if self._then is None else self._then(found)

    def _numbered(self, found: Any, t: Tuple[str, str, str]) -> None:
        """Numbers of a HeteroData's edges of a type, and what it has of them. Edges of the same two ends are numbered in turn."""
        given, edges = self._given[t], found[t]
        n = self._given[t[2]].num_nodes
        if t not in self._ends:
            keys = np.asarray(given.edge_index[0]).astype(np.int64) * n + np.asarray(given.edge_index[1])
            order = np.argsort(keys, kind="stable")
            self._ends[t] = keys[order], order
        ascending, order = self._ends[t]
        src, dst = found[t[0]].n_id[edges.edge_index[0]], found[t[2]].n_id[edges.edge_index[1]]
        keys = (src * n + dst).cpu().numpy()
        mine = np.argsort(keys, kind="stable")
        turn = np.arange(len(keys)) - np.searchsorted(keys[mine], keys[mine])
        e_id = np.empty(len(keys), np.int64)
        e_id[mine] = order[np.searchsorted(ascending, keys[mine]) + turn]
        edges.e_id = torch.from_numpy(e_id)
        for name, rows in given.items():
            if name != "edge_index" and isinstance(rows, torch.Tensor) and rows.dim() and len(rows) == len(order):
                edges[name] = rows[edges.e_id.to(rows.device)]

    def _edges(self, found: Any) -> None:
        """Numbers of a Data's edges, and what it has of them."""
        if not self._by_edge or "edge_attr" not in found:
            return
        found.e_id = found.edge_attr.reshape(-1).long()
        del found["edge_attr"]
        for name, rows in self._given.to_dict().items():
            if name != "edge_index" and isinstance(rows, torch.Tensor) and self._given.is_edge_attr(name):
                found[name] = rows[found.e_id.to(rows.device)]


def _filtered(of: Any, found: Any, nodes: int) -> None:
    """Adds the rows of a batch's nodes that a graph in memory has."""
    for name, rows in of.to_dict().items():
        if isinstance(rows, np.ndarray) and rows.ndim and len(rows) == nodes:
            found[name] = torch.from_numpy(rows[found.n_id.cpu().numpy()])
        elif isinstance(rows, torch.Tensor) and rows.dim() and len(rows) == nodes and of.is_node_attr(name):
            found[name] = rows[found.n_id.to(rows.device)]


def _renamed(nodes: Any) -> None:
    if "ids" in nodes:
        nodes.n_id = nodes.ids
        del nodes["ids"]


def _columns(store: Store) -> Sequence[str]:
    """What PyG's loaders hand out of nodes beside features and labels."""
    own = [
        c.name
        for c in store.columns.values()
        if c.role == "node" and c.name != "node_type" and not c.name.endswith(".node")
    ]
    masks = ["train_mask", "val_mask", "test_mask"] if any(c.role == "split" for c in store.columns.values()) else []
    return own + [m for m in masks if _seeds.masks(store, m)]


def _removed(store: Store, folder: tempfile.TemporaryDirectory) -> None:
    store.close()
    folder.cleanup()
