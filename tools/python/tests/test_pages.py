"""The Python on the pages runs as it is written."""

import re
import sqlite3

import numpy as np
import pytest

import gstore
from conftest import REPOSITORY

torch = pytest.importorskip("torch", reason="torch is not installed: pip install -r requirements-torch.txt")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed: pip install -r requirements-torch.txt")

PAGES = {"python": REPOSITORY / "docs/python.md", "readme": REPOSITORY / "README.md", "recipes": REPOSITORY / "docs/recipes.md"}
BLOCKS = [(page, k) for page, path in PAGES.items() for k in range(path.read_text().count("```python\n"))]


class Names(dict):
    """What a block of code may take for granted."""

    def __init__(self):
        import io
        import pickle

        import torch.nn.functional as F
        from torch_geometric.nn import GraphSAGE

        super().__init__(gstore=gstore, np=np, io=io, pickle=pickle, torch=torch, F=F, store=gstore.open("papers.gstore"))
        model, saved = GraphSAGE(4, 16, 2, out_channels=2), io.BytesIO()
        torch.save(model.state_dict(), saved)
        self.update(model=model, saved=saved.getvalue(), loss=lambda model, x, batch=None: x.sum(), OUT="layers-model")
        self.update(nodes=np.arange(20), states=np.ones((20, 128), np.float32), mean=np.ones((1, 128), np.float32))
        self.update(w0=np.ones((8, 16), np.float32), b0=np.zeros(16, np.float32), w1=torch.ones(32, 2), b1=torch.zeros(2))
        self.update(ids=["ann", "bob"], data=self.graph(), hetero_data=self.typed())
        self["loader"] = gstore.NeighborLoader(self["store"], batch_size=100)


    @staticmethod
    def graph():
        from torch_geometric.data import Data

        return Data(x=torch.randn(40, 4), edge_index=torch.randint(0, 40, (2, 200)), train_mask=torch.arange(40) < 20)

    @staticmethod
    def typed():
        from torch_geometric.data import HeteroData

        d = HeteroData()
        d["author"].x, d["paper"].x, d["paper"].y = torch.randn(20, 3), torch.randn(40, 5), torch.randint(0, 3, (40,))
        d["paper"].train_mask = torch.arange(40) < 20
        pairs = torch.stack([torch.randint(0, 20, (100,)), torch.randint(0, 40, (100,))])
        d["author", "writes", "paper"].edge_index, d["paper", "of", "author"].edge_index = pairs, pairs.flip(0)
        return d


@pytest.fixture
def papers(tmp_path, monkeypatch):
    """A folder with what the pages name: a store of two classes and directed edges, and pyarrow's datasets of a graph."""
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pandas", reason="pandas is not installed")
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    r = np.random.default_rng(1)
    names = ["ann", "bob", *(f"node{k}" for k in range(58))]
    x, labels = r.random((60, 4), np.float32), r.integers(0, 2, 60)
    where = {"train": np.array(names)[:30], "valid": np.array(names)[30:40], "test": np.array(names)[40:]}
    edges = np.array(names)[r.integers(0, 60, (2, 400))]
    gstore.ingest("papers.gstore", tuple(edges), ids=names, features={"x": x}, labels=labels, splits=where, precompute_hops=1).close()
    for name, columns in (("edges", {"src": r.integers(0, 60, 400), "dst": r.integers(0, 60, 400)}), ("nodes", {"id": np.arange(60), "age": r.random(60), "label": labels})):
        (tmp_path / name).mkdir()
        parquet.write_table(arrow.table(columns), f"{name}/0.parquet")
    with sqlite3.connect("shop.sqlite") as db:
        db.execute("create table customers (id integer primary key, age real)")
        db.execute("create table orders (id integer primary key, customer_id references customers, at datetime)")
        db.executemany("insert into customers values (?, ?)", [(k, 20 + k) for k in range(20)])
        db.executemany("insert into orders values (?, ?, ?)", [(k, k % 20, f"2024-01-{1 + k % 28:02d}") for k in range(60)])
    return Names()


@pytest.mark.parametrize("page,k", BLOCKS)
def test_block(papers, page, k):
    block = re.findall(r"```python\n(.*?)```", PAGES[page].read_text(), re.S)[k]
    exec(compile(block, f"{page} {k}", "exec"), papers)
