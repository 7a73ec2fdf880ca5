"""What all loaders and their batches do: epochs of batches that the library makes ahead, and going on in the middle of one."""

from __future__ import annotations

import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence, TypeVar

import numpy as np

from . import _lib, errors
from .store import Store

_START = {"step": 0, "pass": 0, "batch": 0}


_B = TypeVar("_B", bound="EpochBatch")


class EpochBatch:
    """What a loader's batches have in common: arrays that are views of its memory, valid until the next batch."""

    def __init__(self, info: Dict[str, Any], arrays: Dict[str, np.ndarray], epoch: int):
        self._arrays = arrays
        self.epoch: int = epoch
        self.step: int = info["step"]  #: the macro-batch
        self.batch_size: int = info["batch_size"]  #: seeds, or edges
        self.num_sampled_nodes: List[int] = info["nodes"]  #: by hop, those that were asked for first

    @property
    def n_id(self) -> np.ndarray:
        """int64 [n]: internal ids of the batch's nodes, each once, those that were asked for first; places in it number them."""
        return self._arrays["n_id"]

    @property
    def edge_index(self) -> Optional[np.ndarray]:
        """int64 [2, e]: sampled edges, source and destination; None where there are none, or a layer has its own."""
        return self._arrays.get("edge_index")

    @property
    def edge_type(self) -> Optional[np.ndarray]:
        """int64 [e]: their relations, those against the edge counted on from the store's; None where there is one."""
        return self._arrays.get("edge_type")

    def copy(self: _B) -> _B:
        """The same batch in memory of its own."""
        other = type(self).__new__(type(self))
        other.__dict__ = {**self.__dict__, "_arrays": {k: v.copy() for k, v in self._arrays.items()}}
        return other


class _Memory:
    """A loader's handle: it goes when the loader and every view of its batches are gone."""

    def __init__(self, handle: int):
        self.handle = handle
        weakref.finalize(self, _lib.drop, handle).atexit = False  # what is left then ends with the process


class _Epoch:
    """One iteration over a loader."""

    def __init__(self, loader: "Epochs", number: int):
        self._loader, self._number, self._ended = loader, number, False

    def __iter__(self) -> "_Epoch":
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        if self._number != self._loader._iteration:
            raise errors.InvalidError("another iteration over the loader was begun")
        batch = self._loader._next()
        if batch is None:
            self._ended = True
            raise StopIteration
        return batch


class Epochs:
    """A loader of the library's. Who derives it calls _begin, and says by _batch what a batch is."""

    store: Store
    copy = False  #: whether batches are copied to memory of their own
    epoch: int  #: that comes next, or is under way
    config: Dict[str, Any]  #: how it was configured: the plan that was chosen and why, partitions in memory

    def _begin(self, store: Store, method: str, request: Dict[str, Any], decide: Sequence[str]) -> None:
        """Makes the loader by the library's method; batches follow from the request's keys `decide`, plan, buffer and store."""
        self.store = store
        answer = _lib.call(store._handle, method, request)
        self._memory: Optional[_Memory] = _Memory(answer.handle)
        self.config = answer.value
        self._identity = {k: request[k] for k in decide}
        self._identity.update(plan=self.config["plan"], buffer=self.config["buffer"], version=store.version)
        self.epoch = 0
        self._place = dict(_START)  # of the next batch in it
        self._underway = False  # an iteration was begun and not ended
        self._resumes = False  # the next one begins at _place
        self._iteration = 0
        self._pending: Optional[_lib.Operation] = None  # a batch that was asked for
        store._users.add(self)

    def _batch(self, info: Dict[str, Any], arrays: Dict[str, np.ndarray]) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<gstore.{type(self).__name__} of {self.store.path!r}: plan {self.config['plan']}, epoch {self.epoch}>"

    def close(self) -> None:
        """Ends sampling and reading. Views of batches stay readable."""
        memory, self._memory = self._memory, None
        if memory is None:
            return
        _lib.call(memory.handle, "close")  # which ends what waits for a batch
        if self._pending is not None:
            self._pending.close()
        self._pending = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _handle(self) -> int:
        if self._memory is None:
            raise errors.ClosedError("the loader is closed")
        return self._memory.handle

    def __iter__(self) -> Iterator[Any]:
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

    def _next(self) -> Optional[Any]:
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
        batch = self._batch(info, arrays)
        return batch.copy() if self.copy else batch

    def state_dict(self) -> Dict[str, Any]:
        """Where the loader is: the epoch, and the batch in it that comes next."""
        return {"epoch": self.epoch, "place": dict(self._place), "loader": dict(self._identity)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on where `state_dict` was taken: the next iteration yields the rest of that epoch."""
        if state["loader"] != self._identity:
            raise errors.InvalidError(f"the state is of another loader: {state['loader']}, this one is {self._identity}")
        self.epoch, self._place, self._resumes = state["epoch"], dict(state["place"]), True
