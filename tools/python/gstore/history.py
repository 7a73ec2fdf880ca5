"""What neighbours outside memory add: states that a model had, for loaders of batches out of core."""

from __future__ import annotations

import weakref
from typing import Any, Dict, NamedTuple, Optional, Union, cast

import numpy as np

from . import _lib, errors, sizes
from .loader import Batch, NeighborLoader
from .store import _nodes

_CHUNK = 1 << 16  # nodes at a time


class Past(NamedTuple):
    """What completes the means of a batch's seeds: mean of sampled neighbours / divisor[:, None] + rest."""

    rest: np.ndarray  #: float32 [seeds, dim]: the sum of absent neighbours' states over all neighbours counted
    divisor: np.ndarray  #: float32 [seeds]: neighbours counted over neighbours in memory, 1 where none are

    @property
    def absent(self) -> np.ndarray:
        """bool [seeds]: whether neighbours that have a state are out of memory."""
        return (self.divisor > 1) | self.rest.any(1)


class History:
    """States of nodes below a model's last layer, as they were, for neighbours that a step of an out-of-core plan has not in memory.

    It is `gstore train --history` for a model of one's own whose last layer takes the mean over neighbours: with it, the mean of
    a seed is over all its neighbours, the sampled ones with gradient, the absent ones as they were pushed.

    >>> loader = gstore.NeighborLoader(store, [15, 10], plan="hanoi", mem="8GiB", layers=True)
    >>> history = gstore.History(loader, dim=128)
    >>> for epoch in range(30):
    ...     history.push(nodes, states)            # of all nodes, chunk by chunk, or of what batches computed
    ...     for batch in loader:
    ...         past = history.pull(batch)         # mean / past.divisor[:, None] + past.rest

    What an epoch pulls is of the states at its first `pull`: what is pushed later counts from the next epoch on, so that batches do
    not depend on each other. Neighbours that no state was pushed of are left out of the mean, as without a history.

    dim: columns of a state. dtype: what an epoch's rows are kept as: "float32", "float16" or "bfloat16".
    mem: bounds what a pass over the topology, once an epoch, takes beside the loader's own `mem`; default 256MiB. States, float32,
    and rows, one a training node, lie in temporary files in the store; memory has those of the step.
    """

    def __init__(self, loader: NeighborLoader, dim: int, *, dtype: str = "float32", mem: Union[None, int, str] = None, threads: int = 0):
        self.loader, self.dim, self.dtype = loader, int(dim), dtype
        request = {"dim": self.dim, "dtype": dtype, "memory_bytes": sizes.parse(mem), "threads": threads}
        handle = _lib.call(loader._handle(), "history", request).handle
        self._drop = weakref.finalize(self, _lib.drop, handle)
        self._drop.atexit = False  # what is left then ends with the process
        self._handle: int = handle
        loader.store._users.add(self)

    def __repr__(self) -> str:
        return f"<gstore.History of {self.loader!r}: {self.dim} columns of {self.dtype}>"

    def close(self) -> None:
        """Ends the history, whose files go. The store closes it too; without its loader it answers nothing any more."""
        self._drop()

    def push(self, nodes: Any, states: Any) -> None:
        """Sets states, [n, dim] of numpy or PyTorch, of n nodes by internal id, or of the first n of a batch."""
        states = states.detach().cpu().numpy() if hasattr(states, "detach") else states
        rows = np.ascontiguousarray(states, np.float32)
        if isinstance(nodes, Batch):
            nodes = nodes.n_id[: len(rows)]
        nodes = _nodes(nodes)
        if rows.shape != (len(nodes), self.dim):
            raise errors.InvalidError(f"states of shape {rows.shape} for {len(nodes)} nodes: expected {(len(nodes), self.dim)}")
        _lib.call(self._handle, "push", arrays=[nodes, rows])

    def pull(self, batch: Batch) -> Past:
        """What completes the means of the batch's seeds, which are of the loader's batch in hand."""
        seeds = _nodes(batch.n_id[: batch.batch_size])
        past = Past(np.empty((len(seeds), self.dim), np.float32), np.empty(len(seeds), np.float32))
        _lib.call(self._handle, "pull", arrays=[seeds, *past])
        return past

    def states(self, nodes: Any) -> "tuple[np.ndarray, np.ndarray]":
        """float32 [n, dim], 0 where nothing was pushed, and whether something was, bool [n]."""
        nodes = _nodes(nodes)
        rows, known = np.empty((len(nodes), self.dim), np.float32), np.empty(len(nodes), bool)
        _lib.call(self._handle, "states", arrays=[nodes, rows, known])
        return rows, known

    def state_dict(self, path: Optional[str] = None) -> Dict[str, Any]:
        """All states, and the rows of the epoch under way: with the loader's state, a run goes on to the same batches and means.

        path: of a new .npy file for the states, [nodes, dim], which then are a memory map; they may be more than memory holds.
        """
        nodes = self.loader.store.nodes
        if path is None:
            states = np.empty((nodes, self.dim), np.float32)
        else:
            states = np.lib.format.open_memmap(path, "w+", np.float32, (nodes, self.dim))
        known = np.empty(nodes, bool)
        for lo in range(0, nodes, _CHUNK):
            states[lo : lo + _CHUNK], known[lo : lo + _CHUNK] = self.states(np.arange(lo, min(lo + _CHUNK, nodes)))
        if path is not None:
            cast(np.memmap, states).flush()
        answer = _lib.call(self._handle, "past")
        rows = np.frombuffer(answer.arrays[0] if answer.arrays else b"", np.uint8)
        return {"dim": self.dim, "dtype": self.dtype, "epoch": answer.value["epoch"], "rows": rows, "states": states, "known": known}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Takes over what `state_dict` returned, of a loader that reads the same store with the same plan."""
        mine = (self.dim, self.dtype, (self.loader.store.nodes, self.dim))
        if (state["dim"], state["dtype"], state["states"].shape) != mine:
            raise errors.InvalidError(f"the state is of {state['dim']} columns of {state['dtype']}, {state['states'].shape}: expected {mine}")
        _lib.call(self._handle, "restore", {"epoch": int(state["epoch"])}, [np.ascontiguousarray(state["rows"], np.uint8)])
        for lo in range(0, len(state["known"]), _CHUNK):
            nodes = lo + np.flatnonzero(state["known"][lo : lo + _CHUNK])
            if len(nodes):
                self.push(nodes, state["states"][nodes])
