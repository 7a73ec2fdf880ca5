"""Loaders: the mini-batches that `gstore train` trains on, for models written elsewhere."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

import numpy as np

from . import _lib, _seeds, errors, sizes
from ._epochs import EpochBatch, Epochs
from .store import TYPES, Store, opened

_TYPES = "feature:" + TYPES
_L = TypeVar("_L", bound="NeighborLoader")


class Layer(NamedTuple):
    """One hop's edges: a bipartite graph whose destinations are the first `num_dst` sources (DGL's blocks)."""

    edge_index: np.ndarray  #: int64 [2, edges]: source, destination
    indptr: np.ndarray  #: int64 [num_dst + 1]: edges of a destination
    num_src: int
    num_dst: int
    edge_type: Optional[np.ndarray]
    edge_attr: Optional[np.ndarray]  #: float32 [edges, columns]: with edge_features


class Batch(EpochBatch):
    """A mini-batch. Its arrays are views of the loader's memory, valid until the next batch is asked for.

    Nodes are numbered within the batch, the `batch_size` seeds first; `n_id` says which they are.
    """

    input_id: Optional[np.ndarray] = None  #: int64 [batch_size]: where the seeds are in the loader's input_nodes, a list or a mask, as PyG's; None without

    def __init__(self, info: Dict[str, Any], arrays: Dict[str, np.ndarray], epoch: int, store: Store, columns: Sequence[str] = ()):
        super().__init__(info, arrays, epoch)
        self._store, self._columns = store, columns
        self.num_sampled_edges: List[int] = info["edges"]  #: by hop
        shift = info.get("label_shift")
        #: float32 [classes] that a loss adds to the logits where the step's classes are not mixed as the graph's; or None
        self.label_shift: Optional[np.ndarray] = None if not shift else np.array(shift, np.float32)

    @property
    def features(self) -> Dict[str, np.ndarray]:
        """Rows of each feature, [n, dim], by name."""
        return {k[8:]: v for k, v in self._arrays.items() if k.startswith("feature:") and k != _TYPES}

    @property
    def ids(self) -> np.ndarray:
        """The user's own ids of the batch's nodes, [n]: integers, or texts. They are read when they are asked for."""
        ids = self._store.external(self._host_ids())
        return ids.astype(np.int64) if ids.dtype != object else ids

    def column(self, name: str) -> np.ndarray:
        """Rows of any column of nodes, [n] or [n, dim], read when they are asked for; or "train_mask", "val_mask", "test_mask" of
        the store's first split, bool [n], or "ids"."""
        if name == "ids":
            return self.ids
        mask = _seeds.masks(self._store, name)
        if mask:
            return self._store.features(mask["column"], self._host_ids()) == mask["value"]
        return self._store.features(name, self._host_ids())

    def _host_ids(self) -> np.ndarray:
        n_id = self._arrays["n_id"]
        return n_id.cpu().numpy() if hasattr(n_id, "cpu") else n_id

    def _node_type(self) -> Optional[np.ndarray]:
        """int64 [n]: places in the store's node_types; None of one type, or where the store does not say."""
        if not self._store.typed:
            return None
        if _TYPES in self._arrays:
            numbers = self._arrays[_TYPES]
            return (numbers.cpu().numpy() if hasattr(numbers, "cpu") else numbers).reshape(-1).astype(np.int64) - 1
        if self._store.ids != "dense":
            return None
        return np.searchsorted(np.cumsum(list(self._store.node_types.values())), self.ids, side="right")

    @property
    def y(self) -> Optional[np.ndarray]:
        """int64 [n]: classes, −1 = none; of labels that are numbers float32 [n], NaN = none; of nodes with several labels
        float32 [n, labels] of 0 and 1, NaN = not known."""
        return self._arrays.get("y")

    @property
    def x(self) -> Optional[np.ndarray]:
        """Rows of the first feature, [n, dim]."""
        return next(iter(self.features.values()), None)

    @property
    def edge_attr(self) -> Optional[np.ndarray]:
        """float32 [e, columns]: of the sampled edges, what edge_features names, side by side; None without, or where a layer has its own."""
        return self._arrays.get("edge_attr")

    @property
    def layers(self) -> List[Layer]:
        """With layers=True: the input's layer first, as models take them."""
        if "indptr:0" not in self._arrays:
            raise errors.InvalidError("the loader was made without layers=True: its batches have one edge_index")
        found, k = [], 0
        while f"indptr:{k}" in self._arrays:
            indptr = self._arrays[f"indptr:{k}"]
            edges = {name: self._arrays.get(f"{name}:{k}") for name in ("edge_type", "edge_attr")}
            found.append(Layer(self._arrays[f"edge_index:{k}"], indptr, 0, len(indptr) - 1, **edges))
            k += 1
        ends = [len(self.n_id)] + [layer.num_dst for layer in found[:-1]]
        return [layer._replace(num_src=n) for layer, n in zip(found, ends)]

    def to_torch(self) -> Any:
        """The same batch with PyTorch's tensors instead of arrays. On a GPU, the loader's `device`, they are the batch's own
        and stay; in host memory they are views as the arrays are."""
        batch = super().to_torch()
        if self.label_shift is not None:
            import torch

            batch.label_shift = torch.as_tensor(self.label_shift).to(batch.n_id.device, non_blocking=True)
        return batch

    def to_pyg(self, hetero: Optional[bool] = None) -> Any:
        """A `torch_geometric.data.Data` as PyG's NeighborLoader yields: x, edge_index, y, n_id, input_id, batch_size,
        num_sampled_nodes and num_sampled_edges; features of other names under these, and what the loader's `columns` name. With
        layers=True `adjs` holds (edge_index, size) by layer instead of one edge_index. Tensors are those of `to_torch`; features
        of 16 bits become float32.

        A store of several types of nodes gives a `HeteroData` with the same of each type of nodes and edges: x without other
        types' rows, edge_index between places in its two types. hetero=False gives Data of it, and hetero=True HeteroData of a
        store of one type of nodes and several relations. n_id are internal ids; "ids" among `columns` gives the user's."""
        try:
            from torch_geometric import data as _
        except ModuleNotFoundError as e:
            raise ModuleNotFoundError(f"to_pyg needs PyTorch and PyG, of which {e.name} is not installed: pip install torch torch_geometric; the batch itself has numpy's arrays", name=e.name) from None
        from . import _data

        if hetero is None:
            hetero = self._node_type() is not None and self.edge_index is not None and (self.edge_type is not None or len(self._store.relations) == 1)
        return _data.hetero(self) if hetero else _data.plain(self)

    def to_dgl(self) -> Any:
        """(input_nodes, output_nodes, blocks) as DGL's dataloader yields; the loader needs layers=True."""
        import dgl

        blocks, batch = [], self.to_torch()
        for layer in batch.layers:
            csc = (layer.indptr, layer.edge_index[0], layer.indptr.new_empty(0))
            blocks.append(dgl.create_block(("csc", csc), num_src_nodes=layer.num_src, num_dst_nodes=layer.num_dst))
            if layer.edge_attr is not None:
                blocks[-1].edata["edge_attr"] = layer.edge_attr
        for name, rows in batch.features.items():
            blocks[0].srcdata[name] = rows
        if batch.y is not None:
            blocks[-1].dstdata["label"] = batch.y[: self.batch_size]
        return batch.n_id, batch.n_id[: self.batch_size], blocks


def _joined(store: Store, key: Tuple[str, str, str]) -> str:
    """The relation of PyG's edge type: its name here is the parts with ":" between them, or from a HeteroData with "__"."""
    names = [":".join(key), "__".join(key)]
    return next((name for name in names if name in store.relations), names[0])


def _relation_fanouts(store: Store, fanouts: Mapping[Union[str, Tuple[str, str, str]], Sequence[int]]) -> Tuple[List[int], str]:
    """Fanouts of relations that are not named, and --relation-fanouts of `gstore train`."""
    named: Dict[str, List[int]] = {}
    for key, values in fanouts.items():
        if isinstance(values, (int, str)):
            raise errors.InvalidError(f"fanouts of {key!r} are {values!r}: expected a list with a number for each hop, such as [10, 5]")
        if not isinstance(key, str) and not (isinstance(key, tuple) and len(key) == 3 and all(isinstance(part, str) for part in key)):
            raise errors.InvalidError(f'fanouts of {key!r}: expected a relation\'s name, ("source", "name", "destination") or "*"')
        named[key if isinstance(key, str) else _joined(store, key)] = list(values)
    if len({len(values) for values in named.values()}) > 1:
        raise errors.InvalidError(f"fanouts {named}: the number of hops must be the same across all relations")
    others = named.pop("*", None)
    if not store.of_kinds:  # edges of one kind, whose fanouts those are that name it
        unknown = [name for name in named if name not in store.relations]
        if unknown or not named and others is None:
            raise errors.InvalidError(f'fanouts of {unknown or "no relation"}: the edges here are of one kind, {store.relations}; name that, or "*"')
        return next(iter(named.values()), others or []), ""
    if others is None:
        missing = [name for name in store.relations if name not in named and ":".join(name.split(":")[1:-1]) not in named]
        if missing or not named:
            raise errors.InvalidError(f'fanouts name no {missing or "relation"}: expected all of the store\'s relations, or "*" for the others')
        others = next(iter(named.values()))
    return others, ";".join(f"{name}={','.join(map(str, values))}" for name, values in named.items())


class NeighborLoader(Epochs):
    """Mini-batches of a store's nodes with sampled neighbours, in and out of memory.

    Batches are those of `gstore train` with the same store, seed, fanouts, batch size, plan and memory: macro-batches are
    read ahead and mini-batches sampled ahead on Go threads, with all of the graph in memory or a part at a time (`plan`).
    One seed gives the same batches for any number of threads.

    Iterating yields one epoch, another one each time: `loader.epoch` counts them. With `layers=False` a batch has one
    `edge_index`, the same kind of sample that PyG's NeighborLoader draws; with `layers=True` it has a layer a hop, as DGL
    and `gstore train` have them.

    fanouts: neighbours per node and hop, outward from the seeds; −1 = all. A dict has them of each relation, as PyG's:
    {("package", "depends", "package"): [10, 5], "provides": [5, 5], "*": [2, 2]}, where "*" are all others. It implies relations, unless the store's edges are of one kind.
    A list is of all relations together, as in `gstore train`, but on stores of several types of nodes of each, as PyG's.
    −1 takes the whole topology in memory (plan "memory" or "rows"), and is refused where `mem` has no room for it, unless
    absent="ignore" says that neighbours outside memory do not count.
    sampler: how neighbours are drawn, as --sampler of `gstore train`; or an object that draws places in input_nodes, such as
    PyTorch's or PyG's ImbalancedSampler: in plan memory; a batch has each node once, and an epoch is resumed at its beginning.
    prune: (1, 1) draws from a part of long lists, as --x prune.
    walks: of sampler "pinsage", walks from a node, their steps, and the probability that one ends after a step: (10, 2, .5).
    store: what `gstore.open` returns, or its path.
    split: whose nodes are the seeds: "train", "valid" ("val") or "test", or None for all nodes. split_column names another split
    than the store's first.
    input_nodes: the seeds, instead of a split's, as PyG's: a list, array or tensor of the user's own ids (what `lookup` takes;
    of a store of from_pyg, PyG's numbers), a mask over these, a split's part, a type of nodes, or (type, ids or mask in it). They are not internal
    ids: of these, `store.external(nodes)` are the user's. With shuffle=False and plan memory batches have them in this order.
    drop_last: no batch has fewer seeds than batch_size; out of core every step leaves its rest out.
    transform: called with each batch; what it returns is handed out.
    columns: what else `to_pyg` hands out of nodes: any column's name, "train_mask", "val_mask", "test_mask", or "ids", the user's own.
    relations: hand out edge_type; by default of stores of several types of nodes. inverse=True also draws a directed graph's edges against their direction, as types of their own, as R-GCN does.
    plan: "auto", "memory", "rows", "hanoi" or "trainnodes"; mem bounds what gstore holds (partition buffer and batches, such as
    "8GiB"; by default three quarters of what the machine or the cgroup has, unless the graph is small), buffer is the partitions in memory at once, reuse the extra passes over each macro-batch. Plan rows holds the
    graph and reads features by the batch, as --x row-reads of `gstore train` says: "auto", "cached" or "packed". Which changes
    no batch.
    rank, world_size: of processes that train one model together, each with a loader of the same arguments but rank. Each has
    its part of every epoch: all do equally many mini-batches, and their seeds together are the epoch's of one. Steps are
    dealt, so that a partition is read by one rank; where there are fewer than ranks, as in memory, their batches are.
    edge_features: columns of edges that batches hand out as edge_attr, side by side and as float32: features, "weight", times. Not
    in plan rows, which is not chosen then.
    precomputed_hop: also hand out the first feature's exact neighbourhood mean (`gstore precompute`) and sample one hop
    less.
    device: "cuda", "cuda:1" … or a torch.device: tensors of batches are on that GPU, copied ahead from pinned memory. "auto" is a
    GPU where there is one, which `loader.device` says.

    A loader is pickled as what makes it again, at the same place: each process opens the store by itself.
    """

    def __init__(
        self,
        store: Union[Store, str, os.PathLike],
        fanouts: Union[Sequence[int], Mapping[Union[str, Tuple[str, str, str]], Sequence[int]]] = (15, 10),
        batch_size: int = 1000,
        split: Optional[str] = "train",
        *,
        input_nodes: Any = None,
        shuffle: bool = True,
        drop_last: bool = False,
        transform: Optional[Callable[[Any], Any]] = None,
        features: Optional[Sequence[str]] = None,
        columns: Sequence[str] = (),
        sampler: Any = "uniform",
        prune: Optional[Tuple[float, float]] = None,
        walks: Optional[Tuple[int, int, float]] = None,
        relations: Optional[bool] = None,
        inverse: bool = False,
        edge_features: Union[None, str, Sequence[str]] = None,
        layers: bool = False,
        precomputed_hop: bool = False,
        absent: str = "",
        plan: str = "auto",
        mem: Union[None, int, str] = None,
        buffer: int = 0,
        reuse: int = 0,
        row_reads: str = "auto",
        seed: int = 0,
        threads: int = 0,
        split_column: str = "",
        rank: int = 0,
        world_size: int = 1,
        io_engine: str = "auto",
        copy: bool = False,
        device: Any = None,
    ):
        made = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        self.copy, self.transform = copy, transform
        store, of_relations = opened(store), ""
        made["store"] = store
        self._made = made  # for who pickles it
        if isinstance(fanouts, Mapping):
            fanouts, of_relations = _relation_fanouts(store, fanouts)
            relations = store.of_kinds if relations is None else relations or store.of_kinds
        if not list(fanouts):
            raise errors.InvalidError("no fanouts: expected neighbours per node, hop by hop, such as [15, 10]")
        if relations is None:
            relations = store.typed and store.of_kinds and edge_features is None and not precomputed_hop
        if relations and store.typed and store.of_kinds and not of_relations:  # as PyG: so many of each type of edges
            of_relations = ";".join(f"{name}={','.join(map(str, fanouts))}" for name in store.relations)
        self._node_columns = [columns] if isinstance(columns, str) else list(columns)
        for name in self._node_columns:
            if name != "ids" and not _seeds.masks(store, name):
                store._column(name)
        split, self._seeds = _whose(store, split, input_nodes)
        self._sampler, self._batch_size, self._drop_last = None if isinstance(sampler, str) else sampler, batch_size, drop_last
        if self._sampler is not None:
            if self._seeds is None:
                self._seeds = _seeds.Seeds(store.split(split_column or None)[split or "train"])
            sampler = "uniform"
        request = {
            "fanouts": list(fanouts), "batch_size": batch_size, "seeds": split or "", "split": split_column, "shuffle": shuffle,
            "relation_fanouts": of_relations, "inverse": inverse, "absent": absent, "drop_last": drop_last,
            "features": _with_types(store, [features] if isinstance(features, str) else list(features or []), precomputed_hop), "sampler": sampler, "relations": relations,
            "precomputed_hop": precomputed_hop, "plan": plan,
            "buffer": buffer, "reuse": reuse, "row_reads": row_reads, "memory_bytes": sizes.parse(mem), "seed": seed, "threads": threads,
            "io_engine": io_engine, "layers": layers, "rank": rank, "world": world_size,
        }  # fmt: skip
        if edge_features is not None:
            request["edge_features"] = [edge_features] if isinstance(edge_features, str) else list(edge_features)
        if prune is not None:
            request["prune"] = ",".join(str(float(x)) for x in prune)
        if walks is not None:
            request["walks"], request["walk_length"], request["walk_restart"] = walks
        decide: Tuple[str, ...] = ("fanouts", "batch_size", "seeds", "split", "shuffle", "reuse", "seed", "sampler", "precomputed_hop", "relations", "rank", "world")
        for name in ("edge_features", "prune", "walks", "walk_length", "walk_restart"):
            decide += (name,) if name in request else ()
        for name in ("relation_fanouts", "inverse", "drop_last", "absent"):
            decide += (name,) if request[name] else ()
        arrays = []
        if self._seeds is not None:
            request["given"] = True
            arrays = [self._seeds.ascending]
        if relations and inverse and store.typed:
            raise errors.InvalidError("inverse=True on a store of several types of nodes: a type of edges has one direction: add edges the other way as relations of their own")
        self._begin(store, "loader", request, decide, device, arrays)
        if self._seeds is not None:
            self._identity["input_nodes"] = self._seeds.digest()
        # Plan memory has any nodes at hand: batches are those that are asked for, in their order.
        self._ordered = self._seeds is not None and input_nodes is not None and not shuffle and self.config["plan"] == "memory" and world_size == 1
        if self._sampler is not None and (self.config["plan"] != "memory" or world_size > 1):
            plan = self.config["plan"]
            self.close()
            raise errors.InvalidError(f"a sampler object with plan {plan} on {world_size} ranks: it draws nodes from everywhere: expected plan memory on one; leave mem out")
        self._drawn: Optional[_seeds.Draw] = None

    def __len__(self) -> int:
        """Batches of the epoch that comes next, or is under way, whole; out of core epochs differ by a few."""
        if self._sampler is not None:
            n = len(self._sampler)
            return n // self._batch_size if self._drop_last else -(-n // self._batch_size)
        return int(_lib.call(self._handle(), "batches", {"epoch": self.epoch}).value["batches"])

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Batch]:
        return super().__iter__()

    def __enter__(self: _L) -> _L:
        return self

    def __getstate__(self) -> Dict[str, Any]:
        """What makes the loader again, and where it is."""
        return {"made": self._made, "state": self.state_dict()}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__init__(**state["made"])  # type: ignore[misc]
        if state["state"]["epoch"] or any(state["state"]["place"].values()):
            self.load_state_dict(state["state"])

    def state_dict(self) -> Dict[str, Any]:
        """Where the loader is: the epoch, and the batch in it that comes next."""
        if self._sampler is not None and self._underway:
            raise errors.InvalidError("the state of an epoch under way whose batches a sampler object drew: they are known to it alone: ask at the end of an epoch")
        return super().state_dict()

    def _begins(self) -> List[np.ndarray]:
        self._drawn = None
        if self._seeds is None or self._sampler is None and not self._ordered:
            return []
        if self._sampler is not None:
            self._drawn = _seeds.drawn(self._sampler, self._seeds, self._batch_size, self._drop_last)
        else:
            self._drawn = _seeds.Draw(np.arange(len(self._seeds.nodes)), self._batch_size, self._drop_last)
        return list(self._drawn.arrays(self._seeds))

    def _batch(self, info: Dict[str, Any], arrays: Dict[str, np.ndarray]) -> Batch:
        batch = Batch(info, arrays, self.epoch, self.store, self._node_columns)
        if self._drawn is not None and self._seeds is not None:
            batch.input_id = self._seeds.given[self._drawn.lists[self._place["batch"] - 1]]
        elif self._seeds is not None:
            batch.input_id = self._seeds.places(batch.n_id[: batch.batch_size])
        return batch

    def _handed(self, batch: Any) -> Any:
        return batch if self.transform is None else self.transform(batch)


def _whose(store: Store, split: Optional[str], input_nodes: Any) -> Tuple[Optional[str], Optional[_seeds.Seeds]]:
    """The part of a split that batches are of, or the seeds that are named."""
    if isinstance(input_nodes, str) and input_nodes not in store.node_types:
        return _seeds.part(input_nodes), None
    if input_nodes is not None:
        return None, _seeds.given(store, input_nodes)
    if split is None:
        return None, _seeds.Seeds(np.arange(store.nodes))
    if not isinstance(split, str):
        raise errors.InvalidError(f"split of {type(split).__name__}: expected 'train', 'valid' or 'test'; nodes of your own are input_nodes=")
    return _seeds.part(split), None


def _with_types(store: Store, features: List[str], hop: bool) -> List[str]:
    """The features that batches hand out, with the types of nodes where there are several."""
    if not store.typed or TYPES not in store.columns or hop or TYPES in features:
        return features
    return (features or [c.name for c in store.columns.values() if c.role == "feature" and not c.derived]) + [TYPES]
