"""Which nodes a loader's batches are of: what PyG's loaders call input_nodes, in the user's own ids."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from . import errors
from .store import PARTS, Store

_PARTS = ("train", "valid", "test")


class Seeds:
    """Nodes in an order: internal ids, each once, and where each was in what the user gave: its place in a list, or in a mask."""

    def __init__(self, nodes: np.ndarray, given: Optional[np.ndarray] = None):
        self.nodes = np.ascontiguousarray(nodes, np.int64)
        self.given = np.arange(len(self.nodes)) if given is None else given
        self.order = np.argsort(self.nodes, kind="stable")
        self.ascending = self.nodes[self.order]
        twice = np.flatnonzero(self.ascending[1:] == self.ascending[:-1])
        if len(twice):
            places = sorted(self.order[twice[0] : twice[0] + 2].tolist())
            raise errors.InvalidError(
                f"input_nodes {places[0]} and {places[1]} are one node: expected each once; draw some more often by sampler="
            )

    def places(self, nodes: np.ndarray) -> np.ndarray:
        """Where nodes, all of them seeds, are in what was given."""
        return self.given[self.order[np.searchsorted(self.ascending, nodes)]]

    def digest(self) -> str:
        """What tells these seeds, in their order, from others."""
        return hashlib.sha256(self.nodes.tobytes()).hexdigest()


def part(name: str) -> str:
    """The part of a split that a name says."""
    found = PARTS.get(name, name)
    if found not in _PARTS:
        raise errors.InvalidError(
            f"split {name!r}: expected {', '.join(map(repr, _PARTS))}, or None for all nodes; nodes of your own are input_nodes="
        )
    return found


def given(store: Store, nodes: Any) -> Seeds:
    """The seeds that input_nodes name, as `NeighborLoader` says."""
    of: Optional[str] = None
    if (
        isinstance(nodes, str)
        or isinstance(nodes, tuple)
        and len(nodes) == 2
        and isinstance(nodes[0], str)
        and not isinstance(nodes[1], str)
    ):
        of, nodes = (nodes, None) if isinstance(nodes, str) else nodes
        return Seeds(_of_type(store, of, nodes), None if nodes is None else _places(nodes))
    array = _array(nodes)
    if array.dtype == bool:
        return Seeds(_found(store, _masked(store, array, store.nodes, "nodes"), array), np.flatnonzero(array))
    return Seeds(_found(store, array, array))


def _of_type(store: Store, of: str, nodes: Any) -> np.ndarray:
    """Nodes of a type, by their ids in it."""
    first, count = store.type_range(of)
    if nodes is None and store.ids != "dense":
        return np.flatnonzero(store.types == list(store.node_types).index(of))
    if nodes is None:
        return store.lookup(np.arange(first, first + count))
    array = _array(nodes)
    if array.dtype == bool:
        array = _masked(store, array, count, f"nodes of type {of!r}")
    if store.ids == "strings":
        return _found(store, [f"{of}:{name}" for name in array.tolist()], array)
    if store.ids == "dense":
        if array.size and (int(array.min()) < 0 or int(array.max()) >= count):
            bad = array[(array < 0) | (array >= count)][0]
            raise errors.NotFoundError(f"input_nodes name {of!r} {bad}: there are {count}, numbered from 0")
        return _found(store, array.astype(np.int64) + first, array)
    found = _found(store, array, array)
    other = np.flatnonzero(store.types[found] != list(store.node_types).index(of))
    if len(other):
        raise errors.InvalidError(f"input_nodes name {_plain(array[other[0]])!r} as {of!r}, which is of another type")
    return found


def _places(nodes: Any) -> Optional[np.ndarray]:
    """The places of a mask that are set; None of a list."""
    array = _array(nodes)
    return np.flatnonzero(array) if array.dtype == bool else None


def _array(nodes: Any) -> np.ndarray:
    array = np.asarray(nodes.detach().cpu().numpy() if hasattr(nodes, "detach") else nodes)
    if array.ndim != 1 or array.size and array.dtype.kind not in "iubUOS":
        raise errors.InvalidError(
            f"input_nodes of {array.dtype} and shape {array.shape}: expected a list of ids, or a mask of bool"
        )
    if not array.size:
        raise errors.InvalidError("input_nodes name no node: expected one or more")
    return array


def _masked(store: Store, mask: np.ndarray, count: int, what: str) -> np.ndarray:
    """The numbers that a mask has."""
    if store.ids != "dense":
        raise errors.InvalidError(
            f"input_nodes as a mask: nodes of {store.path} have ids of their own ({store.ids}), no numbers that a mask goes by: give ids"
        )
    if len(mask) != count:
        raise errors.InvalidError(f"input_nodes as a mask of {len(mask)}: there are {count} {what}")
    if not mask.any():
        raise errors.InvalidError("input_nodes as a mask name no node: expected one or more")
    return np.flatnonzero(mask)


def _found(store: Store, ids: Any, named: np.ndarray) -> np.ndarray:
    """The internal ids of the user's."""
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "i" and ids.size and int(ids.min()) < 0:
        raise errors.NotFoundError(f"input_nodes name node {int(ids.min())}: expected ids of 0 or more")
    found = store.lookup(ids)
    if (found < 0).any():
        missing = np.flatnonzero(found < 0)
        raise errors.NotFoundError(
            f"input_nodes name {_plain(named[missing[0]])!r}, which is none of the {store.nodes} nodes of {store.path} ({len(missing)} in all)"
        )
    return found


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


class Draw:
    """An epoch whose batches are given: positions in the seeds, cut into batches, a node in each once."""

    def __init__(self, places: np.ndarray, batch_size: int, drop_last: bool):
        self.lists: List[np.ndarray] = []
        for k in range(0, len(places), batch_size):
            batch = places[k : k + batch_size]
            if drop_last and len(batch) < batch_size:
                break
            _, first = np.unique(batch, return_index=True)
            self.lists.append(batch[np.sort(first)])

    def arrays(self, seeds: Seeds) -> Tuple[np.ndarray, np.ndarray]:
        """What the library takes: all nodes, and where batches end."""
        ends = np.cumsum([len(x) for x in self.lists], dtype=np.int64) if self.lists else np.empty(0, np.int64)
        nodes = seeds.nodes[np.concatenate(self.lists)] if self.lists else np.empty(0, np.int64)
        return np.ascontiguousarray(nodes), np.ascontiguousarray(ends)


def drawn(sampler: Any, seeds: Seeds, batch_size: int, drop_last: bool) -> Draw:
    """An epoch of a sampler of PyTorch's: places in the seeds, or lists of them."""
    places: List[Any] = list(_flat(sampler))
    array = np.asarray(places, np.int64)
    if array.size and (int(array.min()) < 0 or int(array.max()) >= len(seeds.nodes)):
        raise errors.InvalidError(
            f"the sampler drew {int(array.max())}: expected places in the {len(seeds.nodes)} input_nodes"
        )
    return Draw(array, batch_size, drop_last)


def _flat(sampler: Any) -> Iterator[int]:
    for x in sampler:
        yield int(x)


def masks(store: Store, name: str) -> Dict[str, Any]:
    """The split column and value of PyG's name for a part's mask; {} where that is no such name."""
    known = {"train_mask": "train", "val_mask": "valid", "valid_mask": "valid", "test_mask": "test"}
    if name in store.columns or name not in known:
        return {}
    column = next((c.name for c in store.columns.values() if c.role == "split"), None)
    return {} if column is None else {"column": column, "value": 1 + _PARTS.index(known[name])}
