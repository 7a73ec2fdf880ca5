import numpy as np
import pytest

import gstore

PLANS = [dict(), dict(plan="comet", buffer=6), dict(plan="comet", buffer=6, fanouts=[3])]


@pytest.fixture(scope="module")
def triples(tmp_path_factory):
    """A store of 4000 edges of three relations, and the edges by internal id."""
    r = np.random.default_rng(2)
    edges, kinds = r.integers(0, 700, (2, 4000)), r.integers(0, 3, 4000)
    store = gstore.ingest(tmp_path_factory.mktemp("links") / "s", edges, relations=kinds, partitions=12, num_nodes=700, seed=3)
    ids = store.lookup(np.arange(700))
    yield store, sorted(zip(ids[edges[0]].tolist(), kinds.tolist(), ids[edges[1]].tolist()))
    store.close()


def contents(batch):
    return {"place": (batch.epoch, batch.step, batch.batch_size, *batch.chunks[0], *batch.chunks[1]), **{k: v.copy() for k, v in batch._arrays.items()}}


def same(a, b):
    return len(a) == len(b) and all(x.keys() == y.keys() and all(np.array_equal(x[k], y[k]) for k in x) for x, y in zip(a, b))


@pytest.mark.parametrize("options", PLANS)
def test_batches(triples, options):
    """An epoch has every edge once, in another order each time; the mask names the wrong answers that are right."""
    store, edges = triples
    loader = gstore.LinkLoader(store, 150, negatives=20, chunks=3, seed=7, **options)
    orders = []
    for epoch in range(2):
        seen = []
        for b in loader:
            ends = (b.n_id[b.head], b.relation, b.n_id[b.tail])
            seen += list(zip(*(a.tolist() for a in ends)))
            assert len(set(b.n_id)) == len(b.n_id) == sum(b.num_sampled_nodes) and b.epoch == epoch
            assert b.negatives.shape == (2, 3, 20) and b.chunks[0][-1] == b.chunks[1][-1] == b.batch_size == len(b.head)
            chunk = [np.searchsorted(ends, np.arange(b.batch_size), "right") for ends in b.chunks]
            right = np.stack([b.negatives[s][chunk[s]] == answer[b.order[s]][:, None] for s, answer in ((0, b.tail), (1, b.head))])
            assert np.array_equal(np.sort(b.order), [np.arange(b.batch_size)] * 2)
            assert np.array_equal(np.flatnonzero(right), np.sort(b.mask))
            if b.edge_index is not None:
                own = {(s, k, d) for s, k, d in edges}
                for s, d, k in zip(b.n_id[b.edge_index[0]], b.n_id[b.edge_index[1]], b.edge_type):
                    assert ((s, k, d) if k < 3 else (d, k - 3, s)) in own
        assert sorted(seen) == edges
        orders.append(seen)
    assert orders[0] != orders[1] and loader.epoch == 2


@pytest.mark.parametrize("options", PLANS)
def test_repeats_and_resumes(triples, options):
    """One seed gives the same batches for any number of threads; a state taken anywhere goes on to the same ones."""
    make = lambda **more: gstore.LinkLoader(triples[0], 150, **{"negatives": 20, "chunks": 3, "seed": 7, **options, **more})
    loader, states, epochs = make(threads=1), [], []
    for _ in range(2):
        epochs.append([])
        for b in loader:
            epochs[-1].append(contents(b))
            states.append((len(epochs) - 1, len(epochs[-1]), loader.state_dict()))
    assert same([contents(b) for b in make(threads=4)], epochs[0]) and not same(epochs[0], epochs[1])
    assert not same([contents(b) for b in make(seed=8)], epochs[0])
    for epoch, done, state in states[3::17]:
        resumed = make()
        resumed.load_state_dict(state)
        assert same([contents(b) for b in resumed], epochs[epoch][done:])
    with pytest.raises(gstore.InvalidError):
        make(seed=9).load_state_dict(states[0][2])


@pytest.mark.parametrize("options", PLANS)
@pytest.mark.parametrize("world", [2, 3])
def test_ranks(triples, options, world):
    """Ranks do equally many batches; their edges together are the epoch's of one process; any place goes on."""
    store, edges = triples
    make = lambda rank: gstore.LinkLoader(store, 150, negatives=20, chunks=3, seed=7, rank=rank, world_size=world, **options)
    ends = lambda b: list(zip(b.n_id[b.head].tolist(), b.relation.tolist(), b.n_id[b.tail].tolist()))
    for epoch in range(2):
        parts = []
        for rank in range(world):
            loader = make(rank)
            loader.epoch = epoch
            parts.append([ends(b) for b in loader])
        assert len({len(p) for p in parts}) == 1 and len(parts[0]) >= 9 and max(len(b) for p in parts for b in p) <= 150
        assert sorted(sum(sum(parts, []), [])) == edges
    loader, again = make(1), make(1)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    again.load_state_dict(loader.state_dict())
    assert same([contents(b) for b in again], [contents(b) for b in batches]) and again.epoch == 1
    with pytest.raises(gstore.InvalidError):
        make(0).load_state_dict(loader.state_dict())
    with pytest.raises(gstore.InvalidError):
        gstore.LinkLoader(store, rank=world, world_size=world)


def test_table(triples):
    """Rows that a loader holds, in part, come to the bits of a table of its own; a table opened at a checkpoint goes on so."""
    store, _ = triples
    make = lambda name: gstore.EmbeddingTable(store, name, dim=8, lr=0.5, init=0.5, seed=1, replace=True)
    options = dict(negatives=20, chunks=3, plan="comet", buffer=4, seed=7)

    def epochs(table, upto, loader, stop=None):
        while loader.epoch < upto:
            for b in loader:
                rows = table.read(b.n_id)
                grads = np.zeros_like(rows)
                np.add.at(grads, b.head, rows[b.tail])  # any function of rows and batch
                np.add.at(grads, b.negatives[1].ravel(), 1.0)
                table.apply(b.n_id, grads)
                if stop is not None and table.steps == stop:
                    return loader.state_dict()

    held, own = make("held"), make("own")
    epochs(own, 2, gstore.LinkLoader(store, 150, **options))
    expected = own.read(np.arange(700))
    loader = gstore.LinkLoader(store, 150, table=held, **options)
    with pytest.raises(gstore.LockedError):
        gstore.LinkLoader(store, 150, table=held)
    state = epochs(held, 2, loader, stop=own.steps // 3)
    held.checkpoint(b"third")
    loader.load_state_dict(state)  # the loop that was left goes on
    epochs(held, 2, loader)
    assert np.array_equal(held.read(np.arange(700)), expected)
    loader.close()
    assert np.array_equal(held.read(np.arange(700)), expected)
    held.close()

    again = gstore.EmbeddingTable.open(store, "held")  # nothing after the checkpoint counts
    assert again.data == b"third" and again.steps == own.steps // 3
    loader = gstore.LinkLoader(store, 150, table=again, **options)
    loader.load_state_dict(state)
    epochs(again, 2, loader)
    assert np.array_equal(again.read(np.arange(700)), expected)
    again.close()  # ends the loader
    with pytest.raises(gstore.ClosedError):
        next(iter(loader))


def test_refused(triples, graph):
    for wrong in (dict(fanouts=[3, 2]), dict(plan="hanoi"), dict(negatives=0), dict(chunks=2000), dict(negatives_from="nowhere"), dict(degree_share=2),
                  dict(keep_batch_edges=2, fanouts=[3])):  # fmt: skip
        with pytest.raises(gstore.InvalidError, match=list(wrong)[0]):
            gstore.LinkLoader(triples[0], **wrong)
    with pytest.raises(gstore.BudgetError):
        gstore.LinkLoader(triples[0], mem="2MiB")
    table = gstore.EmbeddingTable(graph.store, "other", 4, replace=True)
    with pytest.raises(gstore.InvalidError, match="one process"):
        gstore.LinkLoader(triples[0], table=gstore.EmbeddingTable(triples[0], "alone", 4, replace=True), world_size=2)
    table.close()
    with pytest.raises(gstore.ClosedError):
        gstore.LinkLoader(triples[0], table=table)
