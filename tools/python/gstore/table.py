"""Embedding tables: learned rows of a store's nodes, stepped by Go, for models whose rest is PyTorch's."""

from __future__ import annotations

import os
import weakref
from typing import Any, Iterable, List, Optional, Tuple, Union

import numpy as np

from . import _lib, errors, sizes
from .store import Nodes, Store, _nodes, opened

_Store = Union[Store, str, "os.PathLike[str]"]


class EmbeddingTable:
    """One embedding a node, with the optimiser's state, in the store beside its partitions; it may exceed memory.

    >>> table = gstore.EmbeddingTable(store, "nodes", dim=100, optimizer="adagrad", lr=0.1, mem="2GiB", seed=1)
    >>> x = table.rows(nodes)                       # float32 [len(nodes), dim], requires grad
    >>> loss(model, x).backward()
    >>> table.step()                                # the gradient goes back; rows and their state are stepped
    >>> table.checkpoint(pickle.dumps(state))       # rows, optimiser and these bytes: all or nothing

    This makes a table; `EmbeddingTable.open` opens one at its last checkpoint. A table belongs to the store's version
    that it was made for, and has one opener at a time in all processes.

    name: of letters, digits, '-' and '_', unique in the store. An existing table is an ExistsError unless replace=True.
    optimizer: "adagrad" (one vector of state a row; lr .1 by default) or "adam" (two; lr .003; the moments of a row change
    in steps that have it, as in torch.optim.SparseAdam). They are those of `gstore train`.
    init: standard deviation of the first embeddings, normal numbers drawn by seed and node alone.
    keep: checkpoints that are kept; the file has room for all rows that often and once more.
    mem: bound of what is in memory, whole partitions with their state, such as "2GiB"; None: all of the table, as it is
    used. Results do not depend on it. The arrays of a batch are beside it.

    One thread at a time is served; calls wait for each other without the GIL.
    """

    def __init__(
        self,
        store: _Store,
        name: str,
        dim: int,
        *,
        optimizer: str = "adagrad",
        lr: Optional[float] = None,
        seed: int = 0,
        init: float = 0.001,
        keep: int = 1,
        replace: bool = False,
        mem: Union[None, int, str] = None,
        threads: int = 0,
        io_engine: str = "auto",
    ):
        if dim < 1 or keep < 1 or lr is not None and not lr > 0:
            raise errors.InvalidError(f"table {name!r} of dim {dim}, lr {lr}, {keep} checkpoints kept: expected dim and keep from 1, lr above 0")
        request = {
            "name": name, "create": True, "dim": dim, "optimizer": optimizer, "lr": lr or 0, "seed": seed, "scale": init,
            "keep": keep, "replace": replace, "memory_bytes": sizes.parse(mem), "threads": threads, "io_engine": io_engine,
        }  # fmt: skip
        self._open(store, request)

    @classmethod
    def open(
        cls, store: _Store, name: str, *, checkpoint: int = 0, mem: Union[None, int, str] = None, threads: int = 0, io_engine: str = "auto"
    ) -> "EmbeddingTable":
        """The table as it was at its last checkpoint, or at the kept one of that number, of which later ones are dropped:
        its rows, its optimiser, and in `data` the bytes that `checkpoint` was given."""
        table = cls.__new__(cls)
        table._open(store, {"name": name, "checkpoint": checkpoint, "memory_bytes": sizes.parse(mem), "threads": threads, "io_engine": io_engine})
        return table

    def _open(self, store: _Store, request: dict) -> None:
        if not request["name"]:
            raise errors.InvalidError("a table needs a name")
        self._drop: Optional[weakref.finalize] = None
        own = not isinstance(store, Store)
        self.store: Store = opened(store)
        self._owned: Optional[Store] = self.store if own else None
        try:
            answer = _lib.call(self.store._handle, "table", request)
        except BaseException:
            if own:
                self.store.close()
            raise
        self._handle = answer.handle
        self._drop = weakref.finalize(self, _lib.drop, answer.handle)
        self._drop.atexit = False  # what is left then ends with the process
        self.name: str = request["name"]
        self.nodes: int = answer.value["nodes"]
        self.dim: int = answer.value["dim"]
        self.optimizer: str = answer.value["optimizer"]
        self.lr: float = answer.value["lr"]  #: of the next step; may be set
        self.steps: int = answer.value["steps"]  #: taken
        self.last_checkpoint: int = answer.value["checkpoint"]  #: its number
        self.bytes_in_memory: int = answer.value["bytes_in_memory"]  #: at most
        self.data: bytes = answer.arrays[0]  #: what the checkpoint that was opened was given; b"" of a new table
        self._pending: List[Tuple[np.ndarray, Any]] = []  # rows that were handed out to be stepped
        self.store._users.add(self)

    def __repr__(self) -> str:
        return f"<gstore.EmbeddingTable {self.name!r} of {self.store.path!r}: {self.nodes} × {self.dim}, {self.optimizer}, {self.steps} steps>"

    def close(self) -> None:
        """Closes the table; steps since the last checkpoint are forgotten. A second call does nothing."""
        self._pending = []
        if self._drop is not None:
            self._drop()
        if self._owned is not None:
            owned, self._owned = self._owned, None
            owned.close()

    def __enter__(self) -> "EmbeddingTable":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, nodes: Nodes) -> np.ndarray:
        """The embeddings of nodes, in their order, float32 [len(nodes), dim]: an array of the caller's own."""
        ids = _nodes(nodes)
        rows = np.empty((len(ids), self.dim), np.float32)
        _lib.call(self._handle, "rows", {}, [ids, rows])
        return rows

    def rows(self, nodes: Nodes, device: Any = None) -> Any:
        """The embeddings of nodes as a torch tensor that requires grad, a copy on `device`; without PyTorch those of `read`.

        `step` takes its gradient. Under torch.no_grad() the tensor requires none and `step` knows nothing of it.
        """
        try:
            import torch
        except ImportError:
            return self.read(nodes)
        ids = _nodes(nodes).copy()  # the caller's array may change before the step
        tensor = torch.from_numpy(self.read(ids))
        if device is not None:
            tensor = tensor.to(device)
        if torch.is_grad_enabled():
            self._pending.append((ids, tensor.requires_grad_()))
        return tensor

    def step(self, rows: Any = None) -> None:
        """One optimiser step with the gradients of the tensors that `rows` handed out since the last step, or of one or some
        of them. A node that is there several times, in one tensor or in more, is stepped once, with the sum."""
        if rows is None:
            taken = self._pending
        else:
            given: Iterable[Any] = rows if isinstance(rows, (list, tuple)) else [rows]
            taken = [entry for tensor in given for entry in self._pending if entry[1] is tensor]
            if len(taken) != len(list(given)):
                raise errors.InvalidError("these are no rows of this table, or they were stepped: take them by rows(), step once; arrays go to apply()")
        graded = [(ids, tensor.grad) for ids, tensor in taken if tensor.grad is not None]
        if not graded:
            raise errors.InvalidError("no rows have a gradient: call rows(), backward() of a loss of them, then step(); arrays go to apply()")
        ids = np.concatenate([i for i, _ in graded])
        grads = np.concatenate([g.detach().cpu().numpy().astype(np.float32, copy=False) for _, g in graded])
        self._pending = [] if rows is None else [e for e in self._pending if not any(e[1] is t[1] for t in taken)]
        self.apply(ids, grads)

    def apply(self, nodes: Nodes, grads: Any) -> None:
        """One optimiser step with the gradients of nodes, [len(nodes), dim]; those of a node that is there several times are
        summed in their order. One that an interrupt finds begun is finished."""
        ids, rows = _nodes(nodes), np.ascontiguousarray(grads, np.float32)
        if rows.shape != (len(ids), self.dim):
            raise errors.InvalidError(f"gradients of shape {rows.shape} of {len(ids)} nodes: expected {(len(ids), self.dim)}")
        if len(ids):
            self.steps = _lib.call(self._handle, "step", {"lr": float(self.lr)}, [ids, rows]).value["steps"]

    def checkpoint(self, data: bytes = b"") -> int:
        """Makes the rows as they are, the optimiser and `data` (such as what torch.save wrote of the model) what `open` opens;
        returns the checkpoint's number. A crash at any moment leaves the last checkpoint or this one, whole."""
        self.last_checkpoint = _lib.call(self._handle, "checkpoint", {}, [np.frombuffer(data, np.uint8)]).value["checkpoint"]
        self.data = bytes(data)
        return self.last_checkpoint
