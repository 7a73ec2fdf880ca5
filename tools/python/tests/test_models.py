import subprocess

import numpy as np
import pytest

import gstore

torch = pytest.importorskip("torch", reason="torch is not installed: pip install -r requirements-torch.txt")


@pytest.fixture(scope="module")
def command(program):
    """The command line."""
    return lambda *args: subprocess.run([str(program), *map(str, args)], check=True, capture_output=True, text=True)


MODELS = [
    "sage", "sage --aggregator max", "gcn", "gat", "gin", "mlp", "sage --norm layer --residual", "sage --norm batch --x jumping=cat", "gcn --x jumping=max",
]  # fmt: skip


@pytest.mark.parametrize("undirected", [False, True])
def test_models(make, command, tmp_path, undirected):
    """The outputs of a model of every kind, over the whole graph, are those of gstore's own evaluation."""
    g = make(nodes=300, edges=1500, partitions=3, undirected=undirected)
    s = g.store
    near = s.neighbors(np.arange(300))
    edge_index = torch.from_numpy(np.stack([near.nodes, np.repeat(np.arange(300), np.diff(near.indptr))]))
    x = torch.from_numpy(s.features("x"))
    for k, model in enumerate(MODELS):
        command("train", s.path, "--epochs", 2, "--hidden", 8, "--model", *model.split())
        out, scores = tmp_path / f"model{k}", tmp_path / f"scores{k}.csv"
        command("export", s.path, out, "--what", "model")
        command("predict", s.path, "--only", "all", "--format", "csv", "--out", scores)
        loaded = gstore.load_model(out)
        with torch.no_grad():
            mine = loaded(x, edge_index).softmax(1).numpy()
        table = np.genfromtxt(scores, delimiter=",", names=True, dtype=None, encoding="utf-8")
        theirs = np.stack([table[n] for n in table.dtype.names[-4:]], 1)
        at = s.lookup(table[table.dtype.names[0]])
        assert np.abs(mine[at] - theirs).max() < 1e-4, model
        assert all(p.requires_grad != name.endswith(("norm_mean", "norm_variance")) for name, p in loaded.named_parameters())
    with pytest.raises(gstore.NotFoundError, match="export"):
        gstore.load_model(tmp_path)


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_edge_weights(command, tmp_path, model):
    """Models that weigh neighbours, on a directed graph; weights below 0 count as 0, and models are not computed without weights."""
    r = np.random.default_rng(2)
    edges = np.stack(np.divmod(r.choice(200 * 200, 900, replace=False), 200))
    weight, y = r.normal(1, 1, 900).astype(np.float32), r.integers(0, 4, 200)
    s = gstore.ingest(
        tmp_path / "s", edges, edge_columns={"weight": weight}, features={"x": r.random((200, 5), np.float32)}, labels=y, splits={"train": np.arange(100), "valid": np.arange(100, 200)}
    )
    command("train", s.path, "--epochs", 2, "--hidden", 8, "--model", model, "--edge-weights")
    command("export", s.path, tmp_path / "model", "--what", "model")
    command("predict", s.path, "--only", "all", "--format", "csv", "--out", tmp_path / "scores.csv")
    loaded = gstore.load_model(tmp_path / "model")
    table = np.genfromtxt(tmp_path / "scores.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    theirs = np.stack([table[n] for n in table.dtype.names[-4:]], 1)
    x = s.features("x")[s.lookup(np.arange(200))]  # by external id, as edges are
    with torch.no_grad():
        mine = loaded(torch.from_numpy(x), torch.from_numpy(edges), edge_weight=torch.from_numpy(weight)).softmax(1).numpy()
    assert np.abs(mine[table["node"]] - theirs).max() < 1e-4
    with pytest.raises(gstore.InvalidError, match="edge_weight"):
        loaded(torch.from_numpy(x), torch.from_numpy(edges))


@pytest.mark.parametrize("options", ["--layers 2 --hidden 8", "--layers 1 --heads 2"])
def test_edge_features(command, tmp_path, options):
    """Attention that reads features of edges, self loops and nodes without edges among them."""
    r = np.random.default_rng(3)
    edges = np.stack(np.divmod(r.choice(200 * 200, 900, replace=False), 200))
    edges = edges[:, edges[1] % 10 > 0]
    near, weight, y = r.normal(size=(edges.shape[1], 3)).astype(np.float32), r.normal(1, 1, edges.shape[1]).astype(np.float32), r.integers(0, 4, 200)
    s = gstore.ingest(
        tmp_path / "s", edges, edge_columns={"near": near, "weight": weight}, features={"x": r.random((200, 5), np.float32)}, labels=y, partitions=3,
        splits={"train": np.arange(100), "valid": np.arange(100, 200)}
    )  # fmt: skip
    command("train", s.path, "--epochs", 2, "--model", "gat", "--edge-features", "near,weight", *options.split())
    command("export", s.path, tmp_path / "model", "--what", "model")
    command("predict", s.path, "--only", "all", "--format", "csv", "--out", tmp_path / "scores.csv")
    loaded = gstore.load_model(tmp_path / "model")
    table = np.genfromtxt(tmp_path / "scores.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    theirs = np.stack([table[n] for n in table.dtype.names[-4:]], 1)
    x, attr = s.features("x")[s.lookup(np.arange(200))], np.column_stack([near, weight])
    with torch.no_grad():
        mine = loaded(torch.from_numpy(x), torch.from_numpy(edges), edge_attr=torch.from_numpy(attr)).softmax(1).numpy()
    assert np.abs(mine[table["node"]] - theirs).max() < 1e-4
    command("predict", s.path, "--only", "all", "--format", "csv", "--checkpoint", tmp_path / "model", "--out", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "scores.csv").read_text()
    with pytest.raises(gstore.InvalidError, match="edge_attr"):
        loaded(torch.from_numpy(x), torch.from_numpy(edges), edge_attr=torch.from_numpy(near))


@pytest.mark.parametrize("model", ["rgcn", "rsage", "rgat", "hgt"])
def test_relations(command, tmp_path, model):
    """Models of relations on a directed graph: edges against their direction are relations of their own."""
    r = np.random.default_rng(1)
    edges, kind, y = r.integers(0, 200, (2, 900)), r.integers(0, 3, 900), r.integers(0, 4, 200)
    s = gstore.ingest(
        tmp_path / "s", edges, relations=kind, features={"x": r.random((200, 5), np.float32)}, labels=y, splits={"train": np.arange(100), "valid": np.arange(100, 200)}
    )
    command("train", s.path, "--epochs", 2, "--hidden", 8, "--model", model)
    command("export", s.path, tmp_path / "model", "--what", "model")
    command("predict", s.path, "--only", "all", "--format", "csv", "--out", tmp_path / "scores.csv")
    into, out = (s.neighbors(np.arange(200), out=o, relations=True) for o in (False, True))
    ends = [np.stack([n.nodes, np.repeat(np.arange(200), np.diff(n.indptr))]) for n in (into, out)]
    kinds = np.concatenate([into.relations.astype(np.int64), out.relations.astype(np.int64) + 3])
    loaded = gstore.load_model(tmp_path / "model")
    with torch.no_grad():
        mine = loaded(torch.from_numpy(s.features("x")), torch.from_numpy(np.hstack(ends)), torch.from_numpy(kinds)).softmax(1).numpy()
    table = np.genfromtxt(tmp_path / "scores.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    theirs = np.stack([table[n] for n in table.dtype.names[-4:]], 1)
    assert np.abs(mine[s.lookup(table["node"])] - theirs).max() < 1e-4


def test_checksums(make, command, tmp_path):
    """A byte that changed anywhere in a model's files is told, whoever wrote them; a model without checksums is read with a warning."""
    s = make(nodes=60, edges=200, partitions=1).store
    command("train", s.path, "--epochs", 1, "--hidden", 4)
    out = tmp_path / "model"
    command("export", s.path, out, "--what", "model")
    gstore.save_model(gstore.load_model(out), tmp_path / "again")
    for folder in (out, tmp_path / "again"):
        command("eval", s.path, "--checkpoint", folder)
        for name in ("model.json", "model.safetensors"):
            whole = (folder / name).read_bytes()
            for k in range(30):
                b = bytearray(whole)
                b[k * (len(b) - 1) // 29] ^= 1 << k % 7
                (folder / name).write_bytes(bytes(b))
                with pytest.raises(gstore.CorruptError):
                    gstore.load_model(folder)
            (folder / name).write_bytes(whole)
        assert sorted(p.name for p in folder.iterdir() if p.name.startswith("model")) == ["model.json", "model.safetensors"]
    about = (out / "model.json").read_text().replace('"tensors_sha256"', '"a"').replace('"description_sha256"', '"b"')
    (out / "model.json").write_text(about)
    with pytest.warns(UserWarning, match="no checksum"):
        gstore.load_model(out)
    tensors = bytearray((out / "model.safetensors").read_bytes())
    tensors[-4:] = np.float32(np.nan).tobytes()
    (out / "model.safetensors").write_bytes(tensors)
    with pytest.warns(UserWarning), pytest.raises(gstore.InvalidError, match="not finite"):
        gstore.load_model(out)
    (out / "model.json").write_text(about.replace('"classes": [', '"classes": ["one more",'))
    with pytest.warns(UserWarning), pytest.raises(gstore.InvalidError):
        gstore.load_model(out)
