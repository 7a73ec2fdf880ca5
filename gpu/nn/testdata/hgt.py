"""Makes hgt.json, what PyG's HGTConv computes on a small graph, in the layout of gstore's layer hgt: output and gradients.

usage: python hgt.py > hgt.json   (torch 2.x, torch_geometric 2.6 or later)
"""

import json

import torch
from torch_geometric.nn import HGTConv

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)

COUNTS = {"author": 7, "paper": 9, "venue": 4}  # nobody sends to venues: PyG has no output for them
RELATIONS = [("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "by", "author"), ("venue", "prints", "paper")]
EDGES = [15, 20, 9, 6]


def case(columns, out, heads):
    """One layer from states of so many columns."""
    conv = HGTConv(columns, out, (list(COUNTS), RELATIONS), heads)
    for p in conv.parameters():
        torch.nn.init.normal_(p, std=0.6)
    x = {t: torch.randn(n, columns) for t, n in COUNTS.items()}
    edges = {r: torch.stack([torch.randint(COUNTS[r[0]], (n,)), torch.randint(COUNTS[r[2]], (n,))]) for r, n in zip(RELATIONS, EDGES)}
    edges[RELATIONS[1]][1] %= 6  # some papers cite nothing that is read
    y = conv(x, edges)
    upstream = {t: torch.randn_like(y[t]) for t in y}
    sum((y[t] * upstream[t]).sum() for t in y).backward()

    d, grads = out // heads, {p: p.grad if p.grad is not None else torch.zeros_like(p) for p in conv.parameters()}

    def parameters(of):
        """In gstore's layout; of gives a parameter's values, or its gradient."""
        lins = [conv.kqv_lin.lins[t] for t in COUNTS]
        outs = [conv.out_lin.lins[t] for t in COUNTS]
        k, q, v = slice(0, out), slice(out, 2 * out), slice(2 * out, 3 * out)
        matrices = lambda rel: of(rel.weight).view(heads, len(RELATIONS), d, d).transpose(0, 1).reshape(-1, d)
        found = {
            "source.weight": torch.cat([torch.cat([of(m.weight)[k], of(m.weight)[v]]).t() for m in lins]),
            "source.bias": torch.stack([torch.cat([of(m.bias)[k], of(m.bias)[v]]) for m in lins]),
            "query.weight": torch.cat([of(m.weight)[q].t() for m in lins]),
            "query.bias": torch.stack([of(m.bias)[q] for m in lins]),
            "output.weight": torch.cat([of(m.weight).t() for m in outs]),
            "output.bias": torch.stack([of(m.bias) for m in outs]),
            "key": matrices(conv.k_rel),
            "message": matrices(conv.v_rel),
            "prior": torch.cat([of(conv.p_rel["__".join(r)]) for r in RELATIONS]),
        }
        if columns == out:
            found["skip"] = torch.stack([of(conv.skip[t]) for t in COUNTS])
        return {name: m.detach().tolist() for name, m in found.items()}

    first, types = {}, []
    for i, (t, n) in enumerate(COUNTS.items()):
        first[t] = len(types)
        types += [i] * n
    flat = [[first[r[0]] + int(s), first[r[2]] + int(t), i] for i, r in enumerate(RELATIONS) for s, t in edges[r].t()]
    rows = lambda by: [r for t in COUNTS for r in (by[t].detach().tolist() if t in by else [[]] * COUNTS[t])]
    return {"in": columns, "out": out, "heads": heads, "relations": len(RELATIONS), "types": types, "edges": flat, "x": rows(x), "y": rows(y), "upstream": rows(upstream), "parameters": parameters(lambda p: p), "gradients": parameters(lambda p: grads[p])}


def rounded(v):
    if isinstance(v, float):
        return round(v, 6)
    if isinstance(v, list):
        return [rounded(e) for e in v]
    return {k: rounded(e) for k, e in v.items()} if isinstance(v, dict) else v


print(json.dumps([rounded(case(5, 8, 2)), rounded(case(6, 6, 3))]))
