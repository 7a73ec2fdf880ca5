import subprocess

import numpy as np
import pytest

import gstore

torch = pytest.importorskip("torch", reason="torch is not installed: pip install -r requirements-torch.txt")


def whole(s, relations=False):
    """Features of all nodes and all edges, those of a directed store's relations both ways."""
    n = s.nodes
    ends, kinds = [], []
    for k, out in enumerate([False] if s.undirected or not relations else [False, True]):
        near = s.neighbors(np.arange(n), out=out, relations=relations)
        ends.append(np.stack([near.nodes, np.repeat(np.arange(n), np.diff(near.indptr))]))
        kinds += [near.relations.astype(np.int64) + k * len(s.relations)] if relations else []
    x = np.hstack([s.features(name) for name in s.feature_names])
    return [torch.from_numpy(x), torch.from_numpy(np.hstack(ends))] + ([torch.from_numpy(np.concatenate(kinds))] if relations else [])


@pytest.fixture(scope="module")
def same(program, tmp_path_factory):
    """Asserts that gstore eval computes what a module computes over the whole graph; layers: what is saved instead of it."""

    def check(s, module, inputs, layers=None, **options):
        folder = tmp_path_factory.mktemp("saved")
        gstore.save_model(module if layers is None else layers, folder / "model", s, **options)
        args = [program, "eval", s.path, "--checkpoint", folder / "model", "--splits", "test", "--out", folder / "out", "--write", "probabilities"]
        subprocess.run(list(map(str, args)), check=True, capture_output=True)
        theirs = np.load(folder / "out/node_probabilities.npy")[s.external(np.arange(s.nodes))]
        module.eval()
        with torch.no_grad():
            mine = module(*inputs).softmax(1).numpy()
            again = gstore.load_model(folder / "model")(*inputs).softmax(1).numpy()
        assert np.abs(mine - theirs).max() < 1e-4 and np.abs(mine - again).max() < 1e-4, module
        return folder / "model"

    return check


def settled(module, inputs):
    """The module with statistics of norms that are not those of its beginning."""
    module.train()
    for _ in range(3):
        module(*inputs)
    return module.eval()


def test_pyg_modules(same, tmp_path):
    """Modules of PyG's and of one's own, with norms, jumping, heads, over a graph of one relation."""
    nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
    torch.manual_seed(1)
    r = np.random.default_rng(1)
    edges = r.integers(0, 200, (2, 900))
    edges = edges[:, edges[0] != edges[1]]  # PyG's GCNConv and GATConv count a node once where it has a self loop, gstore twice
    options = {"features": {"x": r.random((200, 6), np.float32)}, "labels": r.integers(0, 4, 200), "splits": {"train": np.arange(99), "test": np.arange(99, 200)}}
    s = gstore.ingest(tmp_path / "s", edges, undirected=True, partitions=3, **options)
    inputs = whole(s)
    gin = lambda a, b: nn.GINConv(torch.nn.Sequential(torch.nn.Linear(a, 8), torch.nn.LayerNorm(8), torch.nn.ReLU(), torch.nn.Linear(8, b)))

    class Own(torch.nn.Module):
        """Layers by turns, dropout between them, and log-softmax at the end."""

        def __init__(self, *convs):
            super().__init__()
            self.convs = torch.nn.ModuleList(convs)

        def forward(self, x, edge_index):
            for k, conv in enumerate(self.convs):
                x = conv(x, edge_index)
                x = torch.nn.functional.dropout(x.relu(), 0.5, self.training) if k < len(self.convs) - 1 else x
            return x.log_softmax(1)

    for module in [
        Own(nn.SAGEConv(6, 8), nn.SAGEConv(8, 4)), nn.GraphSAGE(6, 8, 2, 4, norm="batch_norm", jk="cat"), nn.GraphSAGE(6, 8, 3, 4, aggr="max"),
        nn.GCN(6, 8, 3, 4, jk="max", cached=True), nn.GAT(6, 8, 2, 4, heads=2), Own(nn.GATConv(6, 4, heads=2), nn.GATConv(8, 4, heads=1, concat=False)), Own(gin(6, 8), gin(8, 4)),
    ]:  # fmt: skip
        same(s, settled(module, inputs), inputs)
    linear = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    Flat = type("Flat", (torch.nn.Module,), {"forward": lambda self, x, edge_index: self.net(x)})
    flat = Flat()
    flat.net = linear
    path = same(s, flat, inputs)
    trained = gstore.load_model(path)  # what was loaded is saved as it is then
    with torch.no_grad():
        trained.layers[0].w["weight"] *= 2
    gstore.save_model(trained, path)
    assert torch.equal(gstore.load_model(path).layers[0].w["weight"], trained.layers[0].w["weight"])

    mixed = Own(nn.GCNConv(6, 8))
    mixed.last = torch.nn.Linear(8, 4)
    for text, module in [
        ("normalize=True", Own(nn.SAGEConv(6, 8, normalize=True), nn.SAGEConv(8, 4))), ("computes something else", nn.GraphSAGE(6, 8, 2, 4, act="elu")),
        ("none of the layers", Own(nn.ChebConv(6, 4, 2))), ("which of the store's", Own(nn.SAGEConv(5, 4))), ("one kind", mixed),
        ("eps 0", Own(nn.GINConv(torch.nn.Linear(6, 4)))), ("side by side in hidden", Own(nn.GATConv(6, 4, heads=2), nn.GATConv(8, 2, heads=2))),
    ]:  # fmt: skip
        with pytest.raises(gstore.InvalidError, match=text):
            gstore.save_model(module, tmp_path / "refused", s)
    assert not (tmp_path / "refused").exists()


@pytest.mark.parametrize("undirected", [False, True])
def test_pyg_edge_features(program, tmp_path, undirected):
    """PyG's GATConv with edge_dim is what gstore computes of its weights, features of edges and self loops' mean included."""
    nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
    torch.manual_seed(2)
    r = np.random.default_rng(2)
    edges = np.stack(np.divmod(r.choice(150 * 150, 700, replace=False), 150))
    edges = edges[:, edges[0] < edges[1]]
    near = r.normal(size=(edges.shape[1], 3)).astype(np.float32)
    options = {"features": {"x": r.random((150, 6), np.float32)}, "labels": r.integers(0, 4, 150), "splits": {"train": np.arange(99), "test": np.arange(99, 150)}}
    s = gstore.ingest(tmp_path / "s", edges, edge_columns={"near": near}, undirected=undirected, partitions=3, **options)

    class Own(torch.nn.Module):
        def __init__(self, *convs):
            super().__init__()
            self.convs = torch.nn.ModuleList(convs)

        def forward(self, x, edge_index, edge_attr):
            for k, conv in enumerate(self.convs):
                x = conv(x, edge_index, edge_attr)
                x = x.relu() if k < len(self.convs) - 1 else x
            return x

    module = Own(nn.GATConv(6, 4, heads=2, edge_dim=3), nn.GATConv(8, 4, heads=1, concat=False, edge_dim=3)).eval()
    if undirected:
        edges, near = np.hstack([edges, edges[::-1]]), np.vstack([near, near])
    x = s.features("x")[s.lookup(np.arange(150))]  # by external id, as edges are
    with torch.no_grad():
        want = module(torch.from_numpy(x), torch.from_numpy(edges.copy()), torch.from_numpy(near)).softmax(1).numpy()
    gstore.save_model(module, tmp_path / "model", s, edge_features=["near"])
    subprocess.run([str(program), "predict", s.path, "--only", "all", "--checkpoint", tmp_path / "model", "--format", "csv", "--out", tmp_path / "scores.csv"], check=True, capture_output=True)
    table = np.genfromtxt(tmp_path / "scores.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    got = np.stack([table[n] for n in table.dtype.names[-4:]], 1)
    assert np.abs(want[table["node"]] - got).max() < 1e-4
    with pytest.raises(gstore.InvalidError, match="3 columns of edges"):
        gstore.save_model(module, tmp_path / "refused", s)


def test_relations(same, tmp_path):
    """PyG's R-GCN on a directed graph, with bases and with a matrix for each relation."""
    nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
    torch.manual_seed(1)
    r = np.random.default_rng(1)
    edges, kind, y = r.integers(0, 150, (2, 700)), r.integers(0, 3, 700), r.integers(0, 4, 150)
    x = {"a": r.random((150, 3), np.float32), "b": r.random((150, 2), np.float32)}
    s = gstore.ingest(tmp_path / "s", edges, relations=kind, features=x, labels=y, splits={"train": np.arange(100), "test": np.arange(100, 150)})

    class Relational(torch.nn.Module):
        def __init__(self, bases):
            super().__init__()
            self.one, self.two = nn.RGCNConv(5, 8, 6, num_bases=bases), nn.RGCNConv(8, 4, 6, num_bases=bases)

        def forward(self, x, edge_index, edge_type):
            return self.two(self.one(x, edge_index, edge_type).relu(), edge_index, edge_type)

    for bases in (2, None):
        same(s, Relational(bases), whole(s, relations=True))


class Means(torch.nn.Module):
    """Two Linear a layer: of a node's own row and of its neighbours' mean, as examples/handwritten.py has them."""

    def __init__(self):
        super().__init__()
        self.own = torch.nn.ModuleList([torch.nn.Linear(6, 8), torch.nn.Linear(8, 4)])
        self.near = torch.nn.ModuleList([torch.nn.Linear(6, 8, bias=False), torch.nn.Linear(8, 4, bias=False)])

    def forward(self, h, edge_index):
        src, dst = edge_index
        for k in range(2):
            mean = torch.zeros_like(h).index_add_(0, dst, h[src]) / torch.bincount(dst, minlength=len(h)).clamp(min=1)[:, None]
            h = self.own[k](h) + self.near[k](mean)
            h = h.relu() if k == 0 else h
        return h

    def layers(self):
        return [
            {"kind": "sage", "weight": torch.cat([own.weight.t(), near.weight.t()]), "bias": own.bias, "activation": activation}
            for own, near, activation in zip(self.own, self.near, ("relu", "none"))
        ]


def test_own_layers(same, program, tmp_path):
    """Weights of a model that was written by hand, given as layers, on a store whose features are standardised."""
    torch.manual_seed(1)
    r = np.random.default_rng(2)
    folder = tmp_path / "data"
    (folder / "split").mkdir(parents=True)
    arrays = {"edge_index": r.integers(0, 100, (2, 400)), "node_feat": r.normal(5, 3, (100, 6)).astype(np.float32), "node_label": r.integers(0, 4, 100)}
    for name, v in {**arrays, "split/train": np.arange(50), "split/valid": np.arange(50, 60), "split/test": np.arange(60, 100)}.items():
        np.save(folder / f"{name}.npy", v)
    subprocess.run([str(program), "ingest", str(folder), str(tmp_path / "s"), "--normalize", "--quiet"], check=True)
    s = gstore.open(tmp_path / "s")
    column = s.columns["x"]
    given = (arrays["node_feat"][s.external(np.arange(100))] - column.mean) / column.deviation
    assert np.abs(s.features("x") - given).max() < 1e-4
    model = Means()
    path = same(s, model, whole(s), model.layers(), features=["x"])
    gstore.save_model([{**model.layers()[0], "activation": "none"}], path, s)
    run = subprocess.run([str(program), "eval", s.path, "--checkpoint", str(path)], capture_output=True, text=True)
    assert run.returncode == 1 and "the model has 8 classes, the store 4" in run.stderr
    with pytest.raises(gstore.InvalidError, match="its kind and its weight"):
        gstore.save_model([{"kind": "sage"}], path, s)
    with pytest.raises(gstore.InvalidError, match="begin where the one before"):
        gstore.save_model(model, path, s)  # a module whose layers are Linear alone is an MLP, which this is not
    with pytest.raises(gstore.InvalidError, match="name the store"):
        gstore.save_model(model, path)
