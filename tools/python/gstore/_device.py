"""Batches on a GPU: the memory that they lie in is registered as pinned once, and copied from beside the training.

A batch's copy is begun as soon as the library has sampled it, on a stream of its own, so that it is under way while the batch
before trains. The library writes to a batch's memory again when the batch after it is asked for, so that its copy is waited
for before that, which as a rule has ended long since.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Tuple

import numpy as np

from . import errors


class Sent(Protocol):
    """Copies of a batch's arrays that are under way."""

    def received(self) -> Dict[str, Any]:
        """The copies, for what is computed from now on: that waits for them, the caller does not."""

    def settle(self) -> None:
        """Waits until the arrays have been read."""


class Device(Protocol):
    """What copies go to."""

    def send(self, arrays: Mapping[str, np.ndarray]) -> Sent: ...
    def register(self, address: int, nbytes: int) -> None: ...
    def unregister(self, address: int) -> None: ...


class _CudaSent:
    def __init__(self, device: Any, tensors: Dict[str, Any], event: Any):
        self._device, self._tensors, self._event = device, tensors, event

    def received(self) -> Dict[str, Any]:
        import torch

        now = torch.cuda.current_stream(self._device)
        now.wait_event(self._event)
        for tensor in self._tensors.values():
            tensor.record_stream(now)  # its memory was taken on the other stream
        return self._tensors

    def settle(self) -> None:
        self._event.synchronize()


class Cuda:
    """A GPU of PyTorch's. What is registered counts as pinned for PyTorch too: `Tensor.is_pinned`."""

    def __init__(self, device: Any):
        import torch

        self.device = device
        self._stream = torch.cuda.Stream(device)

    def send(self, arrays: Mapping[str, np.ndarray]) -> _CudaSent:
        import torch

        with torch.cuda.stream(self._stream):
            tensors = {name: torch.from_numpy(a).to(self.device, non_blocking=True) for name, a in arrays.items()}
            event = torch.cuda.Event()
            event.record(self._stream)
        return _CudaSent(self.device, tensors, event)

    def register(self, address: int, nbytes: int) -> None:
        import torch

        runtime = torch.cuda.cudart()
        with torch.cuda.device(self.device):
            self._check(runtime, f"pinning {nbytes >> 20} MiB of batches", runtime.cudaHostRegister(address, nbytes, 1))  # 1: for every GPU

    def unregister(self, address: int) -> None:
        import torch

        runtime = torch.cuda.cudart()
        with torch.cuda.device(self.device):
            self._check(runtime, "unpinning batches", runtime.cudaHostUnregister(address))

    def _check(self, runtime: Any, what: str, code: Any) -> None:
        if int(code) != 0:
            raise errors.Error(f"{what} for {self.device}: {runtime.cudaGetErrorString(code)}; device=None leaves batches in host memory")


class Copies:
    """What a loader copies to a device, and the memory that is registered for that."""

    def __init__(self, device: Device, slabs: Callable[[], List[Tuple[int, int]]]):
        """slabs: where the loader's memory is by now, as (address, bytes). What was there stays."""
        self._device, self._slabs = device, slabs
        self._registered: Dict[int, int] = {}  # bytes by address
        self._flying: List[Sent] = []

    def send(self, arrays: Mapping[str, np.ndarray]) -> Sent:
        """Begins copies of a batch's arrays."""
        if any(a.nbytes and not self._pinned(a) for a in arrays.values()):
            for address, nbytes in self._slabs():
                if address not in self._registered:
                    self._device.register(address, nbytes)
                    self._registered[address] = nbytes
        self._flying.append(self._device.send(arrays))
        return self._flying[-1]

    def _pinned(self, array: np.ndarray) -> bool:
        return any(0 <= array.ctypes.data - at < nbytes for at, nbytes in self._registered.items())

    def settle(self, but: Optional[Sent] = None) -> None:
        """Waits until nothing of the loader's memory is being copied, or only what `but` is of."""
        for sent in self._flying:
            if sent is not but:
                sent.settle()
        self._flying = [] if but is None else [but]

    def close(self) -> None:
        """Ends copies and gives up what was registered; the memory is still there. A second call does nothing."""
        self.settle()
        while self._registered:
            self._device.unregister(self._registered.popitem()[0])


def chosen(device: Any) -> "Tuple[Any, str]":
    """The GPU that a loader's `device` names, as a Device, or None for host memory; and why."""
    name = "cpu" if device is None else str(device)
    if name == "cpu":
        return None, ""
    missing = _no_gpu()
    if name == "auto":
        if missing:
            return None, f"batches stay in host memory: {missing}"
        name = "cuda"
    if name.split(":")[0] != "cuda":
        raise errors.InvalidError(f"device {name!r}: expected 'cuda', 'cuda:1' …, 'auto' or 'cpu'")
    if missing:
        raise errors.InvalidError(f"device {name!r}: {missing}; device='auto' takes a GPU where there is one")
    import torch

    at = torch.device(name)
    at = torch.device("cuda", torch.cuda.current_device() if at.index is None else at.index)
    if at.index >= torch.cuda.device_count():
        raise errors.InvalidError(f"device {name!r}: there are {torch.cuda.device_count()} GPUs, counted from 0")
    return Cuda(at), f"batches are copied to {at}"


def _no_gpu() -> str:
    """Why there is no GPU; empty where there is one."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    return "" if torch.cuda.is_available() else f"PyTorch {torch.__version__} finds no GPU"
