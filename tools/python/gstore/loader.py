"""Loaders: the mini-batches that `gstore train` trains on, for models written elsewhere."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _lib, errors, sizes
from ._epochs import EpochBatch, Epochs
from .store import PARTS, Store, opened


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

    def __init__(self, info: Dict[str, Any], arrays: Dict[str, np.ndarray], epoch: int):
        super().__init__(info, arrays, epoch)
        self.num_sampled_edges: List[int] = info["edges"]  #: by hop
        shift = info.get("label_shift")
        #: float32 [classes] that a loss adds to the logits where the step's classes are not mixed as the graph's; or None
        self.label_shift: Optional[np.ndarray] = None if not shift else np.array(shift, np.float32)

    @property
    def features(self) -> Dict[str, np.ndarray]:
        """Rows of each feature, [n, dim], by name."""
        return {k[8:]: v for k, v in self._arrays.items() if k.startswith("feature:")}

    @property
    def y(self) -> Optional[np.ndarray]:
        """int64 [n]: classes, −1 = none."""
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

    def to_pyg(self) -> Any:
        """A `torch_geometric.data.Data` as PyG's NeighborLoader yields: x, edge_index, y, n_id, batch_size,
        num_sampled_nodes and num_sampled_edges; features of other names under these. With layers=True `adjs` holds
        (edge_index, size) by layer instead of one edge_index. Tensors are those of `to_torch`; features of 16 bits
        become float32."""
        import torch
        from torch_geometric.data import Data

        data, batch = Data(), self.to_torch()
        for k, (name, value) in enumerate(batch.features.items()):
            data["x" if k == 0 else name.replace(".", "_")] = value.float() if value.dtype == torch.float16 else value
        data.n_id = batch.n_id
        data.batch_size = self.batch_size
        data.input_id = data.n_id[: self.batch_size]
        if batch.y is not None:
            data.y = batch.y
        if batch.edge_index is not None:
            data.edge_index = batch.edge_index
            if batch.edge_type is not None:
                data.edge_type = batch.edge_type
            if batch.edge_attr is not None:
                data.edge_attr = batch.edge_attr
        else:
            data.adjs = [(layer.edge_index, (layer.num_src, layer.num_dst)) for layer in batch.layers]
        data.num_nodes = len(self.n_id)
        data.num_sampled_nodes, data.num_sampled_edges = list(self.num_sampled_nodes), list(self.num_sampled_edges)
        if batch.label_shift is not None:
            data.label_shift = batch.label_shift
        return data

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
    sampler: how neighbours are drawn, as --sampler of `gstore train`. prune: (1, 1) draws from a part of long lists, as --x prune.
    walks: of sampler "pinsage", walks from a node, their steps, and the probability that one ends after a step: (10, 2, .5).
    store: what `gstore.open` returns, or its path.
    split: whose nodes are the seeds: "train", "valid" ("val") or "test". split_column names another split than the store's first.
    plan: "auto", "memory", "rows", "hanoi" or "trainnodes"; mem bounds what gstore holds (partition buffer and batches, such as
    "8GiB"), buffer is the partitions in memory at once, reuse the extra passes over each macro-batch. Plan rows holds the
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
    """

    def __init__(
        self,
        store: Union[Store, str, os.PathLike],
        fanouts: Union[Sequence[int], Mapping[Union[str, Tuple[str, str, str]], Sequence[int]]] = (15, 10),
        batch_size: int = 1000,
        split: str = "train",
        *,
        shuffle: bool = True,
        features: Optional[Sequence[str]] = None,
        sampler: str = "uniform",
        prune: Optional[Tuple[float, float]] = None,
        walks: Optional[Tuple[int, int, float]] = None,
        relations: bool = False,
        edge_features: Union[None, str, Sequence[str]] = None,
        layers: bool = False,
        precomputed_hop: bool = False,
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
        self.copy = copy
        store, of_relations = opened(store), ""
        if isinstance(fanouts, Mapping):
            fanouts, of_relations = _relation_fanouts(store, fanouts)
            relations = relations or store.of_kinds
        if not list(fanouts):
            raise errors.InvalidError("no fanouts: expected neighbours per node, hop by hop, such as [15, 10]")
        request = {
            "fanouts": list(fanouts), "batch_size": batch_size, "seeds": PARTS.get(split, split), "split": split_column, "shuffle": shuffle,
            "relation_fanouts": of_relations,
            "features": [features] if isinstance(features, str) else list(features or []), "sampler": sampler, "relations": relations, "precomputed_hop": precomputed_hop, "plan": plan,
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
        if of_relations:
            decide += ("relation_fanouts",)
        self._begin(store, "loader", request, decide, device)

    def __len__(self) -> int:
        """Batches of the epoch that comes next, or is under way, whole; out of core epochs differ by a few."""
        return int(_lib.call(self._handle(), "batches", {"epoch": self.epoch}).value["batches"])

    def __bool__(self) -> bool:
        return True

    def _batch(self, info: Dict[str, Any], arrays: Dict[str, np.ndarray]) -> Batch:
        return Batch(info, arrays, self.epoch)
