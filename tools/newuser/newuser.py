"""The first hour of new users: tables that pandas writes, the commands they would type, and what they must see.

usage: newuser.py GSTORE FOLDER   (FOLDER is filled)
"""

import csv
import decimal
import json
import os
import sqlite3

import numpy as np
import pandas as pd

from play import check, done, run

random = np.random.default_rng(1)
tables = 0


def nodes_of(store):
    """The table of nodes as pandas reads what gstore exports, and what meta.json says."""
    global tables
    tables += 1
    out = f"table-{tables}"
    run("export", store, out, "--format", "parquet")
    with open(out + "/meta.json") as f:
        meta = json.load(f)
    return pd.read_parquet(out + "/nodes.parquet").set_index("id").sort_index(), meta


# A user with tables of their own: people who follow each other.
n = 400
people = pd.DataFrame({
    "id": [f"p{i}" for i in range(n)], "age": random.integers(18, 80, n).astype(float), "income": random.normal(3e4, 5e3, n),
    "city": random.choice(["Paris, FR", 'the "Hague"', "Rome"], n), "joined": pd.date_range("2020-01-01", periods=n, freq="D"),
    "empty": None, "label": random.choice(["gold", "silver", "bronze"], n),
})
people.loc[5, "age"] = np.nan
follows = pd.DataFrame({"from": random.choice(people.id, 3000), "to": random.choice(people.id, 3000), "weight": random.random(3000)})
people.to_csv("people.csv", index=False)
people.to_parquet("people.parquet", index=False)
follows.to_csv("follows.csv", index=False)
follows.to_csv("follows-bom.csv", index=False, encoding="utf-8-sig")
follows.to_csv("follows-quoted.tsv", index=False, sep="\t", quoting=csv.QUOTE_ALL)
follows.to_csv("follows-index.csv")
follows.to_csv("follows-cr.csv", index=False, lineterminator="\r")
follows.to_parquet("follows.parquet")
graph = f"{len(set(follows['from']) | set(follows['to']))} nodes, {len(follows)} edges"
for name in ["follows.csv", "follows-bom.csv", "follows-quoted.tsv", "follows-index.csv", "follows-cr.csv", "follows.parquet"]:
    run("ingest", name, name + ".gs", says=[graph, '"from" → source', '"to" → destination', '"weight" → weight'])
run("inspect", "follows.csv.gs", says=['"from" → source'])
for table in ["people.csv", "people.parquet"]:
    base = ["ingest", "follows.csv", table + ".gs", "--nodes", table]
    run(*base, "--missing", "error", fails=[table, '"age" has no value', "--missing mean"])
    run(*base, "--missing", "mean", "--normalize=none", "--split-random", "60/20/20:3",
        says=["400 nodes", "of very different scale", '"income" up to', '"city" → left out: text', '"joined" → left out: dates', "--use joined", '"empty" → left out', 'classes ["bronze" "gold" "silver"]'])
    x = np.stack(nodes_of(table + ".gs")[0]["x"])
    want = people.set_index("id").sort_index()[["age", "income"]].fillna(people[["age"]].mean())
    check(table + ": features are the columns, and the mean where none is", np.allclose(x, want, rtol=1e-5))
run("train", "people.csv.gs", "--epochs", "1", "--layers", "1", "--fanouts", "5")
for store in ["people.csv.gs", "people.parquet.gs"]:
    seen = " ".join(run("inspect", store).split())
    gold, ages = (people.label == "gold").sum(), people.age.fillna(people.age.mean())
    check(store + ": classes and features are inspected", f"gold {gold} " in seen and f"x: age {ages.min():.4g} {ages.mean():.4g} {ages.max():.4g} 1 " in seen)
run("ingest", "follows.csv", "people-normal.gs", "--nodes", "people.csv", "--split-random", "60/20/20:3", says=["x is standardised", "1 values of x were missing"])
x = np.stack(nodes_of("people-normal.gs")[0]["x"])
check("what is standardised is exported as it was", np.allclose(x, want, rtol=1e-4))
run("train", "people-normal.gs", "--epochs", "1")
run("ingest", "follows.csv", "dates.gs", "--nodes", "people.csv", "--missing", "zero", "--missing-mask", "--use", "joined,city", says=["joined, in days since 1970", "feature city"])
check("dates asked for are days", nodes_of("dates.gs")[0]["joined"].sort_values().diff().dropna().eq(1).all())

# One with interactions of users and items: nodes of two types, and how they are of one.
shop = pd.DataFrame({"user_id": [1, 2], "item_id": [10, 11], "action": ["buy", "view"], "rating": [4.5, 3.0], "ts": [1700000000, 1700000001]})
shop.to_csv("shop.csv", index=False)
run("ingest", "shop.csv", "shop-types.gs", says=["4 nodes, 2 edges", '"user_id" → source of type user', '"item_id" → destination of type item', '"ts" → timestamp', "--columns src,dst"])
run("ingest", "shop.csv", "shop.gs", "--columns", "src,dst,relation,rating,timestamp", says=["4 nodes, 2 edges", '"action" → relation'])
pd.DataFrame({"src": [1.0, 2.0], "dst": [2.0, 3.0]}).to_csv("floats.csv", index=False)
run("ingest", "floats.csv", "floats.gs", says=["3 nodes, 2 edges"])
pd.DataFrame({"src": [1.0, 2.0], "dst": [2.0, 3.0]}).to_parquet("floats.parquet")
run("ingest", "floats.parquet", "floats-pq.gs", says=["3 nodes, 2 edges"])

# One with users and items, each numbered from 1, in the types that pandas and Spark write.
users = pd.DataFrame({"user_id": [1, 2, 3], "age": [20.0, np.nan, 40.0], "country": ["FR", "IT", "FR"], "member": [True, False, True], "label": ["a", "b", "a"]})
items = pd.DataFrame({"item_id": [1, 2], "price": [decimal.Decimal("9.50"), decimal.Decimal("-1.25")], "emb": [[1.0, 2.0], None], "tags": [{"k": 1, "j": 2}, {"k": 2, "j": 3}]})
bought = pd.DataFrame({"user_id": [1, 2, 3, 1], "item_id": [1, 1, 2, 2], "stars": [5.0, 3.0, 4.0, 1.0], "ts": pd.date_range("2020-01-01", periods=4)})
users.to_csv("users.csv", index=False)
items.to_parquet("items.parquet", index=False)
bought.to_parquet("bought.parquet", index=False)
both = ["bought.parquet", "buyers.gs", "--nodes", "user=users.csv,item=items.parquet"]
run("ingest", *both, fails=["emb has no value", "--missing mean"])
run("ingest", *both, "--missing", "zero", "--normalize=none", "--split-random", "50/25/25", says=["5 nodes, 4 edges", '"user_id" → source of type user', '"item_id" → destination of type item', '"tags" → left out: nested', '"member" → feature user.x', '"ts" → timestamp'])
nodes, _ = nodes_of("buyers.gs")
check("user 1 is not item 1", list(nodes.index) == ["item:1", "item:2", "user:1", "user:2", "user:3"])
check("decimals and booleans are numbers", np.allclose(np.stack(nodes["item.x"])[:2], [9.5, -1.25]) and np.allclose(np.stack(nodes["user.x"])[2:], [[20, 1], [0, 0], [40, 1]]))
check("a list that is missing", np.allclose(np.stack(nodes["item.emb"])[:2], [[1, 2], [0, 0]]))
run("train", "buyers.gs", "--epochs", "1")

# The same as a folder: a table each type of nodes and of edges, trained by relations.
os.makedirs("shopping/nodes")
os.makedirs("shopping/edges")
m = 60
pd.DataFrame({"user_id": range(m), "age": random.integers(18, 80, m), "label": random.choice(["a", "b"], m), "split": random.choice(["train", "valid", "test"], m)}).to_parquet("shopping/nodes/user.parquet", index=False)
pd.DataFrame({"item_id": [f"i{k}" for k in range(20)], "emb": list(random.random((20, 3)).astype(np.float32))}).to_parquet("shopping/nodes/item.parquet", index=False)
pd.DataFrame({"user_id": random.integers(0, m, 300), "item_id": [f"i{k}" for k in random.integers(0, 20, 300)], "weight": random.random(300), "ts": random.integers(0, 1000, 300)}).to_csv("shopping/edges/user-bought-item.csv", index=False)
run("ingest", "shopping", "shopping.gs", says=["80 nodes, 300 edges", '"user_id" → source of type user', "feature item.emb [3]", '"ts" → timestamp'])
run("inspect", "shopping.gs", says=["label of user", "feature of item"])
run("train", "shopping.gs", "--model", "rsage", "--epochs", "2", says=["test accuracy"])
run("export", "shopping.gs", "shopping-tsv", "--format", "tsv")
run("ingest", "shopping-tsv", "shopping-again.gs", says=["80 nodes, 300 edges"])
check("types come back", " user 60 " in " ".join(run("inspect", "shopping-again.gs").split()))
bought.rename(columns={"user_id": "src", "item_id": "dst"}).to_parquet("times.parquet", index=False, use_deprecated_int96_timestamps=True)
for name in ["bought.parquet", "times.parquet"]:
    run("ingest", name, name + ".times.gs", "--columns", "src,dst,stars,timestamp")
    run("export", name + ".times.gs", name + "-times", "--format", "parquet")
    check(name + ": times are seconds", set(pd.read_parquet(name + "-times/edges.parquet")["timestamp"]) == {1577836800 + 86400 * k for k in range(4)})

# One with a knowledge graph: with and without a header it is the same graph.
triples = pd.DataFrame({"head": random.choice(list("abcdefgh"), 90), "relation": random.choice(["likes", "knows"], 90), "tail": random.choice(list("ijklmnop"), 90)})
os.mkdir("kg")
for part, rows in {"train": triples[:70], "valid": triples[70:80], "test": triples[80:]}.items():
    rows.to_csv(f"kg/{part}.tsv", sep="\t", index=False)
run("ingest", "kg", "kg.gs", says=["16 nodes, 70 edges", '"relation" → relation'])
triples.to_csv("kg.csv", index=False)
run("ingest", "kg.csv", "kg-random.gs", "--split-random", "80/10/10", says=["16 nodes"])
run("train", "kg.gs", "--epochs", "1", "--dim", "8")
run("inspect", "kg.gs", says=[f"likes ({(triples[:70].relation == 'likes').sum()} edges)"])

# A whole shop: its customers' segment is what they buy. Nothing is asked for, and neither the types nor the scales of columns are lost.
kinds = ["outdoor", "kitchen", "books"]
customers, products, orders = 3000, 400, 24000
kind, liked = random.integers(0, 3, products), random.integers(0, 3, customers)
clients = pd.DataFrame({"customer_id": [f"C{100000 + i}" for i in range(customers)], "age": random.integers(18, 80, customers),
                        "joined": pd.Timestamp("2019-01-01") + pd.to_timedelta(random.integers(0, 2000, customers), "D"),
                        "label": [kinds[k] for k in np.where(random.random(customers) < 0.95, liked, random.integers(0, 3, customers))],
                        "split": random.choice(["train", "valid", "test"], customers, p=[0.6, 0.2, 0.2])})
goods = pd.DataFrame(np.array([[20.0, 900.0, 0.0], [50.0, 300.0, 1.0], [12.0, 250.0, 0.0]])[kind] * random.lognormal(0, 0.35, (products, 3)), columns=["price", "weight_g", "fragile"])
goods["fragile"] = (goods.fragile > 0.5).astype(int)
goods.insert(0, "product_id", [f"P{i}" for i in range(products)])
who, shelves = random.integers(0, customers, orders), [np.flatnonzero(kind == k) for k in range(3)]
what = [random.choice(shelves[liked[c]]) if random.random() < 0.7 else random.integers(products) for c in who]
sales = pd.DataFrame({"customer_id": clients.customer_id.to_numpy()[who], "product_id": goods.product_id.to_numpy()[what], "quantity": random.integers(1, 5, orders),
                      "ordered_at": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 31536000, orders), "s")})
os.makedirs("store/nodes")
os.makedirs("store/edges")
for rows, name, path in [(clients, "clients", "nodes/customer"), (goods, "goods", "nodes/product"), (sales, "sales", "edges/customer-ordered-product")]:
    rows.to_csv(name + ".csv", index=False)
    rows.to_csv(f"store/{path}.csv", index=False)
nodes = ["--nodes", "customer=clients.csv,product=goods.csv"]
for name, args in {"folder": ["store"], "files": ["sales.csv", *nodes], "dates": ["sales.csv", *nodes, "--use", "joined"]}.items():
    run("ingest", args[0], f"shop-{name}.gs", *args[1:], says=["product.x is standardised"])
    test = float((run("train", f"shop-{name}.gs", says=["test accuracy"]).split("test accuracy ") + ["0"])[1].split()[0])
    check(f"a shop as {name} trains to {test} %, without flags", test >= 88)

# The same as one database: a file of SQLite, and a folder of tables.
os.mkdir("database")
with sqlite3.connect("shop.sqlite") as connection:
    for rows, name in [(clients.drop(columns="split").rename(columns={"label": "segment"}), "customer"), (goods, "product"), (sales, "sale")]:
        rows.to_csv(f"database/{name}.csv", index=False)
        rows.to_sql(name, connection, index=False)
connection.close()
for path in ["database", "shop.sqlite"]:
    run("ingest", path, f"{path}.gs", "--label", "customer.segment", says=["label: classes", "relation sale:customer_id:customer"])
    test = float((run("train", f"{path}.gs", says=["test accuracy"]).split("test accuracy ") + ["0"])[1].split()[0])
    check(f"a shop as a database in {path} trains to {test} %, with no flag but the label", test >= 88)

# One with arrays, in whatever order: what is not read is named.
os.mkdir("arrays")
x = random.random((n, 3)).astype(np.float32)
np.save("arrays/edge_index.npy", np.asfortranarray(random.integers(0, n, (2, 2000))))
np.save("arrays/x.npy", np.asfortranarray(x))
np.save("arrays/y.npy", random.integers(0, 3, n))
np.save("arrays/extra.npy", np.zeros(3))
run("ingest", "arrays", "arrays.gs", "--undirected", "--dedup", "pair", "--split-random", "60/20/20", says=["x.npy → feature x [3]", "y.npy → label", "extra.npy is not read"])
check("arrays in Fortran order are read as they are", np.allclose(np.stack(nodes_of("arrays.gs")[0]["x"]), x))
np.save("deg.npy", random.random((n, 2)).astype(np.float32))
run("train", "arrays.gs", "--epochs", "1")
run("append", "arrays.gs", "--features", "deg.npy", "--name", "deg")
run("train", "arrays.gs", "--epochs", "1", "--explain")
run("train", "arrays.gs", "--epochs", "1", "--features", "deg,x")
run("train", "arrays.gs", "--features", "degree", code=2, fails=["--features degree", "features are x, deg"])

# What is exported comes back without a flag, undirected as it was.
before, _ = nodes_of("arrays.gs")
for form in ["numpy", "tsv", "parquet"]:
    run("export", "arrays.gs", "out-" + form, "--format", form)
    run("ingest", "out-" + form, f"again-{form}.gs")
    after, meta = nodes_of(f"again-{form}.gs")
    same = set(after.columns) == set(before.columns) and all(np.array_equal(np.stack(after[c]), np.stack(before[c])) for c in before.columns)
    check(f"{form}: nodes come back, with both features", same)
    check(f"{form}: undirected", meta["undirected"])

done()
