"""Loaders: the mini-batches that `gstore train` trains on, for models written elsewhere."""

from __future__ import annotations

import weakref
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _lib, errors, sizes
from .store import Store

_START = {"step": 0, "pass": 0, "batch": 0}


class Layer(NamedTuple):
    """One hop's edges: a bipartite graph whose destinations are the first `num_dst` sources (DGL's blocks)."""

    edge_index: np.ndarray  #: int64 [2, edges]: source, destination
    indptr: np.ndarray  #: int64 [num_dst + 1]: edges of a destination
    num_src: int
    num_dst: int
    edge_type: Optional[np.ndarray]


class _Memory:
    """A loader's handle: it goes when the loader and every view of its batches are gone."""

    def __init__(self, handle: int):
        self.handle = handle
        weakref.finalize(self, _lib.drop, handle).atexit = False  # what is left then ends with the process


class Batch:
    """A mini-batch. Its arrays are views of the loader's memory, valid until the next batch is asked for.

    Nodes are numbered within the batch, seeds first; `n_id` says which they are.
    """

    def __init__(self, info: Dict[str, Any], arrays: Dict[str, np.ndarray], epoch: int):
        self._arrays = arrays
        self.epoch: int = epoch
        self.step: int = info["step"]  #: the macro-batch
        self.batch_size: int = info["batch_size"]  #: seeds: the first nodes
        self.n_id: np.ndarray = arrays["n_id"]  #: int64 [n]: internal ids
        self.features: Dict[str, np.ndarray] = {k[8:]: v for k, v in arrays.items() if k.startswith("feature:")}
        self.y: Optional[np.ndarray] = arrays.get("y")  #: int64 [n]: classes, −1 = none
        self.edge_index: Optional[np.ndarray] = arrays.get("edge_index")  #: int64 [2, e]; None with layers=True
        self.edge_type: Optional[np.ndarray] = arrays.get("edge_type")
        self.num_sampled_nodes: List[int] = info["nodes"]  #: by hop, seeds first
        self.num_sampled_edges: List[int] = info["edges"]  #: by hop
        shift = info.get("label_shift")
        #: float32 [classes] that a loss adds to the logits where the step's classes are not mixed as the graph's; or None
        self.label_shift: Optional[np.ndarray] = None if not shift else np.array(shift, np.float32)

    @property
    def x(self) -> Optional[np.ndarray]:
        """Rows of the first feature, [n, dim]."""
        return next(iter(self.features.values()), None)

    @property
    def layers(self) -> List[Layer]:
        """With layers=True: the input's layer first, as models take them."""
        if "indptr:0" not in self._arrays:
            raise errors.InvalidError("the loader was made without layers=True: its batches have one edge_index")
        found, k = [], 0
        while f"indptr:{k}" in self._arrays:
            indptr = self._arrays[f"indptr:{k}"]
            found.append(Layer(self._arrays[f"edge_index:{k}"], indptr, 0, len(indptr) - 1, self._arrays.get(f"edge_type:{k}")))
            k += 1
        ends = [len(self.n_id)] + [layer.num_dst for layer in found[:-1]]
        return [layer._replace(num_src=n) for layer, n in zip(found, ends)]

    def copy(self) -> "Batch":
        """The same batch in memory of its own."""
        other = Batch.__new__(Batch)
        other.__dict__ = dict(self.__dict__)
        other._arrays = {k: v.copy() for k, v in self._arrays.items()}
        other.n_id, other.y = other._arrays["n_id"], other._arrays.get("y")
        other.edge_index, other.edge_type = other._arrays.get("edge_index"), other._arrays.get("edge_type")
        other.features = {k[8:]: v for k, v in other._arrays.items() if k.startswith("feature:")}
        return other

    def to_pyg(self) -> Any:
        """A `torch_geometric.data.Data` as PyG's NeighborLoader yields: x, edge_index, y, n_id, batch_size,
        num_sampled_nodes and num_sampled_edges; features of other names under these. With layers=True `adjs` holds
        (edge_index, size) by layer instead of one edge_index. Tensors share the batch's memory; features of 16 bits
        become float32."""
        import torch
        from torch_geometric.data import Data

        data = Data()
        for k, (name, rows) in enumerate(self.features.items()):
            value = torch.from_numpy(rows)
            value = value.float() if value.dtype == torch.float16 else value
            data["x" if k == 0 else name.replace(".", "_")] = value
        data.n_id = torch.from_numpy(self.n_id)
        data.batch_size = self.batch_size
        data.input_id = data.n_id[: self.batch_size]
        if self.y is not None:
            data.y = torch.from_numpy(self.y)
        if self.edge_index is not None:
            data.edge_index = torch.from_numpy(self.edge_index)
            if self.edge_type is not None:
                data.edge_type = torch.from_numpy(self.edge_type)
        else:
            data.adjs = [(torch.from_numpy(layer.edge_index), (layer.num_src, layer.num_dst)) for layer in self.layers]
        data.num_nodes = len(self.n_id)
        data.num_sampled_nodes, data.num_sampled_edges = list(self.num_sampled_nodes), list(self.num_sampled_edges)
        if self.label_shift is not None:
            data.label_shift = torch.from_numpy(self.label_shift)
        return data

    def to_dgl(self) -> Any:
        """(input_nodes, output_nodes, blocks) as DGL's dataloader yields; the loader needs layers=True."""
        import dgl
        import torch

        blocks = []
        for layer in self.layers:
            csc = (torch.from_numpy(layer.indptr), torch.from_numpy(layer.edge_index[0]), torch.empty(0, dtype=torch.int64))
            blocks.append(dgl.create_block(("csc", csc), num_src_nodes=layer.num_src, num_dst_nodes=layer.num_dst))
        nodes = torch.from_numpy(self.n_id)
        for name, rows in self.features.items():
            blocks[0].srcdata[name] = torch.from_numpy(rows)
        if self.y is not None:
            blocks[-1].dstdata["label"] = torch.from_numpy(self.y[: self.batch_size])
        return nodes, nodes[: self.batch_size], blocks


class _Epoch:
    """One iteration over a loader."""

    def __init__(self, loader: "NeighborLoader", number: int):
        self._loader, self._number, self._ended = loader, number, False

    def __iter__(self) -> "_Epoch":
        return self

    def __next__(self) -> Batch:
        if self._ended:
            raise StopIteration
        if self._number != self._loader._iteration:
            raise errors.InvalidError("another iteration over the loader was begun")
        batch = self._loader._next()
        if batch is None:
            self._ended = True
            raise StopIteration
        return batch


class NeighborLoader:
    """Mini-batches of a store's nodes with sampled neighbours, in and out of memory.

    Batches are those of `gstore train` with the same store, seed, fanouts, batch size, plan and memory: macro-batches are
    read ahead and mini-batches sampled ahead on Go threads, with all of the graph in memory or a part at a time (`plan`).
    One seed gives the same batches for any number of threads.

    Iterating yields one epoch, another one each time: `loader.epoch` counts them. With `layers=False` a batch has one
    `edge_index`, the same kind of sample that PyG's NeighborLoader draws; with `layers=True` it has a layer a hop, as DGL
    and `gstore train` have them.

    fanouts: neighbours per node and hop, outward from the seeds; −1 = all.
    sampler: how neighbours are drawn, as --sampler of `gstore train`.
    split: whose nodes are the seeds: "train", "valid" or "test". split_column names another split than the store's first.
    plan: "auto", "memory", "hanoi" or "trainnodes" (not "rows"); mem bounds what gstore holds (partition buffer and batches, such as
    "8GiB"), buffer is the partitions in memory at once, reuse the extra passes over each macro-batch.
    precomputed_hop: also hand out the first feature's exact neighbourhood mean (`gstore precompute`) and sample one hop
    less.
    """

    def __init__(
        self,
        store: Store,
        fanouts: Sequence[int] = (15, 10),
        batch_size: int = 1000,
        split: str = "train",
        *,
        shuffle: bool = True,
        features: Optional[Sequence[str]] = None,
        sampler: str = "uniform",
        relations: bool = False,
        layers: bool = False,
        precomputed_hop: bool = False,
        plan: str = "auto",
        mem: Union[None, int, str] = None,
        buffer: int = 0,
        reuse: int = 0,
        seed: int = 0,
        threads: int = 0,
        split_column: str = "",
        io_engine: str = "auto",
        copy: bool = False,
    ):
        self.store = store
        self.copy = copy
        request = {
            "fanouts": list(fanouts), "batch_size": batch_size, "seeds": split, "split": split_column, "shuffle": shuffle,
            "features": list(features or []), "sampler": sampler, "relations": relations, "precomputed_hop": precomputed_hop, "plan": plan,
            "buffer": buffer, "reuse": reuse, "memory_bytes": sizes.parse(mem), "seed": seed, "threads": threads,
            "io_engine": io_engine, "layers": layers,
        }  # fmt: skip
        answer = _lib.call(store._handle, "loader", request)
        self._memory: Optional[_Memory] = _Memory(answer.handle)
        #: how it was configured: the plan that was chosen and why, partitions in memory, features
        self.config: Dict[str, Any] = answer.value
        decide = ("fanouts", "batch_size", "seeds", "split", "shuffle", "reuse", "seed", "sampler", "precomputed_hop", "relations")
        self._identity = {k: request[k] for k in decide}
        self._identity.update(plan=self.config["plan"], buffer=self.config["buffer"], version=store.version)
        self.epoch = 0  #: that comes next, or is under way
        self._place = dict(_START)  # of the next batch in it
        self._underway = False  # an iteration was begun and not ended
        self._resumes = False  # the next one begins at _place
        self._iteration = 0
        self._pending: Optional[_lib.Operation] = None  # a batch that was asked for
        store._users.add(self)

    def __repr__(self) -> str:
        return f"<gstore.NeighborLoader of {self.store.path!r}: plan {self.config['plan']}, epoch {self.epoch}>"

    def close(self) -> None:
        """Ends sampling and reading. Views of batches stay readable."""
        memory, self._memory = self._memory, None
        if memory is None:
            return
        if self._pending is None:
            _lib.call(memory.handle, "close")
        else:  # the loader's end ends what waits for a batch
            _lib.call(memory.handle, "close")
            self._pending.close()
        self._pending = None

    def __enter__(self) -> "NeighborLoader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _handle(self) -> int:
        if self._memory is None:
            raise errors.ClosedError("the loader is closed")
        return self._memory.handle

    def __iter__(self) -> Iterator[Batch]:
        """A whole epoch, or after `load_state_dict` the rest of one. One iteration at a time: a new one abandons the last,
        whose epoch counts as done."""
        if self._pending is not None:
            self._pending.close()
            self._pending = None
        if self._underway and not self._resumes:
            self.epoch, self._place = self.epoch + 1, dict(_START)
        self._resumes, self._underway = False, True
        _lib.call(self._handle(), "start", {"epoch": self.epoch, "place": self._place})
        self._iteration += 1
        return _Epoch(self, self._iteration)

    def _next(self) -> Optional[Batch]:
        """The next batch of the epoch, None at its end. An interrupt leaves the batch asked for, for the next call."""
        if self._pending is None:
            self._pending = _lib.Operation(self._handle(), "next")
        op = self._pending
        try:
            answer = op.wait()
        except errors.Error:
            self._pending = None
            op.close()
            raise
        self._pending = None
        info = answer.value
        arrays = {
            a["name"]: _lib.view(address, n, a["dtype"], a["shape"], self._memory)
            for a, (address, n) in zip(info["arrays"] or [], answer.arrays)
        }
        op.close()
        if info["end"]:
            self.epoch, self._place, self._underway = self.epoch + 1, dict(_START), False
            return None
        self._place = info["next"]
        batch = Batch(info, arrays, self.epoch)
        return batch.copy() if self.copy else batch

    def state_dict(self) -> Dict[str, Any]:
        """Where the loader is: the epoch, and the batch in it that comes next."""
        return {"epoch": self.epoch, "place": dict(self._place), "loader": dict(self._identity)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on where `state_dict` was taken: the next iteration yields the rest of that epoch."""
        if state["loader"] != self._identity:
            raise errors.InvalidError(f"the state is of another loader: {state['loader']}, this one is {self._identity}")
        self.epoch, self._place, self._resumes = state["epoch"], dict(state["place"]), True
