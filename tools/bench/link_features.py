#!/usr/bin/env python3
"""Links by nodes' features with PyTorch and PyG, beside `gstore train --task link --features x`.

usage: link_features.py split DATA OUT                    DATA's edges as OUT/edge_index.npy (80 %), edges_valid.npy, edges_test.npy (10 % each)
       link_features.py train OUT --epochs 40 --seed 1 [--embeddings]

DATA is a folder with edge_index.npy [2, E] and node_feat.npy[.gz] [N, D]; `gstore ingest OUT OUT.gstore` takes OUT. The model
is that of gstore's defaults: features projected, with learned embeddings added or not, two layers of SAGE over neighbours of
either direction, DistMult with a vector a side, softmax among 500 shared wrong answers in 10 chunks, Adam whose rate falls in
the last half, a batch's own edges left out of what it sees. Layers see all neighbours, in training too. Ranks are filtered, of both ends,
against all nodes, ties half. It needs torch and torch_geometric.
"""
import argparse, gzip, pathlib, time

import numpy as np

BATCH, NEGATIVES, CHUNKS = 1000, 500, 10


def split(data, out):
    edges = np.load(data / "edge_index.npy")
    order = np.random.default_rng(1).permutation(edges.shape[1])
    n = len(order) // 10
    out.mkdir(parents=True)
    np.save(out / "edges_valid.npy", edges[:, order[:n]].T.copy())
    np.save(out / "edges_test.npy", edges[:, order[n : 2 * n]].T.copy())
    np.save(out / "edge_index.npy", edges[:, np.sort(order[2 * n :])].copy())
    path = data / "node_feat.npy"
    np.save(out / "node_feat.npy", np.load(path if path.exists() else gzip.open(f"{path}.gz")))


def train(data, o):
    import torch
    import torch.nn.functional as F
    from torch_geometric.nn import SAGEConv

    torch.manual_seed(o.seed)
    torch.set_num_threads(1)
    x = torch.tensor(np.load(data / "node_feat.npy"))
    edges = torch.tensor(np.load(data / "edge_index.npy"))
    lists = [torch.tensor(np.load(data / f"edges_{name}.npy")).T for name in ("valid", "test")]
    nodes, n = len(x), edges.shape[1]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.project = torch.nn.Linear(x.shape[1], o.dim, bias=False)
            self.embeddings = torch.nn.Embedding(nodes, o.dim) if o.embeddings else None
            if o.embeddings:
                torch.nn.init.normal_(self.embeddings.weight, std=0.001)
            self.first, self.second = SAGEConv(o.dim, o.dim), SAGEConv(o.dim, o.dim)
            self.sides = torch.nn.Parameter(torch.randn(2, o.dim))

        def forward(self, messages):
            h = self.project(x)
            if self.embeddings is not None:
                h = h + self.embeddings.weight
            return self.second(F.relu(self.first(h, messages)), messages)

    model = Model()
    adam = torch.optim.Adam(model.parameters(), lr=o.lr)
    both = lambda e: torch.cat([e, e.flip(0)], 1)  # messages go either way
    known = {}
    for l in (edges, *lists):
        for a, b in l.T.tolist():
            known.setdefault((a, 0), []).append(b)
            known.setdefault((b, 1), []).append(a)

    @torch.no_grad()
    def rank(l):
        h, ranks = model(both(edges)), []
        for side in (0, 1):
            for asked, answers in zip(l[side].split(500), l[1 - side].split(500)):
                scores = (h[asked] * model.sides[side]) @ h.T
                right = scores.gather(1, answers[:, None])
                for row, a in enumerate(asked.tolist()):
                    scores[row, known[a, side]] = -torch.inf
                ranks.append(1 + (scores > right).sum(1) + (scores == right).sum(1) / 2)
        ranks = torch.cat(ranks).double()
        return (1 / ranks).mean().item(), (ranks <= 10).double().mean().item()

    cpu = time.process_time()
    for epoch in range(o.epochs):
        order = torch.randperm(n)
        for at in range(0, n, BATCH):
            batch = order[at : at + BATCH]
            rate = o.lr * min(1, (o.epochs - epoch - at / n) / (o.epochs / 2))
            adam.param_groups[0]["lr"] = rate
            seen = torch.ones(n, dtype=torch.bool)
            seen[batch] = False
            h, loss = model(both(edges[:, seen])), 0
            for side in (0, 1):
                query, answers = h[edges[side, batch]] * model.sides[side], edges[1 - side, batch]
                right = (query * h[answers]).sum(1, keepdim=True)
                for part in torch.arange(len(batch)).tensor_split(CHUNKS):
                    wrong = torch.randint(nodes, (NEGATIVES,))
                    scores = (query[part] @ h[wrong].T).masked_fill(wrong == answers[part, None], -torch.inf)
                    target = torch.zeros(len(part), dtype=torch.long)
                    loss = loss + F.cross_entropy(torch.cat([right[part], scores], 1), target, reduction="sum")
            adam.zero_grad()
            loss.backward()
            adam.step()
    (valid, _), (test, hits) = rank(lists[0]), rank(lists[1])
    print(f"seed {o.seed}: valid MRR {valid:.4f}, test MRR {test:.4f}, hits@10 {hits:.4f}; {time.process_time() - cpu:.0f} CPU s")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True)
    c = commands.add_parser("split")
    c.add_argument("data", type=pathlib.Path)
    c.add_argument("out", type=pathlib.Path)
    c = commands.add_parser("train")
    c.add_argument("data", type=pathlib.Path)
    for name, kind, default in (("epochs", int, 40), ("seed", int, 1), ("dim", int, 100), ("lr", float, 0.003)):
        c.add_argument("--" + name, type=kind, default=default)
    c.add_argument("--embeddings", action="store_true")
    o = p.parse_args()
    if o.command == "split":
        split(o.data, o.out)
    else:
        train(o.data, o)


if __name__ == "__main__":
    main()
