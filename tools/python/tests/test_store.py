import multiprocessing
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import gstore
from gstore import _lib


def test_schema(graph):
    s = graph.store
    assert (s.nodes, s.edges, s.partitions, s.version, s.ids) == (3000, 20000, 12, 1, "dense")
    assert (s.task, s.classes, s.undirected, s.feature_names) == ("node", 4, False, ["x"])
    assert s.columns["x"].dim == 6 and s.columns["x"].dtype == np.float32
    with gstore.open(s.path, version=1) as other:
        assert other.edges == s.edges


def test_points(graph):
    s, r = graph.store, np.random.default_rng(5)
    ids = r.integers(0, 3000, 500)
    assert np.array_equal(s.external(graph.ids[ids]), ids)
    assert np.array_equal(s.features("x", graph.ids[ids]), graph.x[ids])
    assert np.array_equal(s.labels[graph.ids], graph.y)
    for part, members in graph.splits.items():
        assert set(s.splits[part]) == set(graph.ids[members])
    assert s.lookup([2999, 3000]).tolist()[1] == -1


@pytest.mark.parametrize("out", [False, True])
def test_neighbors(graph, out):
    ids = np.random.default_rng(6).integers(0, 3000, 200)
    found = graph.store.neighbors(graph.ids[ids], out=out)
    of, to = graph.edges[::1] if out else graph.edges[::-1]
    for k, v in enumerate(ids):
        expected = np.sort(graph.ids[to[of == v]])
        assert np.array_equal(found.nodes[found.indptr[k] : found.indptr[k + 1]], expected)
    assert found.relations is None


def test_walks(graph):
    s, n = graph.store, graph.store.nodes
    w = s.walks(6, 2, q=0.5, seed=3)
    assert w.shape == (2 * n, 6) and w.dtype == np.int64 and (np.bincount(w[:, 0]) == 2).all()
    assert np.array_equal(s.walks(6, 2, q=0.5, seed=3, threads=1), w) and not np.array_equal(s.walks(6, 2, q=0.5, seed=4), w)
    edges = {(int(a), int(b)) for a, b in graph.ids[graph.edges].T}
    assert all((a, b) in edges for walk in w[:300].tolist() for a, b in zip(walk, walk[1:]) if b >= 0)
    for bad in ({"length": 0}, {"p": -1}, {"q": float("nan")}):
        with pytest.raises(gstore.InvalidError):
            s.walks(**bad)
    with pytest.raises(gstore.BudgetError):
        s.walks(mem="1MiB")


def test_relations_and_strings(tmp_path):
    names = ["ann", "bob", "cid", "dée"]
    s = gstore.ingest(
        tmp_path / "s",
        ([("ann"), "bob", "ann"], ["bob", "dée", "cid"]),
        ids=names,
        relations=["likes", "knows", "knows"],
        edge_columns={"weight": [0.5, 1.0, 2.0]},
        features={"h": np.arange(4, dtype=np.float16), "b": np.arange(8).reshape(4, 2)},
    )
    assert s.relations == ["knows", "likes"] and s.ids == "strings"
    nodes = s.lookup(names + ["eve"])
    assert nodes[4] == -1 and s.external(nodes[:4]).tolist() == names
    near = s.neighbors(nodes[:1], out=True, relations=True)
    assert sorted(zip(s.external(near.nodes), near.relations)) == [("bob", 1), ("cid", 0)]
    assert s.features("h", nodes[:4]).tolist() == [0, 1, 2, 3]
    assert s.columns["weight"].role == "weight"


def test_errors(graph, tmp_path):
    s = graph.store
    for error, fails in [
        (gstore.NotFoundError, lambda: gstore.open(tmp_path / "nothing")),
        (gstore.NotFoundError, lambda: gstore.open(s.path, version=9)),
        (gstore.NotFoundError, lambda: s.features("z", [1])),
        (gstore.NotFoundError, lambda: s.features("x", [3000])),
        (gstore.NotFoundError, lambda: s.neighbors([-1])),
        (gstore.InvalidError, lambda: s.features("x", [0.5])),
        (gstore.InvalidError, lambda: s.lookup(["a"])),
        (gstore.ExistsError, lambda: gstore.ingest(s.path, [[0], [1]])),
        (gstore.InputError, lambda: gstore.ingest(tmp_path / "a", [[0], [1]], features={"x": np.zeros((1, 2), np.float32)})),
        (gstore.InvalidError, lambda: gstore.ingest(tmp_path / "b", np.zeros((3, 3)))),
        (gstore.InvalidError, lambda: gstore.ingest(tmp_path / "c", [[0], [1]], partitioner="best")),
        (gstore.BudgetError, lambda: gstore.NeighborLoader(s, mem="1MiB")),
    ]:
        with pytest.raises(error) as raised:
            fails()
        assert len(str(raised.value)) > 10
    closed = gstore.open(s.path)
    closed.close()
    closed.close()
    with pytest.raises(gstore.ClosedError):
        closed.features("x", [1])
    assert isinstance(gstore.ExistsError("a"), FileExistsError) and str(gstore.ExistsError("a")) == "a"


def test_ingest_labels(tmp_path):
    """Labels are classes in any type: text with their names, numbers with NaN where there is none."""
    edges = np.array([[0, 1, 2], [1, 2, 0]])
    for k, (labels, expected, names) in enumerate([
        (["cat", "dog", "cat"], [0, 1, 0], ["cat", "dog"]), (np.array([1.0, np.nan, 0.0]), [1, -1, 0], []), (np.array([True, False, True]), [1, 0, 1], []),
    ]):  # fmt: skip
        s = gstore.ingest(tmp_path / str(k), edges, labels=labels)
        assert s.labels[s.lookup([0, 1, 2])].tolist() == expected and s.class_names == names
    for wrong in (dict(hubs="many"), dict(features=np.ones((3, 2))), dict(splits=[0, 1])):
        with pytest.raises(gstore.InvalidError):
            gstore.ingest(tmp_path / "wrong", edges, **wrong)


def test_labels_that_are_numbers(tmp_path):
    """Labels with fractions stay numbers, in the store and in batches, NaN where there is none."""
    n = 40
    edges = np.stack([np.arange(n), (np.arange(n) * 7 + 1) % n])
    given = np.where(np.arange(n) % 7 == 3, np.nan, np.arange(n) * 12.5 - 100).astype(np.float32)
    s = gstore.ingest(tmp_path / "s", edges, labels=given, features={"x": np.ones((n, 2), np.float32)}, splits={"train": np.arange(0, n, 2)})
    of = s.lookup(np.arange(n))
    assert s.labels.dtype == np.float32 and np.array_equal(s.labels[of], given, equal_nan=True) and s.classes == 0
    assert np.array_equal(s.features("label", of[5:9]), given[5:9], equal_nan=True)
    seen = 0
    for batch in gstore.NeighborLoader(s, [2, 2], 8):
        assert batch.y.dtype == np.float32 and np.array_equal(batch.y, s.labels[batch.n_id], equal_nan=True)
        seen += batch.batch_size
    assert seen == n // 2


@pytest.mark.parametrize("strings", [False, True])
def test_write_column(tmp_path, strings):
    r = np.random.default_rng(9)
    n = 900
    names = np.array([f"v{k}" for k in range(n)], dtype=object)
    src, dst = r.integers(0, n, 4000), r.integers(0, n, 4000)
    pandas = pytest.importorskip("pandas")
    ends = (names[src], names[dst]) if strings else (src, dst)
    edges = pandas.DataFrame({"src": ends[0], "dst": ends[1]})
    nodes = pandas.DataFrame({"id": names if strings else np.arange(n), "a": r.random(n)})
    path = tmp_path / "s.gstore"
    store = gstore.ingest(path, edges, nodes=nodes, partitions=5)
    wide = r.standard_normal((store.nodes, 3)).astype(np.float32)
    second = store.write_column("wide", wide, note="computed")
    assert (second.version, second.note, store.version) == (2, "computed", 1)
    assert np.array_equal(second.features("wide"), wide) and second.columns["wide"].role == "feature"
    ids = r.integers(0, store.nodes, 200)
    assert np.array_equal(second.features("wide", ids), wide[ids])
    third = second.write_column("rank", np.arange(store.nodes), feature=False)
    assert third.columns["rank"].role == "node" and np.array_equal(third.features("rank"), np.arange(store.nodes))
    scaled = third.write_column("scaled", 5 + 3 * wide, normalize=True, dtype="bfloat16").features("scaled")
    assert abs(scaled.mean()) < 0.02 and abs(scaled.std() - 1) < 0.02
    for bad, why in ((wide[1:], "expected"), (wide[:, :, None], "expected"), (np.array(["a"] * store.nodes), "numbers")):
        with pytest.raises(gstore.errors.InvalidError, match=why):
            store.write_column("bad", bad)
    with pytest.raises(gstore.errors.Error, match="already"):
        third.write_column("wide", wide)
    assert os.listdir(tmp_path) == ["s.gstore"]


def test_several_labels(tmp_path):
    """Rows of 0 and 1 are labels of which a node has any number, in the store and in batches, NaN where none is known; rows with one 1 each
    are classes."""
    n, k = 60, 11
    edges = np.stack([np.arange(n), (np.arange(n) * 7 + 1) % n])
    given = (np.random.default_rng(1).random((n, k)) < 0.3).astype(np.float32)
    given[::9] = np.nan
    more = dict(features={"x": np.ones((n, 2), np.float32)}, splits={"train": np.arange(0, n, 2)})
    s = gstore.ingest(tmp_path / "s", edges, labels=given, class_names=[f"l{i}" for i in range(k)], **more)
    of = s.lookup(np.arange(n))
    assert s.labels.dtype == np.float32 and np.array_equal(s.labels[of], given, equal_nan=True) and (s.classes, s.class_names[3]) == (k, "l3")
    assert np.array_equal(s.features("label", of[5:9]), given[5:9], equal_nan=True)
    seen = 0
    for batch in gstore.NeighborLoader(s, [2, 2], 8):
        assert batch.y.dtype == np.float32 and np.array_equal(batch.y, s.labels[batch.n_id], equal_nan=True)
        seen += batch.batch_size
    assert seen == n // 2
    one = gstore.ingest(tmp_path / "one", edges, labels=np.eye(k)[np.arange(n) % k], **more)
    assert one.labels[one.lookup(np.arange(n))].tolist() == (np.arange(n) % k).tolist()


def test_damage_is_told(make):
    g = make(nodes=100, edges=200)
    path = next(p for p in (os.path.join(g.store.path, "data", f) for f in os.listdir(os.path.join(g.store.path, "data"))) if "x" in os.path.basename(p).split(".")[0])
    with open(path, "r+b") as f:
        f.seek(4096)
        b = f.read(1)
        f.seek(4096)
        f.write(bytes([b[0] ^ 1]))
    with pytest.raises(gstore.CorruptError, match="feature|column|node"):
        g.store.features("x", [0])


def test_nothing_leaks(graph):
    """10,000 opens and closes: no handle, no descriptor, no goroutine and hardly any memory stays."""

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def turn(n):
        for k in range(n):
            s = gstore.open(graph.store.path)
            if k % 100 == 0:
                next(iter(gstore.NeighborLoader(s, [2], 50, plan="hanoi", buffer=3)))
            s.close()

    if not os.path.exists("/proc/self/fd"):
        pytest.skip("no /proc to count descriptors by")
    turn(500)
    before, files, memory = _lib.counts(), len(os.listdir("/proc/self/fd")), resident()
    turn(10_000 if os.environ.get("GSTORE_FULL_TESTS") else 1_500)
    after = _lib.counts()
    assert after["objects"] <= before["objects"] and after["operations"] == before["operations"]
    assert after["goroutines"] <= before["goroutines"] + 2
    assert len(os.listdir("/proc/self/fd")) <= files
    assert resident() < memory + (64 << 20)


def _use_in_child(path, queue):
    try:
        gstore.open(path)
        queue.put("opened")
    except gstore.ForkError as e:
        queue.put(str(e))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_child_is_told(graph):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_use_in_child, args=(graph.store.path, queue))
    child.start()
    assert "spawn" in queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0


def run(code, *args, timeout=120):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code), *map(str, args)], capture_output=True, text=True, timeout=timeout)


def test_exit_is_clean(graph):
    """A process may end with stores open, in the middle of an epoch, with views in hand."""
    done = run(
        """
        import sys, gstore
        s = gstore.open(sys.argv[1])
        loader = gstore.NeighborLoader(s, [3, 2], 20, plan="hanoi", buffer=3)
        batch = next(iter(loader))
        view = batch.x
        print("last", view.shape[1])
        """,
        graph.store.path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "last 6\n", "")


def test_interrupt(graph, tmp_path):
    """Ctrl-C in the middle of a long call raises KeyboardInterrupt, and gstore goes on being used."""
    done = run(
        """
        import os, signal, sys, threading, time
        import numpy as np, gstore
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started in the background ignores it
        store = gstore.open(sys.argv[1])
        edges = np.random.default_rng(1).integers(0, 400_000, (2, 6_000_000))
        sent = []
        def interrupt():
            time.sleep(.5)
            sent.append(time.time())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            gstore.ingest(sys.argv[2], edges, partitioner="fennel", partitions=64)
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted")
            print(time.time() - sent[0], file=sys.stderr)
        assert gstore._lib.counts()["operations"] == 0  # a call waits for what is still ending
        print(len(store.features("x", [1, 2])), len(list(gstore.NeighborLoader(store, [2], 500))) > 0)
        gstore.ingest(sys.argv[2], edges[:, :1000])
        """,
        graph.store.path,
        tmp_path / "s",
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n2 True\n"), done.stderr
    assert float(done.stderr) < 5
