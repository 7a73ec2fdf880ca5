"""What becomes of trained models: gstore export --what model computed again with NumPy, and gstore predict.

The first lines of each kind are those of docs/models.md, run as they stand there.

usage: trained.py GSTORE FOLDER   (FOLDER is filled)
"""

import json
import math
import re
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

page = (Path(__file__).resolve().parents[2] / "docs/models.md").read_text()

from play import check, done, run  # noqa: E402  changes the folder

random = np.random.default_rng(2)
sage_lines, link_lines = re.findall(r"```python\n(.*?)```", page, re.S)


def grown(d, src, dst, rel, weight=()):
    """Edges as the layers of docs/models.md see them: of an undirected graph both ways, inverse relations behind the others."""
    if d["undirected"]:
        back = src != dst
        return np.r_[src, dst[back]], np.r_[dst, src[back]], np.r_[rel, rel[back]], np.r_[weight, weight[back]]
    if d["task"] == "link" or any(l.get("relations") for l in d["layers"]):
        return np.r_[src, dst], np.r_[dst, src], np.r_[rel, rel + len(d["relations"])], np.r_[weight, weight]
    return src, dst, rel, weight


def total(n, dst, rows):
    out = np.zeros((n, *rows.shape[1:]))
    np.add.at(out, dst, rows)
    return out


def attention(l, h, src, dst, weight, of_src, of_dst, own=0):
    """The heads of a layer gat over these edges alone, side by side or their mean; own is the edges' part of the scores."""
    n = len(h)
    x = (h @ weight).reshape(n, l["heads"], -1)
    halves = [(x * v.reshape(1, l["heads"], -1)).sum(2) for v in (of_src, of_dst)]
    a = halves[0][src] + halves[1][dst] + own
    a = np.exp(np.where(a > 0, a, 0.2 * a))
    by = total(n, dst, a)[:, :, None]
    y = total(n, dst, a[:, :, None] * x[src]) / np.where(by > 0, by, 1)
    return y.mean(1) if l.get("mean_heads") else y.reshape(n, -1)


def transformer(l, p, h, src, dst, rel):
    """A layer hgt of nodes of one type."""
    n, heads = len(h), l["heads"]
    gelu = lambda z: z * (1 + np.vectorize(math.erf)(z / np.sqrt(2))) / 2
    k, m = (x.reshape(n, heads, -1) for x in np.split(h @ p("source.weight") + p("source.bias"), 2, axis=1))
    q = (h @ p("query.weight") + p("query.bias")).reshape(n, heads, -1)
    size = q.shape[2]
    of_keys, of_messages = (p(name).reshape(l["relations"], heads, size, size)[rel] for name in ("key", "message"))
    a = np.exp((np.einsum("ehi,ehij->ehj", k[src], of_keys) * q[dst]).sum(2) * p("prior")[rel] / np.sqrt(size))
    by = total(n, dst, a)[:, :, None]
    o = total(n, dst, a[:, :, None] * np.einsum("ehi,ehij->ehj", m[src], of_messages)) / np.where(by > 0, by, 1)
    y = gelu(o.reshape(n, -1)) @ p("output.weight") + p("output.bias")
    if y.shape[1] != h.shape[1]:
        return y
    gate = 1 / (1 + np.exp(-p("skip")))
    return gate * y + (1 - gate) * h


def layer(i, d, w, h, src, dst, rel, weight):
    """Layer i of docs/models.md."""
    l, n = d["layers"][i], len(h)
    p = lambda name: w[f"{i}.{name}"].astype(float)
    one = np.maximum(weight, 0) if l.get("edge_weights") else np.ones(len(src))  # what an edge counts
    degree = np.bincount(dst, one, n)
    mean = total(n, dst, one[:, None] * h[src]) / np.where(degree > 0, degree, 1)[:, None]
    if l["kind"] == "sage":
        y = np.hstack([h, mean]) @ p("weight") + p("bias")
    elif l["kind"] == "sage-max":
        top = np.full_like(h, -np.inf)
        np.maximum.at(top, dst, h[src])
        y = np.hstack([h, np.where(degree[:, None] > 0, top, 0)]) @ p("weight") + p("bias")
    elif l["kind"] == "gcn":
        e = degree + 1
        y = (h / e[:, None] + total(n, dst, h[src] * (one / np.sqrt(e[src] * e[dst]))[:, None])) @ p("weight") + p("bias")
    elif l["kind"] == "gat":
        s, t = np.r_[src, np.arange(n)], np.r_[dst, np.arange(n)]
        own = 0
        if l.get("edge_dim"):  # the weight is the feature
            own = weight[:, None] @ (p("edge_weight").reshape(1, l["heads"], -1) * p("edge").reshape(1, l["heads"], -1)).sum(2)
            own = np.r_[own, total(n, dst, own) / np.maximum(np.bincount(dst, minlength=n), 1)[:, None]]
        y = attention(l, h, s, t, p("weight"), p("src"), p("dst"), own) + p("bias")
    elif l["kind"] == "rgat":
        y, all_of = h @ p("weight") + p("bias"), len(p("relations")) // h.shape[1]
        for r, (weight, a, b) in enumerate(zip(*(np.split(p(name), all_of) for name in ("relations", "src", "dst")))):
            y += attention(l, h, src[rel == r], dst[rel == r], weight, a, b)
    elif l["kind"] == "hgt":
        y = transformer(l, p, h, src, dst, rel)
        if f"{i}.logits.weight" in w:
            y = y @ p("logits.weight") + p("logits.bias")
    elif l["kind"] == "gin":
        z = (h + total(n, dst, h[src])) @ p("0.weight") + p("0.bias")
        z = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-5) * p("gamma") + p("beta")
        y = np.maximum(z, 0) @ p("1.weight") + p("1.bias")
    elif l["kind"] == "rgcn":
        z, coef = np.zeros((l["bases"], *h.shape)), p("coef")
        for r in range(len(coef)):
            s, t = src[rel == r], dst[rel == r]
            m = total(n, t, h[s]) / np.maximum(np.bincount(t, minlength=n), 1)[:, None]
            z += coef[r][:, None, None] * m
        y = np.hstack([h, *z]) @ p("weight") + p("bias")
    elif l["kind"] == "rsage":
        y, per = h @ p("weight") + p("bias"), p("relations").reshape(-1, *p("weight").shape)
        for r in range(len(per)):
            s, t = src[rel == r], dst[rel == r]
            y += total(n, t, h[s]) / np.maximum(np.bincount(t, minlength=n), 1)[:, None] @ per[r]
    else:
        y = h @ p("weight") + p("bias")
    if l.get("norm") == "layer":
        y = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5) * p("norm.gamma") + p("norm.beta")
    if l.get("norm") == "batch":
        y = (y - p("norm.mean")) / np.sqrt(p("norm.variance") + 1e-5) * p("norm.gamma") + p("norm.beta")
    if l.get("residual"):
        y = y + (h @ p("residual") if f"{i}.residual" in w else h)
    return {"relu": lambda y: np.maximum(y, 0), "tanh": np.tanh, "none": lambda y: y}[l["activation"]](y)


def probabilities(d, w, h, *edges):
    edges, states = grown(d, *edges), []
    if d["layers"][0]["kind"] == "input":  # without categories
        h, d = h @ w["input.weight"], {**d, "layers": d["layers"][1:]}
    for i in range(len(d["layers"])):
        h = layer(i, d, w, h, *edges)
        states.append(h)
    if d["jumping"] != "last":
        h = np.hstack(states) if d["jumping"] == "cat" else np.max(states, axis=0)
        h = h @ w["jump.weight"] + w["jump.bias"]
    p = np.exp(h - h.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def inputs(d, folder):
    """The features as the model saw them, from an export."""
    file = {c["column"]: c["file"] for c in json.loads(Path(folder, "meta.json").read_text())["columns"]}
    return np.hstack([(np.load(f"{folder}/{file[f['column']]}") - f.get("mean", 0)) / f.get("deviation", 1) for f in d["features"]])


def most_similar(store, node, vectors, names):
    """Whether predict --nearest finds what NumPy finds among vectors."""
    v, own = vectors / np.linalg.norm(vectors, axis=1, keepdims=True), names.index(node)
    cosines = np.delete(v @ v[own], own)
    rows = [line.split(",") for line in run("predict", store, node, "--nearest", "cosine", "--top", "3", "--format", "csv").splitlines()[1:4]]
    best = np.sort(cosines)[::-1][:3]
    return np.allclose([v[names.index(r[2])] @ v[own] for r in rows], best, atol=1e-5) and np.allclose([float(r[3]) for r in rows], best, atol=1e-5)


def exported(name):
    return json.loads(Path(name, "model.json").read_text()), load_file(f"{name}/model.safetensors")


# Cora, as the page has it.
run("demo", "--dir", "cora.gstore", "--epochs", "3")
run("export", "cora.gstore", "cora-out", "--what", "graph,features,model", says=["model: run 1"])
page_says = {}
exec(sage_lines, page_says)
run("eval", "cora.gstore", "--out", "cora-eval", "--write", "probabilities,embeddings")
out = run("predict", "cora.gstore", "12", "2707", "--format", "csv").splitlines()
check("predict gives the page's probabilities", all(np.allclose([float(x) for x in line.split(",")[3:]], page_says["p"][int(line.split(",")[0])], atol=1e-5) for line in out[1:3]))
run("predict", "cora.gstore", "--out", "cora.csv", says=["2708 rows to cora.csv"])
check("predict finds the nodes most similar to a node", most_similar("cora.gstore", "12", np.load("cora-eval/node_embedding.npy"), [str(i) for i in range(2708)]))
check("docs/models.md computes SAGE", np.allclose(page_says["p"], np.load("cora-eval/node_probabilities.npy"), atol=1e-5))

# Curves of a run.
run("train", "cora.gstore", "--epochs", "3", "--metrics", "run.jsonl", "--tensorboard", "board")
run("report", "run.jsonl", "-o", "run.html", says=["3 epochs"])
drawn = Path("run.html").read_text()
check("the report draws loss, accuracy and confusion", all(w in drawn for w in ("Loss of training", "Accuracy", "What is taken for what, test", "Neural_Networks", "<dt>test accuracy</dt>")))
check("TensorBoard has a file of events", len(list(Path("board").glob("events.out.tfevents.*"))) == 1)

# A graph of two relations, directed and not, and every model.
n = 300
src, dst = random.integers(0, n, (2, 1500))
rel = random.integers(0, 2, 1500)
x, deg = (random.normal(size=(n, k)).astype(np.float32) for k in (6, 2))
Path("arrays").mkdir()
for name, a in {"edge_index": np.stack([src, dst]), "edge_type": rel, "edge_weight": random.normal(1, 1, 1500).astype(np.float32), "x": 100 * x + 5, "node_deg": deg, "y": random.integers(0, 3, n)}.items():
    np.save(f"arrays/{name}.npy", a)
for store, flags in {"directed": [], "undirected": ["--undirected"]}.items():
    run("ingest", "arrays", store, "--split-random", "60/20/20", "--partitions", "4", "--normalize", *flags)
    run("export", store, store + "-graph")
    ends, kinds, weights = (np.load(f"{store}-graph/edge_{name}.npy") for name in ("index", "type", "weight"))
    for i, model in enumerate(["sage", "sage --edge-weights", "gcn --edge-weights", "sage --aggregator max --norm batch --residual", "gcn --x jumping=cat", "gat --heads 2 --norm layer", "gat --heads 2 --edge-features weight", "gin", "rgcn --x bases=3", "rsage", "rgat --heads 2", "hgt --heads 2", "mlp --x jumping=max"]):
        run("train", store, "--epochs", "2", "--hidden", "8", "--layers", "2", "--model", *model.split())
        run("export", store, f"{store}-{i}", "--what", "model", "--checkpoint", str(i + 1), says=[f"run {i + 1}"])
        run("eval", store, "--out", f"{store}-{i}-eval", "--write", "probabilities", "--checkpoint", str(i + 1))
        d, w = exported(f"{store}-{i}")
        p = probabilities(d, w, inputs(d, store + "-graph"), *ends, kinds, weights)
        check(f"{store}: NumPy computes {model}", np.allclose(p, np.load(f"{store}-{i}-eval/node_probabilities.npy"), atol=1e-4))

# A knowledge graph, and every decoder and encoder.
Path("kg").mkdir()
lines = sorted({(random.choice(list("abcdefgh")), random.choice(["likes", "knows"]), random.choice(list("ghijklmn"))) for _ in range(120)})
random.shuffle(lines)
parts = {"train": lines[:60], "valid": lines[60:70], "test": lines[70:80]}
for part, rows in parts.items():
    Path(f"kg/{part}.tsv").write_text("".join("\t".join(r) + "\n" for r in rows))
run("ingest", "kg", "kg.gstore", "--partitions", "4")


def mean_reciprocal_rank(scores):
    """Of parts["test"], filtered, of both ends; scores(known, relation, tails) are all entities'."""
    known, ranks = {t for rows in parts.values() for t in rows}, []
    for h, r, t in parts["test"]:
        for tails, end, answer in ((True, h, t), (False, t, h)):
            s = scores(end, r, tails)
            others = [k for k, e in enumerate(names) if e and e != answer and ((end, r, e) if tails else (e, r, end)) not in known]
            own = s[names.index(answer)]
            ranks.append(1 + (s[others] > own).sum() + (s[others] == own).sum() / 2)
    return np.mean(1 / np.array(ranks))


for i, (model, encoder) in enumerate([("distmult", "none"), ("complex", "none"), ("rotate", "none"), ("transe", "none"), ("dot", "none"), ("distmult", "sage"), ("complex", "gcn"), ("transe", "gat")]):
    run("train", "kg.gstore", "--epochs", "3", "--dim", "8", "--model", model, "--encoder", encoder, "--overwrite")
    run("export", "kg.gstore", f"kg-{i}", "--what", "model,embeddings", says=["table embeddings, checkpoint"])
    d, w = exported(f"kg-{i}")
    page_says = {}
    exec(link_lines.replace("kg-out", f"kg-{i}"), page_says)
    names, e = page_says["names"], page_says["e"].astype(float)
    if encoder != "none":
        ids = {name: k for k, name in enumerate(names)}
        edges = np.array([(ids[h], ids[t], d["relations"].index(r)) for h, r, t in parts["train"]]).T
        page_says["e"] = layer(0, d, w, e, *grown(d, *edges))
    if model == "dot":
        page_says["scores"] = lambda known, relation, tails: page_says["e"] @ page_says["e"][names.index(known)]
    said = json.loads(run("eval", "kg.gstore", "--lists", "test", "--json").splitlines()[-1])
    for known, tails in (("a", True), ("h", False)):
        triple = [known, "likes", "?"] if tails else ["?", "likes", known]
        found = [line.split(",") for line in run("predict", "kg.gstore", "--top", "3", "--format", "csv", "--input", "-", given="\t".join(triple)).splitlines()[1:4]]
        s = page_says["scores"](known, "likes", tails)
        answers = [line[4 if tails else 2] for line in found]
        right = np.allclose([s[names.index(a)] for a in answers], np.sort(s)[::-1][:3], atol=1e-4) and np.allclose([float(line[5]) for line in found], np.sort(s)[::-1][:3], atol=1e-4)
        check(f"predict {' '.join(triple)} by {model}, {encoder}: the three best are NumPy's", right)
    check(f"the most similar nodes of {model}, {encoder}", most_similar("kg.gstore", "a", page_says["e"][: len(names) - 1], names[:-1]))
    check(f"docs/models.md scores as {model} with encoder {encoder}", np.isclose(mean_reciprocal_rank(page_says["scores"]), said["test_mrr"], atol=1e-9))

done()
