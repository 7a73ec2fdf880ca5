"""DistMult in PyTorch over embeddings larger than memory: gstore.EmbeddingTable, trained through COMET by gstore.LinkLoader.

usage: python distmult.py FOLDER STORE [--epochs 8] [--buffer N] [--mem SIZE] [--resume] …

FOLDER has train.tsv.gz, valid.tsv.gz and test.tsv.gz of triples head, relation, tail, as FB15k-237 comes; STORE is made of
the first if it is not there. A run that was killed goes on with --resume, from the last checkpoint to the same bits.
"""

import argparse
import gzip
import io
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import gstore


class DistMult(torch.nn.Module):
    """Relations, and their inverses from the middle on; the nodes' embeddings are the table's."""

    def __init__(self, relations, dim):
        super().__init__()
        self.relations = torch.nn.Parameter(torch.randn(2 * relations, dim))

    def loss(self, x, batch):
        """Softmax of the right answer among the wrong ones, summed over both questions of every edge."""
        batch, logits = batch.to_torch(), []
        head, tail, relation, negatives = batch.head, batch.tail, batch.relation, batch.negatives
        for side, known, kind, answer in ((0, head, relation, tail), (1, tail, relation + len(self.relations) // 2, head)):
            order = batch.order[side]
            query, answer = (x[known] * self.relations[kind])[order], answer[order]
            ends = zip([0] + batch.chunks[side], batch.chunks[side])
            wrong = torch.cat([query[a:b] @ x[negatives[side, c]].T for c, (a, b) in enumerate(ends)])
            logits.append(torch.cat([(query * x[answer]).sum(1, keepdim=True), wrong], 1))
        logits = torch.stack(logits)
        right = torch.zeros(logits[:, :, 1:].numel(), dtype=torch.bool)
        right[batch.mask] = True
        masked = logits[:, :, 1:].masked_fill(right.view(2, len(head), -1), -1e30)
        logits = torch.cat([logits[:, :, :1], masked], 2).flatten(0, 1)
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64), reduction="sum")


@torch.no_grad()
def mrr(table, model, triples, known):
    """Mean reciprocal rank of both ends of triples [n, 3] (head, relation, tail) among all nodes, other known ones left out."""
    x = torch.from_numpy(table.read(np.arange(table.nodes)))
    inverse = len(model.relations) // 2
    answers = {}
    for h, r, t in known.tolist():
        answers.setdefault((h, r), []).append(t)
        answers.setdefault((t, r + inverse), []).append(h)
    total = 0.0
    for lo in range(0, len(triples), 256):
        part = torch.from_numpy(triples[lo : lo + 256])
        for asked, kind, right in ((part[:, 0], part[:, 1], part[:, 2]), (part[:, 2], part[:, 1] + inverse, part[:, 0])):
            scores = (x[asked] * model.relations[kind]) @ x.T
            best = scores.gather(1, right[:, None])
            for i, key in enumerate(zip(asked.tolist(), kind.tolist())):
                scores[i, answers.get(key, [])] = -torch.inf
            total += (1.0 / (1 + (scores > best).sum(1) + 0.5 * (scores == best).sum(1))).sum().item()
    return total / (2 * len(triples))


def train(store, name, epochs=8, dim=100, lr=0.1, batch_size=1000, negatives=500, seed=0, checkpoint_every=100, resume=False, after=None, **options):
    """Trains table `name` of the store, as gstore train does by default: Adagrad, its rate falling to 0 over the second half.
    Every so many batches rows, model and place are one checkpoint. Returns table and model; `after` is called after batches."""
    torch.manual_seed(seed)
    model = DistMult(max(1, len(store.relations)), dim)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=lr, eps=1e-10)
    state = {"epoch": 0, "edges": 0}
    if resume:
        table = gstore.EmbeddingTable.open(store, name)
        state = torch.load(io.BytesIO(table.data))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    else:
        table = gstore.EmbeddingTable(store, name, dim, optimizer="adagrad", lr=lr, seed=seed, replace=True)

    def checkpoint():
        saved = io.BytesIO()
        torch.save({**state, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()}, saved)
        table.checkpoint(saved.getvalue())

    with gstore.LinkLoader(store, batch_size, negatives=negatives, table=table, seed=seed, **options) as loader:
        if resume:
            loader.load_state_dict(state["loader"])
        else:
            checkpoint()
        for state["epoch"] in range(state["epoch"], epochs):
            for batch in loader:
                left = epochs - state["epoch"] - state["edges"] / store.edges
                table.lr = optimizer.param_groups[0]["lr"] = lr * min(1, left / (epochs * 0.5))
                loss = model.loss(table.rows(batch.n_id), batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                table.step()
                state["edges"] += batch.batch_size
                if table.steps % checkpoint_every == 0:
                    checkpoint()
                if after is not None:
                    after(table)
            state["edges"] = 0
        state["epoch"] = epochs
        checkpoint()
    return table, model


def read(folder, part):
    with gzip.open(pathlib.Path(folder) / f"{part}.tsv.gz", "rt", encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("store")
    p.add_argument("--partitions", type=int, default=16)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--plan", default="auto")
    p.add_argument("--buffer", type=int, default=0)
    p.add_argument("--mem")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--resume", action="store_true")
    a = p.parse_args()
    parts = {part: read(a.folder, part) for part in ("train", "valid", "test")}
    if pathlib.Path(a.store).exists():
        store = gstore.open(a.store)
    else:
        ids = sorted({e for rows in parts.values() for h, _, t in rows for e in (h, t)})
        heads, relations, tails = zip(*parts["train"])
        store = gstore.ingest(a.store, (list(heads), list(tails)), ids=ids, relations=list(relations), partitions=a.partitions, seed=a.seed)
    kinds = {name: k for k, name in enumerate(store.relations)}
    triples = {
        part: np.stack([store.lookup([r[0] for r in rows]), [kinds[r[1]] for r in rows], store.lookup([r[2] for r in rows])], 1)
        for part, rows in parts.items()
    }
    table, model = train(store, "distmult", a.epochs, seed=a.seed, resume=a.resume, plan=a.plan, buffer=a.buffer, mem=a.mem)
    known = np.concatenate(list(triples.values()))
    for part in ("valid", "test"):
        print(part, "MRR", round(mrr(table, model, triples[part], known), 4))


if __name__ == "__main__":
    main()
