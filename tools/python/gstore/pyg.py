"""For scripts of PyG: its NeighborLoader by another import, and its remote backend over a store.

>>> from gstore.pyg import NeighborLoader
>>> loader = NeighborLoader(data, num_neighbors=[15, 10], input_nodes=data.train_mask, batch_size=1000, shuffle=True)

takes a store, or a graph of PyG's, and yields Data or HeteroData. With the backend PyG's own NeighborLoader and
LinkNeighborLoader run unchanged:

>>> from torch_geometric.loader import NeighborLoader
>>> loader = NeighborLoader(gstore.pyg.backend(store), [15, 10], input_nodes=torch.from_numpy(store.splits["train"]))

PyG samples in memory, so that the topology is: 8 bytes an edge and 8 a node. Features and labels stay on the disk: a batch
reads its rows. `gstore.NeighborLoader` is for graphs whose topology does not fit, and faster where it does.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import torch
import torch_geometric.data as pyg
from torch_geometric.data.graph_store import EdgeLayout

from . import errors
from ._loaders import NeighborLoader
from .store import Store

_Key = Tuple[Optional[str], Optional[str]]


def backend(store: Store) -> "Tuple[FeatureStore, GraphStore]":
    """What PyG's loaders take as `data`."""
    return FeatureStore(store), GraphStore(store)


def _one_type(store: Store) -> Optional[str]:
    """The group that nodes are in: None of a graph of one relation, as PyG's Data has it, the type's name of others."""
    types = store.schema["node_types"]
    if len(types) > 1:
        names = [t["name"] for t in types]
        raise errors.InvalidError(f"{store.path}: nodes of types {names}: PyG numbers each type's nodes apart, which is done for one type only")
    return types[0]["name"] if len(store.relations) > 1 else None


class FeatureStore(pyg.FeatureStore):
    """The store's features, by their names but for the first, which is "x", and its labels, "y". Indices are internal ids.
    Tensors that are put lie beside them in memory; the store's own are neither replaced nor removed."""

    def __init__(self, store: Store):
        super().__init__()
        self._store, self._group = store, _one_type(store)
        names = store.feature_names
        self._columns: Dict[str, str] = {name if k else "x": name for k, name in enumerate(names)}
        self._columns.update({"y": c.name for c in store.columns.values() if c.role == "label"})
        self._put: Dict[_Key, Tuple[Optional[np.ndarray], Any]] = {}  # the nodes of a tensor's rows, None = 0, 1, …

    def _column(self, attr: pyg.TensorAttr) -> Optional[str]:
        own = attr.group_name == self._group and (attr.group_name, attr.attr_name) not in self._put
        return self._columns.get(attr.attr_name) if own else None

    def _put_tensor(self, tensor: Any, attr: pyg.TensorAttr) -> bool:
        if self._column(attr) is not None:
            return False
        index = attr.index
        if index is not None:
            index = np.arange(len(tensor))[index] if isinstance(index, slice) else np.asarray(index)
        self._put[attr.group_name, attr.attr_name] = index, tensor
        return True

    def _get_tensor(self, attr: pyg.TensorAttr) -> Any:
        index, column = attr.index, self._column(attr)
        if column is not None:
            if isinstance(index, slice):
                index = np.arange(self._store.nodes)[index]
            rows = torch.from_numpy(self._store.features(column, index))
            return rows.long() if attr.attr_name == "y" else rows
        if (attr.group_name, attr.attr_name) not in self._put:
            raise KeyError(f"no tensor {attr.attr_name!r} of {attr.group_name!r}; there are {[(a.group_name, a.attr_name) for a in self.get_all_tensor_attrs()]}")
        nodes, tensor = self._put[attr.group_name, attr.attr_name]
        if index is None or isinstance(index, slice):
            return tensor if index is None else tensor[index]
        index = np.asarray(index)
        if nodes is not None:
            order = np.argsort(nodes, kind="stable")
            at = np.searchsorted(nodes, index, sorter=order)
            at = order[np.minimum(at, len(nodes) - 1)]
            if not np.array_equal(nodes[at], index):
                raise KeyError(f"tensor {attr.attr_name!r} has no rows of nodes {index[nodes[at] != index][:5].tolist()}")
            index = at
        return tensor[torch.from_numpy(index)] if isinstance(tensor, torch.Tensor) else tensor[index]

    def _remove_tensor(self, attr: pyg.TensorAttr) -> bool:
        return self._put.pop((attr.group_name, attr.attr_name), None) is not None

    def _get_tensor_size(self, attr: pyg.TensorAttr) -> Optional[Tuple[int, ...]]:
        column = self._column(attr)
        if column is not None and attr.index is None:
            dim = self._store.columns[column].dim
            return (self._store.nodes, dim) if dim > 1 else (self._store.nodes,)
        return tuple(self._get_tensor(attr).shape)

    def get_all_tensor_attrs(self) -> List[pyg.TensorAttr]:
        keys = [(self._group, name) for name in self._columns]
        return [pyg.TensorAttr(*key) for key in keys + list(self._put)]

    def __repr__(self) -> str:
        return f"gstore.pyg.FeatureStore({self._store!r})"


class GraphStore(pyg.GraphStore):
    """The store's edges as PyG samples from them: compressed by destination, read when they are first asked for and kept. A
    graph of several relations has an edge type of each, (type of nodes, relation, type of nodes). What is put lies beside."""

    def __init__(self, store: Store):
        super().__init__()
        self._store, self._group = store, _one_type(store)
        self._read: Dict[Optional[Tuple[str, str, str]], Tuple[torch.Tensor, torch.Tensor]] = {}
        self._put: Dict[Tuple, Any] = {}
        self._types: List[Optional[Tuple[str, str, str]]] = [None]
        if self._group is not None:
            self._types = [(self._group, name, self._group) for name in store.relations]

    @staticmethod
    def _key(attr: pyg.EdgeAttr) -> Tuple:
        return attr.edge_type, attr.layout, attr.is_sorted, attr.size

    def _own(self, attr: pyg.EdgeAttr) -> bool:
        return attr.edge_type in self._types and attr.layout == EdgeLayout.CSC

    def _edges(self) -> None:
        """Reads all edges."""
        near = self._store.neighbors(np.arange(self._store.nodes), relations=self._group is not None)
        indptr, nodes = torch.from_numpy(near.indptr), torch.from_numpy(near.nodes)
        if self._group is None:
            self._read[None] = nodes, indptr
            return
        dst = np.repeat(np.arange(self._store.nodes), np.diff(near.indptr))
        for kind, name in enumerate(self._types):
            of = near.relations == kind
            degrees = np.bincount(dst[of], minlength=self._store.nodes)
            self._read[name] = nodes[torch.from_numpy(of)], torch.from_numpy(np.concatenate([[0], np.cumsum(degrees)]))

    def _put_edge_index(self, edge_index: Any, edge_attr: pyg.EdgeAttr) -> bool:
        if self._own(edge_attr):
            return False
        self._put[self._key(edge_attr)] = edge_index
        return True

    def _get_edge_index(self, edge_attr: pyg.EdgeAttr) -> Any:
        if self._own(edge_attr):
            if not self._read:
                self._edges()
            return self._read[edge_attr.edge_type]
        return self._put.get(self._key(edge_attr))

    def _remove_edge_index(self, edge_attr: pyg.EdgeAttr) -> bool:
        return self._put.pop(self._key(edge_attr), None) is not None

    def get_all_edge_attrs(self) -> List[pyg.EdgeAttr]:
        n = self._store.nodes
        own = [pyg.EdgeAttr(edge_type=t, layout=EdgeLayout.CSC, is_sorted=True, size=(n, n)) for t in self._types]
        return own + [pyg.EdgeAttr(*key) for key in self._put]

    def __repr__(self) -> str:
        return f"gstore.pyg.GraphStore({self._store!r})"


__all__ = ["FeatureStore", "GraphStore", "NeighborLoader", "backend"]
