import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import gstore

ADAGRAD = dict(optimizer="adagrad", lr=0.1)
ADAM = dict(optimizer="adam", lr=0.01)


class Reference:
    """The optimisers as their papers have them, in float64, over the whole table."""

    def __init__(self, rows, optimizer, lr):
        self.x, self.kind, self.lr, self.t = rows.astype(np.float64), optimizer, lr, 0
        self.m, self.v = np.zeros_like(self.x), np.zeros_like(self.x)

    def apply(self, nodes, grads):
        self.t += 1
        u, at = np.unique(nodes, return_inverse=True)
        g = np.zeros((len(u), self.x.shape[1]))
        np.add.at(g, at, grads.astype(np.float64))
        if self.kind == "adagrad":
            self.v[u] += g * g
            self.x[u] -= self.lr * g / (np.sqrt(self.v[u]) + 1e-10)
            return
        self.m[u], self.v[u] = 0.9 * self.m[u] + 0.1 * g, 0.999 * self.v[u] + 0.001 * g * g
        self.x[u] -= self.lr * self.m[u] / (1 - 0.9**self.t) / (np.sqrt(self.v[u] / (1 - 0.999**self.t)) + 1e-8)


def batches(count, seed=1, nodes=3000, dim=7):
    """Nodes, some of them several times, and gradients."""
    r = np.random.default_rng(seed)
    for _ in range(count):
        ids = np.concatenate([r.integers(0, nodes, 300), r.integers(0, 20, 100)])
        yield ids, r.normal(size=(len(ids), dim)).astype(np.float32)


def every(table):
    return table.read(np.arange(table.nodes))


@pytest.mark.parametrize("options", [ADAGRAD, ADAM])
def test_steps(graph, options):
    """Steps are the optimiser's; a node that a batch has several times is stepped once, with the sum."""
    with gstore.EmbeddingTable(graph.store, "steps", 7, seed=3, init=0.5, replace=True, **options) as t:
        first = every(t)
        assert abs(first.std() - 0.5) < 0.02 and abs(first.mean()) < 0.02
        want = Reference(first, **options)
        for ids, grads in batches(20):
            t.apply(ids, grads)
            want.apply(ids, grads)
            assert np.allclose(t.read(ids), want.x[ids], atol=2e-5)
        assert np.allclose(every(t), want.x, atol=2e-5) and not np.allclose(first, want.x, atol=0.1)
        assert t.steps == 20 and t.read([]).shape == (0, 7)
        t.apply([], np.zeros((0, 7)))
        assert t.steps == 20


@pytest.mark.parametrize("options", [ADAGRAD, ADAM])
def test_memory_changes_nothing(graph, options):
    """One partition in memory at a time or all of them, one thread or two: the same bits."""
    planes = 2 if options is ADAGRAD else 3
    found, held = [], []
    for more in [dict(threads=1), dict(mem=planes * 3 * 8192, threads=2), dict(mem=planes * 8192, threads=2)]:
        with gstore.EmbeddingTable(graph.store, "memory", 7, replace=True, **options, **more) as t:
            for ids, grads in batches(5):
                t.read(ids[:50])
                t.apply(ids, grads)
            found.append(every(t))
            held.append(t.bytes_in_memory)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
    assert held == [planes * 12 * 8192, planes * 3 * 8192, planes * 8192]
    with pytest.raises(gstore.BudgetError, match=f"smallest that works is {planes * 8192} bytes"):
        gstore.EmbeddingTable.open(graph.store, "memory", mem=planes * 8192 - 1)


@pytest.mark.parametrize("options", [ADAGRAD, ADAM])
def test_checkpoint(graph, options):
    """A table that is opened goes on to the same bits; what came after the checkpoint is forgotten; earlier ones are kept."""
    steps = list(batches(9))
    with gstore.EmbeddingTable(graph.store, "kept", 7, seed=2, keep=2, replace=True, mem="64KiB", **options) as t:
        assert t.data == b"" and t.last_checkpoint == 1
        for ids, grads in steps[:3]:
            t.apply(ids, grads)
        third = every(t)
        assert t.checkpoint(b"three\0") == 2
        t.lr *= 0.5
        for ids, grads in steps[3:6]:
            t.apply(ids, grads)
        sixth, rate = every(t), t.lr
        assert t.checkpoint(b"six") == 3
        for ids, grads in steps[6:]:
            t.apply(ids, grads)
        last = every(t)
    with gstore.EmbeddingTable.open(graph.store.path, "kept") as t:  # a store of its own
        assert (t.data, t.steps, t.lr, t.optimizer, t.dim, t.last_checkpoint) == (b"six", 6, rate, options["optimizer"], 7, 3)
        assert np.array_equal(every(t), sixth)
        for ids, grads in steps[6:]:
            t.apply(ids, grads)
        assert np.array_equal(every(t), last)
    with gstore.EmbeddingTable.open(graph.store, "kept", checkpoint=2) as t:
        assert t.data == b"three\0" and t.steps == 3 and np.array_equal(every(t), third)


KILLED = """
import os, signal, sys
import numpy as np
import gstore

t = gstore.EmbeddingTable(sys.argv[1], "killed", 7, seed=4, replace=True, mem="48KiB", optimizer="adam")
r = np.random.default_rng(0)
for step in range(12):
    ids = r.integers(0, 3000, 500)
    t.apply(ids, r.normal(size=(500, 7)))
    if step == 5:
        rows = t.read(np.arange(3000)).tobytes()
        t.checkpoint(rows + b"rest")
        sys.stdout.buffer.write(rows)
        sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)  # with rows of later steps in the file
"""


def test_killed(graph):
    """Killed after steps that followed a checkpoint: opened, it has the checkpoint's rows and bytes, to the bit."""
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), graph.store.path], stdout=subprocess.PIPE, timeout=120)
    assert run.returncode == -signal.SIGKILL and len(run.stdout) == 3000 * 7 * 4
    with gstore.EmbeddingTable.open(graph.store, "killed") as t:
        assert t.steps == 6 and t.data == run.stdout + b"rest" and every(t).tobytes() == run.stdout
        r = np.random.default_rng(0)
        for step in range(12):
            ids, grads = r.integers(0, 3000, 500), r.normal(size=(500, 7))
            if step > 5:
                t.apply(ids, grads)
        went_on = every(t)
    with gstore.EmbeddingTable(graph.store, "uninterrupted", 7, seed=4, replace=True, optimizer="adam") as t:
        r = np.random.default_rng(0)
        for _ in range(12):
            ids = r.integers(0, 3000, 500)
            t.apply(ids, r.normal(size=(500, 7)))
        assert np.array_equal(every(t), went_on)


def test_table_errors(graph):
    s = graph.store
    t = gstore.EmbeddingTable(s, "wrong", 4, replace=True)
    before = every(t)
    for error, fails in [
        (gstore.LockedError, lambda: gstore.EmbeddingTable.open(s, "wrong")),
        (gstore.NotFoundError, lambda: gstore.EmbeddingTable.open(s, "nothing")),
        (gstore.InvalidError, lambda: gstore.EmbeddingTable(s, "a/b", 4)),
        (gstore.InvalidError, lambda: gstore.EmbeddingTable(s, "", 4)),
        (gstore.InvalidError, lambda: gstore.EmbeddingTable(s, "x", 0)),
        (gstore.InvalidError, lambda: gstore.EmbeddingTable(s, "x", 4, optimizer="sgd")),
        (gstore.InvalidError, lambda: gstore.EmbeddingTable(s, "x", 4, lr=-1)),
        (gstore.InvalidError, lambda: gstore.EmbeddingTable(s, "x", 4, init=-1)),
        (gstore.BudgetError, lambda: gstore.EmbeddingTable(s, "x", 4, mem=4096)),
        (gstore.NotFoundError, lambda: t.read([3000])),
        (gstore.NotFoundError, lambda: t.apply([1, -1], np.ones((2, 4)))),
        (gstore.InvalidError, lambda: t.apply([1, 2], np.ones((2, 3)))),
        (gstore.InvalidError, lambda: t.apply([1, 2], [[1, 1, 1, 1], [1, np.nan, 1, 1]])),
        (gstore.InvalidError, lambda: t.step()),
        (gstore.InvalidError, lambda: t.step(before)),
    ]:
        with pytest.raises(error):
            fails()
    assert np.array_equal(every(t), before) and t.steps == 0  # nothing was half done
    t.close()
    t.close()
    with pytest.raises(gstore.ClosedError):
        t.read([1])
    with pytest.raises(gstore.ExistsError):
        gstore.EmbeddingTable(s, "wrong", 4)
    with gstore.open(s.path) as other:
        t = gstore.EmbeddingTable.open(other, "wrong")
    with pytest.raises(gstore.ClosedError):  # with its store
        t.read([1])


def test_tables_leak_nothing(graph):
    """Handles, goroutines and descriptors are what they were after many tables, closed or forgotten."""
    fds = lambda: len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    gstore.EmbeddingTable(graph.store, "leak", 4, replace=True).close()
    before, files = gstore._lib.counts(), fds()
    for k in range(20):
        t = gstore.EmbeddingTable.open(graph.store, "leak")
        t.apply([k], np.ones((1, 4)))
        if k % 2:
            t.close()
        del t
    after = gstore._lib.counts()
    assert after["objects"] == before["objects"] and after["operations"] == before["operations"] and fds() == files
    assert after["goroutines"] <= before["goroutines"] + 2


@pytest.mark.parametrize("options", [ADAGRAD, ADAM])
def test_torch(graph, options):
    """A model in PyTorch trains the same rows as PyTorch's own optimiser of an nn.Embedding."""
    torch = pytest.importorskip("torch")
    with gstore.EmbeddingTable(graph.store, "torch", 7, init=0.1, replace=True, **options) as t:
        theirs = torch.nn.Embedding(3000, 7, sparse=True)
        theirs.weight.data = torch.from_numpy(every(t))
        step = torch.optim.Adagrad(theirs.parameters(), lr=0.1) if options is ADAGRAD else torch.optim.SparseAdam(list(theirs.parameters()), lr=0.01)
        target = torch.randn(3000, 7, generator=torch.Generator().manual_seed(1))
        for ids, _ in batches(10):
            a, b = torch.from_numpy(ids[:200]), torch.from_numpy(ids[200:])
            x, y = t.rows(a), t.rows(b)
            assert x.requires_grad and torch.equal(x.detach(), torch.from_numpy(t.read(ids[:200])))
            ((x - target[a]) ** 2).sum().add(((y - target[b]) ** 2).sum(), alpha=0.5).backward()
            t.step()
            step.zero_grad()
            ((theirs(a) - target[a]) ** 2).sum().add(((theirs(b) - target[b]) ** 2).sum(), alpha=0.5).backward()
            step.step()
        # SparseAdam adds epsilon before the correction of the moments' bias: steps of gradients near 1e-8 differ
        assert torch.allclose(torch.from_numpy(every(t)), theirs.weight.detach(), atol=1e-4)
        with torch.no_grad():
            assert not t.rows([1]).requires_grad
        x, y = t.rows([1, 2]), t.rows([2, 3])
        (x.sum() + y.sum()).backward()
        t.step(x)
        with pytest.raises(gstore.InvalidError, match="stepped"):
            t.step(x)
        t.step([y])
        with pytest.raises(gstore.InvalidError, match="gradient"):
            t.step()
        assert t.steps == 12
