"""HeteroData of typed stores, and gstore.pyg.NeighborLoader: what models of PyG take unchanged."""

import pickle
import warnings

import numpy as np
import pytest

import gstore

torch = pytest.importorskip("torch", reason="torch is not installed: pip install -r requirements-torch.txt")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed: pip install -r requirements-torch.txt")

from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import HeteroConv, HGTConv, SAGEConv, to_hetero

import gstore.pyg

COUNTS = {"author": 60, "paper": 150, "venue": 9}
KINDS = [
    ("author", "writes", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "rev_writes", "author"),
    ("paper", "in", "venue"),
]


def graph(seed=1):
    """Two types with features of other widths, one without; a time, a year and a weight."""
    g = torch.Generator().manual_seed(seed)
    d = HeteroData()
    d["author"].x, d["paper"].x = torch.randn(60, 5, generator=g), torch.randn(150, 7, generator=g)
    d["venue"].num_nodes = 9
    d["paper"].y, d["paper"].time = torch.randint(0, 3, (150,), generator=g), torch.randint(
        0, 10**10, (150,), generator=g
    )
    d["paper"].train_mask = torch.arange(150) < 100
    for s, name, t in KINDS:
        pairs = torch.stack(
            [torch.randint(0, COUNTS[s], (400,), generator=g), torch.randint(0, COUNTS[t], (400,), generator=g)]
        )
        d[s, name, t].edge_index = pairs.unique(dim=1)
    return d


@pytest.fixture(scope="module")
def data():
    return graph()


@pytest.fixture(scope="module")
def store(data, tmp_path_factory):
    with gstore.from_pyg(data, tmp_path_factory.mktemp("hetero") / "s", partitions=4, partitioner="random") as s:
        yield s


@pytest.mark.parametrize("options", [dict(), dict(plan="rows"), dict(plan="hanoi", buffer=2)])
def test_batch(data, store, options):
    """Rows, labels and columns are the types' own, edges are the graph's, seeds come first, and hops add up."""
    edges = {k: set(map(tuple, data[k].edge_index.t().tolist())) for k in KINDS}
    loader = gstore.NeighborLoader(store, [3, 2], 16, columns=["ids", "paper.time", "train_mask"], **options)
    seen = []
    for b in loader:
        h = b.to_pyg()
        assert isinstance(h, HeteroData) and h.node_types == list(COUNTS) and h.edge_types == KINDS
        h.validate()
        for t in ("author", "paper"):
            assert torch.equal(h[t].x, data[t].x[h[t].ids])
        assert "x" not in h["venue"] and h["venue"].num_nodes == len(h["venue"].ids)
        assert torch.equal(h["paper"].y, data["paper"].y[h["paper"].ids]) and "y" not in h["author"]
        assert torch.equal(h["paper"].time, data["paper"].time[h["paper"].ids]) and "time" not in h["author"]
        assert torch.equal(h["paper"].train_mask, data["paper"].train_mask[h["paper"].ids])
        assert h["paper"].batch_size == b.batch_size and "batch_size" not in h["author"]
        seen += h["paper"].ids[: b.batch_size].tolist()
        for k in KINDS:
            ends = torch.stack([h[k[0]].ids[h[k].edge_index[0]], h[k[2]].ids[h[k].edge_index[1]]])
            assert (
                set(map(tuple, ends.t().tolist())) <= edges[k]
                and sum(h[k].num_sampled_edges) == h[k].edge_index.shape[1]
            )
        for t in COUNTS:
            assert sum(h[t].num_sampled_nodes) == h[t].num_nodes
            assert len(set(h[t].n_id.tolist())) == h[t].num_nodes
    assert sorted(seen) == list(range(100))


class Typed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = torch.nn.ModuleList(HeteroConv({k: SAGEConv((-1, -1), 8) for k in KINDS[:3]}) for _ in range(2))

    def forward(self, x, edges):
        for k, conv in enumerate(self.convs):
            x = conv(x, {key: e for key, e in edges.items() if key in KINDS[:3]})
            x = {t: h.relu() for t, h in x.items()} if k == 0 else x
        return x["paper"]


@pytest.mark.parametrize("kind", ["HeteroConv", "HGTConv", "to_hetero"])
def test_models(data, store, kind):
    """With all neighbours a batch has the whole graph's outputs: models of PyG's, not a line changed."""
    torch.manual_seed(1)
    data = graph()
    data["venue"].x = torch.zeros(9, 4)
    if kind == "HeteroConv":
        model = Typed()
        run = lambda h: model(h.x_dict, h.edge_index_dict)
    elif kind == "HGTConv":
        model = HGTConv({"author": 5, "paper": 7, "venue": 4}, 8, data.metadata(), heads=2)
        run = lambda h: model(h.x_dict, h.edge_index_dict)["paper"]
    else:

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = SAGEConv((-1, -1), 8), SAGEConv((-1, -1), 3)

            def forward(self, x, edge_index):
                return self.b(self.a(x, edge_index).relu(), edge_index)

        model = to_hetero(Net(), data.metadata())
        run = lambda h: model(h.x_dict, h.edge_index_dict)["paper"]
    with torch.no_grad():
        expected = run(data)
        for b in gstore.NeighborLoader(store, [-1, -1], 20, columns=["ids"]):
            h = b.to_pyg()
            h["venue"].x = torch.zeros(h["venue"].num_nodes, 4)
            assert torch.allclose(run(h)[: b.batch_size], expected[h["paper"].ids[: b.batch_size]], atol=1e-5)


def test_one_type_of_nodes(tmp_path):
    """Several relations of one type are HeteroData where that is asked for, and Data where it is not."""
    d = HeteroData()
    d["n"].x = torch.randn(40, 3)
    d["n"].train_mask = torch.arange(40) < 20
    d["n"].y = torch.zeros(40).long()
    for name in ("a", "b"):
        d["n", name, "n"].edge_index = torch.randint(0, 40, (2, 100)).unique(dim=1)
    with gstore.from_pyg(d, tmp_path / "s") as s:
        for b in gstore.NeighborLoader(s, [3], 8, relations=True):
            assert isinstance(b.to_pyg(), Data) and b.to_pyg().edge_type.max() <= 1
            h = b.to_pyg(hetero=True)
            assert h.edge_types == [("n", "a", "n"), ("n", "b", "n")] and torch.equal(h["n"].x, b.to_pyg().x)


def test_kept(tmp_path):
    """What from_pyg has no use for is a column, or named by a warning."""
    d = Data(
        x=torch.randn(30, 3),
        edge_index=torch.randint(0, 30, (2, 80)),
        time=torch.arange(30),
        pos=torch.randn(30, 2).double(),
        edge_time=torch.arange(80),
        name="cora",
        big=torch.randn(3, 3, 3),
    )
    with pytest.warns(UserWarning, match="leaves out big, name"):
        s = gstore.from_pyg(d, tmp_path / "s")
    ids = s.lookup(np.arange(30))
    assert np.array_equal(s.features("time", ids), np.arange(30)) and s.columns["time"].dtype == np.int64
    assert (
        np.array_equal(s.features("pos", ids), d.pos.numpy())
        and s.feature_names == ["x"]
        and s.columns["edge_time"].role == "edge"
    )
    for b in gstore.NeighborLoader(s, [3], 8, split=None, columns=["time", "pos"], edge_features="edge_time"):
        p = b.to_pyg()
        at = torch.from_numpy(b.ids)
        assert (
            torch.equal(p.time, d.time[at])
            and torch.equal(p.pos, d.pos[at])
            and torch.equal(p.edge_attr[:, 0].long(), _edge_of(d, b))
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gstore.from_pyg(Data(x=d.x, edge_index=d.edge_index, time=d.time), tmp_path / "t").close()


def _edge_of(d, b):
    """The times of a batch's edges, of which several may have the same ends."""
    ids = b.ids
    times = b.to_pyg().edge_attr[:, 0].long()
    assert torch.equal(d.edge_index[:, times], torch.from_numpy(np.stack([ids[b.edge_index[0]], ids[b.edge_index[1]]])))
    return times


def test_pyg_loader(data):
    """Of a Data: its own numbers, e_id, and every row it has of nodes and edges."""
    d = Data(
        x=torch.randn(50, 3),
        y=torch.arange(50) % 4,
        edge_index=torch.randint(0, 50, (2, 300)),
        edge_attr=torch.randn(300, 2),
        time=torch.arange(50),
        train_mask=torch.arange(50) % 2 == 0,
    )
    seen = []
    loader = gstore.pyg.NeighborLoader(
        d, [5, 3], input_nodes=d.train_mask, batch_size=8, transform=lambda b: (seen.append(b.batch_size), b)[1]
    )
    assert len(loader) == 4
    nodes = []
    for b in loader:
        assert torch.equal(b.x, d.x[b.n_id]) and torch.equal(b.y, d.y[b.n_id]) and torch.equal(b.time, d.time[b.n_id])
        assert torch.equal(b.train_mask, d.train_mask[b.n_id])
        assert torch.equal(d.edge_index[:, b.e_id], b.n_id[b.edge_index]) and torch.equal(
            b.edge_attr, d.edge_attr[b.e_id]
        )
        assert torch.equal(b.input_id, b.n_id[: b.batch_size])  # the mask's places
        nodes.append(b.n_id[: b.batch_size])
    assert torch.equal(torch.cat(nodes), d.train_mask.nonzero()[:, 0]) and seen == [8, 8, 8, 1]
    assert sum(b.batch_size for b in gstore.pyg.NeighborLoader(d, [5], batch_size=9)) == 50
    h = next(
        iter(
            gstore.pyg.NeighborLoader(
                data, {k: [2, 2] for k in KINDS}, input_nodes=("paper", data["paper"].train_mask), batch_size=10
            )
        )
    )
    assert torch.equal(h["paper"].x, data["paper"].x[h["paper"].n_id]) and torch.equal(
        h["paper"].n_id[:10], torch.arange(10)
    )
    for k in KINDS:
        ends = torch.stack([h[k[0]].n_id[h[k].edge_index[0]], h[k[2]].n_id[h[k].edge_index[1]]])
        assert torch.equal(data[k].edge_index[:, h[k].e_id], ends)
    for bad in (dict(replace=True), dict(disjoint=True), dict(time_attr="time"), dict(subgraph_type="induced")):
        with pytest.raises(gstore.InvalidError, match=next(iter(bad))):
            gstore.pyg.NeighborLoader(d, [5], **bad)


def test_pickles(store):
    """Another process opens a store and a loader again."""
    loader = gstore.NeighborLoader(store, [3], 16, seed=2)
    other = pickle.loads(pickle.dumps(loader))
    assert [b.n_id.tolist() for b in other] == [b.n_id.tolist() for b in loader]
    assert pickle.loads(pickle.dumps(store)).version == store.version
    workers = torch.utils.data.DataLoader(
        Copies(store), batch_size=None, num_workers=2, multiprocessing_context="spawn"
    )
    assert sum(h["paper"].batch_size for h in workers) == 100


class Copies(torch.utils.data.IterableDataset):
    """A rank of a loader in each worker."""

    def __init__(self, store):
        self.store = store

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for b in gstore.NeighborLoader(self.store, [3], 16, rank=info.id, world_size=info.num_workers, copy=True):
            yield b.to_pyg()
