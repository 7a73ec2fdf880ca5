"""Stores of files and databases, and rows that come later."""

import sqlite3

import numpy as np
import pytest

import gstore


def shop(path, days):
    """A database of the first days: orders of 40 customers, an order a day."""
    db = sqlite3.connect(path)
    db.executescript(
        "create table customers (id integer primary key, city text, age real);"
        "create table orders (id integer primary key, customer_id references customers, at datetime, amount real);"
    )
    db.executemany("insert into customers values (?, ?, ?)", [(k, "Rome" if k % 2 else "Oslo", 20 + k) for k in range(min(40, days))])
    rows = [(k, k % min(40, days), f"2024-{1 + k // 28:02d}-{1 + k % 28:02d}", k / 2) for k in range(days)]
    db.executemany("insert into orders values (?, ?, ?, ?)", rows)
    db.commit()
    db.close()
    return path


def test_database(tmp_path):
    s = gstore.ingest(tmp_path / "s", shop(tmp_path / "shop.sqlite", 30), mem="256MiB")
    assert s.nodes == 60 and s.edges == 30
    later = shop(tmp_path / "later.sqlite", 100)
    before = s.lookup(["orders:7"])
    t = gstore.append(tmp_path / "s", later)
    assert (t.version, t.nodes, t.edges) == (2, 140, 100)
    assert s.nodes == 60 and np.array_equal(t.lookup(["orders:7"]), before)
    assert gstore.append(tmp_path / "s", later).version == 2  # nothing is new
    with pytest.raises(gstore.InvalidError, match="stay as they are"):
        gstore.append(tmp_path / "s", shop(tmp_path / "more.sqlite", 110), change="update")
    for wrong in (dict(change="none"), dict(keyless="some"), dict(new_nodes="many")):
        with pytest.raises(gstore.InvalidError, match="expected"):
            gstore.append(tmp_path / "s", later, **wrong)


def test_files(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst,weight\n" + "".join(f"{k},{(k * 7 + 1) % 50},{k / 2}\n" for k in range(50)))
    s = gstore.ingest(tmp_path / "s", tmp_path / "edges.csv")
    assert s.nodes == 50 and s.edges == 50
    (tmp_path / "more.csv").write_text("src,dst,weight\n3,4,1\n50,3,2\n")
    assert gstore.append(tmp_path / "s", str(tmp_path / "more.csv")).nodes == 51
    with pytest.raises(gstore.InputError, match="not a .npy file"):
        gstore.ingest(tmp_path / "t", tmp_path / "edges.csv", format="numpy")
    with pytest.raises(gstore.NotFoundError):
        gstore.append(tmp_path / "none", tmp_path / "more.csv")
