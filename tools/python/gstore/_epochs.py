"""What all loaders and their batches do: epochs of batches that the library makes ahead, and going on in the middle of one."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence, TypeVar

import numpy as np

from . import _device, _lib, errors
from .store import Store

_START = {"step": 0, "pass": 0, "batch": 0}


_B = TypeVar("_B", bound="EpochBatch")


class EpochBatch:
    """What a loader's batches have in common: arrays that are views of its memory, valid until the next batch."""

    _sent: Optional[Dict[str, Any]] = None  # the arrays on the loader's device, where that is a GPU

    def __init__(self, info: Dict[str, Any], arrays: Dict[str, np.ndarray], epoch: int):
        self._arrays: Dict[str, Any] = arrays
        self.epoch: int = epoch
        self.step: int = info["step"]  #: the macro-batch
        self.batch_size: int = info["batch_size"]  #: seeds, or edges
        self.num_sampled_nodes: List[int] = info["nodes"]  #: by hop, those that were asked for first

    def __repr__(self) -> str:
        return f"<gstore.{type(self).__name__} of {self.batch_size}: " + ", ".join(f"{k} {list(v.shape)}" for k, v in self._arrays.items()) + ">"

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
        return self._of({k: v.clone() if hasattr(v, "clone") else v.copy() for k, v in self._arrays.items()})

    def to_torch(self) -> Any:
        """The same batch with PyTorch's tensors instead of arrays. On a GPU, the loader's `device`, they are the batch's own
        and stay; in host memory they are views as the arrays are."""
        if self._sent is not None:
            return self._of(self._sent)
        import torch

        return self._of({k: torch.as_tensor(v) for k, v in self._arrays.items()})

    def _of(self: _B, arrays: Dict[str, Any]) -> _B:
        other = type(self).__new__(type(self))
        other.__dict__ = {**self.__dict__, "_arrays": arrays}
        return other


class _Memory:
    """A loader's handle: it goes when the loader and every view of its batches are gone."""

    def __init__(self, handle: int, copies: Optional[_device.Copies]):
        self.handle = handle
        weakref.finalize(self, _forget, handle, copies).atexit = False  # what is left then ends with the process


def _forget(handle: int, copies: Optional[_device.Copies]) -> None:
    if copies is not None and not _lib._forked:
        copies.close()  # what is registered is given up before it is freed
    _lib.drop(handle)


class _Epoch:
    """One iteration over a loader. It begins when its first batch is asked for: one that is never read costs nothing."""

    def __init__(self, loader: "Epochs"):
        self._loader, self._number, self._ended = loader, 0, False
        self._reader = 0  # the thread that asked first

    def __iter__(self) -> "_Epoch":
        return self

    def __next__(self) -> Any:
        loader = self._loader
        with loader._reading:  # threads may share an iterator: each batch goes to one of them
            if self._ended:
                raise StopIteration
            if not self._number:
                self._number, self._reader = loader._start(), threading.get_ident()
            if self._number != loader._iteration:
                raise errors.InvalidError("another iteration over the loader was begun")
            if self._reader != threading.get_ident() and not loader.copy:
                raise errors.InvalidError(
                    "a second thread reads this iterator, whose batches are views of memory that the next one overwrites: "
                    "make the loader with copy=True, or give each thread a loader"
                )
            batch = loader._next()
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
    device: str  #: where tensors of its batches are: "cpu", "cuda:0" …

    def _begin(self, store: Store, method: str, request: Dict[str, Any], decide: Sequence[str], device: Any, arrays: Sequence[np.ndarray] = ()) -> None:
        """Makes the loader by the library's method; batches follow from the request's keys `decide`, plan, buffer and store."""
        self.store = store
        for key in ("batch_size", "negatives", "chunks"):  # of which 0 would be the library's default
            if key in request and not request[key]:
                raise errors.InvalidError(f"{key} {request[key]}: expected 1 or more")
        gpu, why = _device.chosen(device)
        answer = _lib.call(store._handle, method, request, arrays)
        handle = answer.handle
        self._copies = None if gpu is None else _device.Copies(gpu, lambda: _lib.addresses(handle, "slabs"))
        self._ahead: Optional[_device.Sent] = None  # what comes next, where it is on its way already
        self._memory: Optional[_Memory] = _Memory(handle, self._copies)
        self.device = "cpu" if gpu is None else str(gpu.device)
        self.config = {**answer.value, "device": self.device}
        if why:
            self.config["why"] = [*(self.config["why"] or []), why]
        self._identity = {k: request[k] for k in decide}
        self._identity.update(plan=self.config["plan"], buffer=self.config["buffer"], version=store.version)
        self.epoch = 0
        self._place = dict(_START)  # of the next batch in it
        self._underway = False  # an iteration was begun and not ended
        self._resumes = False  # the next one begins at _place
        self._iteration = 0
        self._reading = threading.Lock()
        self._pending: Optional[_lib.Operation] = None  # a batch that was asked for
        store._users.add(self)

    def _batch(self, info: Dict[str, Any], arrays: Dict[str, np.ndarray]) -> Any:
        raise NotImplementedError

    def _begins(self) -> List[np.ndarray]:
        """What an epoch begins with: nothing, or the nodes of its batches and where each ends."""
        return []

    def _handed(self, batch: Any) -> Any:
        """What is handed out of a batch."""
        return batch

    def __repr__(self) -> str:
        return f"<gstore.{type(self).__name__} of {self.store.path!r}: plan {self.config['plan']}, epoch {self.epoch}>"

    def close(self) -> None:
        """Ends sampling and reading. Views of batches stay readable."""
        memory, self._memory = self._memory, None
        if memory is None:
            return
        _lib.call(memory.handle, "close")  # which ends what waits for a batch
        if self._copies is not None:
            self._copies.close()
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
        """A whole epoch, or after `load_state_dict` the rest of one. One iteration at a time: the first batch of a new one
        abandons the last, whose epoch counts as done. An iterator that is not read changes nothing. Threads may share one,
        of a loader with copy=True."""
        self._handle()  # a closed loader says so here
        return _Epoch(self)

    def _start(self) -> int:
        """Begins an iteration, and returns its number."""
        if self._pending is not None:
            self._pending.close()
            self._pending = None
        if self._underway and not self._resumes:
            self.epoch, self._place = self.epoch + 1, dict(_START)
        self._resumes, self._underway = False, True
        self._settle()
        _lib.call(self._handle(), "start", {"epoch": self.epoch, "place": self._place}, self._begins())
        self._iteration += 1
        return self._iteration

    def _next(self) -> Optional[Any]:
        """The next batch of the epoch, None at its end. An interrupt leaves the batch asked for, for the next call."""
        if self._pending is None:
            if self._copies is not None:
                self._copies.settle(but=self._ahead)  # the memory of the batch in hand is written to from now on
            self._pending = _lib.Operation(self._handle(), "next", {"ahead": self._copies is not None})
        op = self._pending
        try:
            answer = op.wait()
        except errors.Error:
            self._pending = None
            op.close()
            self._settle()
            raise
        self._pending = None
        info = answer.value
        views = [
            _lib.view(address, n, a["dtype"], a["shape"], self._memory)
            for a, (address, n) in zip((info["arrays"] or []) + info.get("ahead", []), answer.arrays)
        ]
        op.close()
        if info["end"]:
            self.epoch, self._place, self._underway = self.epoch + 1, dict(_START), False
            return None
        self._place = info["next"]
        arrays = {a["name"]: view for a, view in zip(info["arrays"], views)}
        batch = self._batch(info, arrays)
        if self._copies is not None:
            sent = self._ahead or self._copies.send(arrays)
            after = {a["name"]: view for a, view in zip(info.get("ahead", []), views[len(arrays) :])}
            self._ahead = self._copies.send(after) if after else None
            batch._sent = sent.received()
        return self._handed(batch.copy() if self.copy else batch)

    def _settle(self) -> None:
        """Gives up what is on its way to a GPU."""
        self._ahead = None
        if self._copies is not None:
            self._copies.settle()

    def state_dict(self) -> Dict[str, Any]:
        """Where the loader is: the epoch, and the batch in it that comes next."""
        return {"epoch": self.epoch, "place": dict(self._place), "loader": dict(self._identity)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on where `state_dict` was taken: the next iteration yields the rest of that epoch."""
        if state.get("loader") != self._identity:
            raise errors.InvalidError(f"the state is of another loader: {state.get('loader')}, this one is {self._identity}")
        self.epoch, self._place, self._resumes = state["epoch"], dict(state["place"]), True
