"""The shared library: one function, `call`, that starts an operation and waits for it.

Waiting releases the GIL and comes back every few hundredths of a second, so that Ctrl-C is heard. An operation that is
interrupted is cancelled; one that does not end at once, since it may still use the caller's arrays, is kept with them, and
the next call waits for it.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import sys
import threading
from typing import Any, Optional, Sequence

import numpy as np

from . import errors

ABI = 9
_WAIT_MS = 40

_Void = ctypes.c_void_p


class _Array(ctypes.Structure):
    _fields_ = [("data", _Void), ("bytes", ctypes.c_int64)]


class _Reply(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("arrays", ctypes.c_int32),
        ("handle", ctypes.c_int64),
        ("text_bytes", ctypes.c_int64),
        ("text", _Void),
        ("array", ctypes.POINTER(_Array)),
    ]


_library: Optional[ctypes.CDLL] = None
_lock = threading.Lock()
_forked = False


def _after_fork() -> None:
    global _forked, _lock
    _lock = threading.Lock()
    _forked = _library is not None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def path() -> pathlib.Path:
    """Where the shared library lies: beside this file, or where GSTORE_LIBRARY says."""
    named = os.environ.get("GSTORE_LIBRARY")
    if named:
        return pathlib.Path(named)
    return pathlib.Path(__file__).with_name("_gstore.dylib" if sys.platform == "darwin" else "_gstore.so")


def library() -> ctypes.CDLL:
    """The library, loaded when it is first needed."""
    global _library
    if _forked:
        raise errors.ForkError(
            "this process was forked from one that used gstore, whose threads did not come along: "
            "start processes by multiprocessing's 'spawn' or 'forkserver', or use gstore in the child only"
        )
    with _lock:
        if _library is None:
            try:
                lib = ctypes.CDLL(str(path()))
            except OSError as e:
                raise ImportError(
                    f"gstore's shared library cannot be loaded ({e}): install the package with Go on the path, "
                    "as pip install ./tools/python does, or name the library by GSTORE_LIBRARY"
                ) from e
            lib.gstore_abi.restype = ctypes.c_int32
            if lib.gstore_abi() != ABI:
                raise ImportError(f"{path()} speaks version {lib.gstore_abi()} of the ABI, this package {ABI}: install both anew")
            i64, i32 = ctypes.c_int64, ctypes.c_int32
            lib.gstore_start.argtypes = [i64, ctypes.c_char_p, i64, ctypes.c_char_p, i64, ctypes.POINTER(_Array), i32, ctypes.POINTER(i64)]
            lib.gstore_start.restype = None
            lib.gstore_wait.argtypes = [i64, i32, ctypes.POINTER(_Reply)]
            lib.gstore_wait.restype = i32
            for f in (lib.gstore_cancel, lib.gstore_release, lib.gstore_drop):
                f.argtypes, f.restype = [i64], i64
            _library = lib
    return _library


class Answer:
    """What a call came to: an object made of the reply's JSON, a handle, and the reply's arrays as (address, bytes)."""

    __slots__ = ("value", "handle", "arrays")

    def __init__(self, value: Any, handle: int, arrays: Any):
        self.value, self.handle, self.arrays = value, handle, arrays


def _plain(value: Any) -> Any:
    """A number or array of numpy's as JSON has it."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise errors.InvalidError(f"{value!r} of {type(value).__name__}: expected a number, a text or a list of them")


_ending: "list[Operation]" = []  # that were cancelled and had not ended: they hold on to their arrays


class Operation:
    """A call under way. `wait` may be interrupted and tried again; `close` must come in the end."""

    def __init__(self, handle: int, method: str, request: Optional[dict] = None, arrays: Sequence[np.ndarray] = ()):
        self._op = ctypes.c_int64(0)
        self._lib = library()
        self._keep = arrays  # in use until the operation is done
        name, text = method.encode(), json.dumps(request or {}, default=_plain).encode()
        table = (_Array * max(1, len(arrays)))()
        for i, a in enumerate(arrays):
            if not a.flags.c_contiguous:
                raise ValueError(f"array {i} of {method} is not contiguous")
            table[i] = _Array(a.ctypes.data, a.nbytes)
        # The operation's number is written by C: an interrupt between the call and an assignment would lose it.
        self._lib.gstore_start(handle, name, len(name), text, len(text), table, len(arrays), ctypes.byref(self._op))

    def wait(self) -> Answer:
        reply = _Reply()
        while not self._lib.gstore_wait(self._op.value, _WAIT_MS, ctypes.byref(reply)):
            pass
        text = ctypes.string_at(reply.text, reply.text_bytes) if reply.text_bytes else b""
        if reply.kind:
            raise errors.by_kind(reply.kind)(text.decode("utf-8", "replace"))
        arrays = [(reply.array[i].data or 0, reply.array[i].bytes) for i in range(reply.arrays)]
        return Answer(json.loads(text) if text else None, reply.handle, arrays)

    def ended(self) -> bool:
        """Waits a little, and says whether the operation is done."""
        return bool(self._lib.gstore_wait(self._op.value, _WAIT_MS, ctypes.byref(_Reply())))

    def close(self) -> None:
        """Cancels what is under way and forgets it, or leaves that to the next call where it does not end at once."""
        while self._op.value and not _forked:
            try:
                _check(self._lib.gstore_cancel(self._op.value))
                if not self.ended():
                    _ending.append(self)
                    return
                op, self._op.value = self._op.value, 0
                _check(self._lib.gstore_release(op))
            except KeyboardInterrupt:  # a second one: the arrays are still in use
                continue

    def __del__(self) -> None:
        if getattr(self, "_op", None) is not None:
            self.close()


def _check(failed: int) -> None:
    """Raises what a function of the library failed with, given the operation that says so; 0 says that it did not fail."""
    if failed:
        operation = Operation.__new__(Operation)
        operation._op, operation._lib, operation._keep = ctypes.c_int64(failed), library(), ()
        try:
            operation.wait()
        finally:
            operation.close()


def call(handle: int, method: str, request: Optional[dict] = None, arrays: Sequence[np.ndarray] = ()) -> Answer:
    """Calls a method and waits. The reply's arrays are copied to bytes, since they end with the call."""
    while _ending:
        if _ending[-1].ended():
            _ending.pop().close()
    op = None
    try:
        op = Operation(handle, method, request, arrays)
        answer = op.wait()
        if answer.arrays:
            answer.arrays = [ctypes.string_at(a, n) if n else b"" for a, n in answer.arrays]
        return answer
    finally:
        if op is not None:
            op.close()


def addresses(handle: int, method: str) -> "list[tuple[int, int]]":
    """Calls a method whose reply's arrays are an object's memory: their addresses and bytes."""
    op = Operation(handle, method)
    try:
        return list(op.wait().arrays)
    finally:
        op.close()


def drop(handle: int) -> None:
    """Closes an object and frees its memory, unless this is a forked child, where it is not its own."""
    if _library is not None and not _forked:
        _check(_library.gstore_drop(handle))


def view(address: int, nbytes: int, dtype: str, shape: Sequence[int], owner: object) -> np.ndarray:
    """Memory of the library as an array, without copying. The array keeps owner alive."""
    if not nbytes:
        return np.empty(shape, dtype)
    buffer: Any = (ctypes.c_char * nbytes).from_address(address)
    buffer._owner = owner
    return np.frombuffer(buffer, dtype).reshape(shape)


def counts() -> dict:
    """How many objects, operations and goroutines the library has: for tests."""
    return call(0, "counts").value
