import gc

import numpy as np
import pytest

import gstore
from gstore import _device


class Late:
    """A GPU that copies as late as it may: what is sent is read when it is waited for, and empty until then."""

    device = "late:0"

    def __init__(self):
        self.registered, self.ever, self.sent = {}, [], 0

    def register(self, address, nbytes):
        assert address not in self.registered
        self.registered[address] = nbytes
        self.ever.append(address)

    def unregister(self, address):
        del self.registered[address]

    def send(self, arrays):
        for a in arrays.values():
            assert not a.nbytes or any(at <= a.ctypes.data and a.ctypes.data + a.nbytes <= at + n for at, n in self.registered.items())
        self.sent += 1
        return LateSent(arrays)


class LateSent:
    def __init__(self, arrays):
        self.arrays, self.copies = arrays, {k: np.full_like(a, -7) for k, a in arrays.items()}

    def received(self):
        return self.copies

    def settle(self):
        for k, a in self.arrays.items():
            self.copies[k][:] = a
        self.arrays = {}


@pytest.fixture
def late(monkeypatch):
    device = Late()
    chosen = _device.chosen
    monkeypatch.setattr(_device, "chosen", lambda name: (device, "late") if name == "late" else chosen(name))
    return device


def contents(batch):
    return {k: v.copy() for k, v in batch._arrays.items()}


def loaders(graph, links):
    """Ways to make loaders of all kinds: in memory, out of core, of rows, of links."""
    nodes = lambda **more: lambda **o: gstore.NeighborLoader(graph.store, [4, 3], 64, seed=7, threads=2, **more, **o)
    made = [nodes(), nodes(plan="hanoi", buffer=4, layers=True), nodes(plan="rows")]
    return made + [lambda **o: gstore.LinkLoader(links, 150, negatives=20, chunks=3, seed=7, plan="comet", buffer=6, threads=2, **o)]


@pytest.fixture(scope="module")
def links(tmp_path_factory):
    r = np.random.default_rng(2)
    store = gstore.ingest(tmp_path_factory.mktemp("links") / "s", r.integers(0, 700, (2, 4000)), partitions=12, num_nodes=700)
    yield store
    store.close()


@pytest.mark.parametrize("kind", range(4))
def test_copies(graph, links, late, kind):
    """Copies are the batches of a loader without a device: no memory is written to before what is copied of it was read."""
    make = loaders(graph, links)[kind]
    expected = [contents(b) for b in make()]
    loader = make(device="late")
    assert loader.device == loader.config["device"] == "late:0" and loader.config["why"][-1] == "late"
    batches, copies, ahead = iter(loader), [], 0
    for want in expected:
        batch = next(batches)
        ahead += loader._ahead is not None
        assert all(np.array_equal(batch._arrays[k], want[k]) for k in want)  # arrays in host memory stay those of the batch in hand
        copies.append(batch._sent)
    assert next(batches, None) is None
    assert len(copies) > 5 and all(got.keys() == want.keys() and all(np.array_equal(got[k], want[k]) for k in want) for got, want in zip(copies, expected))
    assert late.sent == len(expected) and (ahead > 0) == (kind != 2)  # of plan rows nothing is whole before it is in hand
    # An epoch that is left, another place gone to: what was ahead is dropped, and was read before its memory is used again.
    loader.epoch = 0
    next(iter(loader)), next(iter(loader))
    state = {**loader.state_dict(), "epoch": 0}
    loader.load_state_dict(state)
    resumed = [batch._sent for batch in loader]
    assert len(resumed) == len(expected) - 1 and all(np.array_equal(got["n_id"], want["n_id"]) for got, want in zip(resumed, expected[1:]))
    assert len(late.registered) == len(late.ever) == len(set(late.ever)) > 0
    loader.close()
    assert not late.registered
    loader.close()


def test_given_up(graph, late):
    """What is registered is given up before it is freed, also by a loader that is not closed but forgotten; views keep it."""
    loader = gstore.NeighborLoader(graph.store, [4], 64, device="late")
    for batch in loader:
        view = batch.x
    assert late.registered
    del loader, batch
    gc.collect()
    assert late.registered
    del view
    gc.collect()
    assert not late.registered and late.ever


def test_refused(graph):
    """Without a GPU "cuda" is refused, with a message that says what to do; "auto" goes on in host memory and says so."""
    for name in ("gpu", "mps:0"):
        with pytest.raises(gstore.InvalidError, match="expected 'cuda'"):
            gstore.NeighborLoader(graph.store, [4], 64, device=name)
    if _device._no_gpu():
        for make in (lambda: gstore.NeighborLoader(graph.store, [4], 64, device="cuda"), lambda: gstore.LinkLoader(graph.store, device="cuda:1")):
            with pytest.raises(gstore.InvalidError, match="device='auto'"):
                make()
        loader = gstore.NeighborLoader(graph.store, [4], 64, device="auto")
        assert loader.device == "cpu" and "host memory" in loader.config["why"][-1]
        assert next(iter(loader)).x is not None
    assert gstore.NeighborLoader(graph.store, [4], 64, device="cpu").device == "cpu"


@pytest.fixture
def cuda():
    """PyTorch, where it has a GPU."""
    missing = _device._no_gpu()
    if missing:
        pytest.skip(missing)
    import torch

    return torch


@pytest.mark.parametrize("kind", range(4))
def test_cuda(graph, links, cuda, kind):
    """On a GPU: tensors are the batches, kept ones stay, and memory is pinned as long as the loader is open."""
    make = loaders(graph, links)[kind]
    expected = [contents(b) for b in make()]
    loader = make(device="cuda")
    assert loader.device == "cuda:0"
    kept, view = [], None
    for batch in loader:
        view = cuda.from_numpy(batch.n_id)
        assert view.is_pinned()
        kept.append(batch.to_torch())
        cuda.cuda._sleep(10**6)  # training that is behind
    assert len(kept) == len(expected)
    for batch, want in zip(kept, expected):
        for name, tensor in batch._arrays.items():
            assert tensor.is_cuda and np.array_equal(tensor.cpu().numpy(), want[name])
    loader.close()
    assert not view.is_pinned()


def test_cuda_training(tmp_path, cuda):
    """PyG's SAGE trains out of core on the GPU."""
    pytest.importorskip("torch_geometric", reason="PyG is not installed")
    import sys

    from conftest import REPOSITORY

    sys.path.insert(0, str(REPOSITORY / "tools/python/examples"))
    import sage

    store = gstore.ingest(tmp_path / "cora", **sage.cora(REPOSITORY), undirected=True, partitions=16, partitioner="fennel", precompute_hops=1)
    options = dict(epochs=3, hidden=32, fanouts=(10, 5), batch_size=200, device="cuda")
    assert sage.train(store, **options) > 0.75
    assert sage.train(store, plan="hanoi", buffer=8, hop=True, history=True, **options) > 0.75
