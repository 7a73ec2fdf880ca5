"""PyTorch's modules as models of gstore's: their layers and weights in the form of docs/models.md."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import threading
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from . import errors
from .models import Model, layer_prefix, with_sums
from .store import Store

_EPSILON = 1e-5  # of gstore's norms

#: A layer as it is written: what model.json says of it, and tensors by their names behind the layer's number.
Written = Tuple[Dict[str, Any], Dict[str, torch.Tensor]]


def save_model(
    model: Union[torch.nn.Module, Sequence[Dict[str, Any]]], path: Union[str, os.PathLike], store: Optional[Store] = None, *,
    features: Optional[Sequence[str]] = None, edge_features: Optional[Sequence[str]] = None
) -> None:  # fmt: skip
    """Writes model to folder `path` as model.json and model.safetensors, which `gstore eval STORE --checkpoint path`, `gstore
    predict` and `load_model` take; files that are there are replaced.

    model: what `load_model` gave; a module that is called with (x, edge_index), of relations with (x, edge_index, edge_type),
    of features of edges (edge_dim of GATConv) with (x, edge_index, edge_attr), and is made of PyG's SAGEConv, GCNConv, GATConv, GINConv or RGCNConv, or of Linear alone, with ReLU between them, and
    norms and a JumpingKnowledge as `gstore train` has them: a model of PyG's or one's own. It is compared with what is
    written on a random graph. Or a list of layers, each a dictionary of what docs/models.md names: `kind`, `activation` and
    so on, and its tensors. store: whose features and classes the model is of; it is not needed for what `load_model` gave.
    features: its columns that are the input, side by side; default: the first, or all, by their width. edge_features: its columns of
    edges that are edge_attr, side by side, for GATConv with edge_dim.

    InvalidError says what has no place in gstore's models.
    """
    if isinstance(model, Model):
        _write(pathlib.Path(path), model.about, model.tensors())
        return
    if store is None:
        raise errors.InvalidError("save_model of a module: name the store that it is a model of")
    if isinstance(model, torch.nn.Module):
        layers, jumping, jump = _layers(model)
    else:
        layers, jumping, jump = [_given(layer) for layer in model], "last", {}
    if not layers:
        raise errors.InvalidError(f"{type(model).__name__} has no layer that gstore knows: docs/models.md lists them")
    infos = [info for info, _ in layers]
    widths = [infos[0]["in"]] + [info["out"] for info in infos]
    if [info["in"] for info in infos] != widths[:-1] or len(set(widths[1:] if jump else widths[1:-1])) > 1:
        raise errors.InvalidError(f"layers of {[(i['in'], i['out']) for i in infos]} columns: expected each to begin where the one before it ends, hidden ones alike")
    tensors = {f"jump.{name}": t for name, t in jump.items()}
    for k, (info, found) in enumerate(layers):
        tensors.update({layer_prefix(infos, k) + name: t for name, t in found.items()})
    values = {name: _rows(t) for name, t in tensors.items()}
    about = {
        "task": "node", "model": infos[0]["kind"], "from": f"PyTorch, {type(model).__name__}", "version": store.version, "tensors_file": "model.safetensors",
        "features": _features(store, widths[0], features), **_edge_features(store, infos[0].get("edge_dim", 0), edge_features), "classes": store.class_names, "multi_label": store.several_labels, "jumping": jumping, "undirected": store.undirected,
        "relations": store.relations, "layers": infos, "config": {},
        "parameters": [{"name": name, "dtype": "F32", "shape": list(v.shape)} for name, v in values.items()],
    }  # fmt: skip
    if isinstance(model, torch.nn.Module):
        _compare(model, Model(about, values))
    _write(pathlib.Path(path), about, values)


def _write(folder: pathlib.Path, about: Dict[str, Any], values: Dict[str, np.ndarray]) -> None:
    """Each file is replaced whole; the description comes last, and tells by its checksums where both are not of one model."""
    folder.mkdir(parents=True, exist_ok=True)
    head: Dict[str, Any] = {"__metadata__": {"format": "gstore", "task": about["task"], "model": about["model"]}}
    at = 0
    for name, v in values.items():
        head[name] = {"dtype": "F32", "shape": list(v.shape), "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    tensors = [len(text).to_bytes(8, "little"), text, *(v.tobytes() for v in values.values())]
    for name, parts in {about["tensors_file"]: tensors, "model.json": [with_sums(about, tensors)]}.items():
        temporary = folder / f"{name}.{os.getpid()}-{threading.get_ident()}.tmp"  # of nobody else who writes the model
        try:
            with open(temporary, "wb") as f:
                f.writelines(parts)
            os.replace(temporary, folder / name)
        finally:
            temporary.unlink(missing_ok=True)


def _rows(t: torch.Tensor) -> np.ndarray:
    """Two dimensions of float32; one is a row."""
    v = np.ascontiguousarray(t.detach().to("cpu", torch.float32).numpy())
    return v[None] if v.ndim == 1 else v


def _features(store: Store, columns: int, names: Optional[Sequence[str]]) -> List[Dict[str, Any]]:
    """What model.json says of the input, which has so many columns."""
    own = [n for n in store.feature_names if not store.columns[n].derived]
    for choice in [list(names)] if names is not None else [own[:1], own]:
        found = [store._column(n) for n in choice]
        if sum(c.dim for c in found) == columns:
            return [{"column": c.name, "columns": c.dim, **({"mean": list(c.mean), "deviation": list(c.deviation)} if c.mean else {})} for c in found]
    dims = {n: store.columns[n].dim for n in own}
    raise errors.InvalidError(f"the model reads {columns} columns; name with features= which of the store's they are: {dims}")


def _edge_features(store: Store, columns: int, names: Optional[Sequence[str]]) -> Dict[str, Any]:
    """What model.json says of the features of edges, which have so many columns; nothing of none."""
    dims = {n: store._column(n).dim for n in ([names] if isinstance(names, str) else names or [])}
    if sum(dims.values()) != columns:
        own = {n: c.dim for n, c in store.columns.items() if c.role in ("edge", "weight")}
        raise errors.InvalidError(f"the model reads {columns} columns of edges, edge_features has {dims}: name which of the store's they are, of {own}")
    return {"edge_features": [{"column": n, "columns": d} for n, d in dims.items()]} if columns else {}


def _given(layer: Dict[str, Any]) -> Written:
    """A layer that is given in the form of docs/models.md."""
    tensors = {k: torch.as_tensor(v) for k, v in layer.items() if isinstance(v, (torch.Tensor, np.ndarray))}
    info = {k: v for k, v in layer.items() if k not in tensors}
    if "kind" not in info or "weight" not in tensors and "0.weight" not in tensors:
        raise errors.InvalidError(f"a layer with {sorted(layer)}: expected its kind and its weight")
    weight = tensors["0.weight"] if "0.weight" in tensors else tensors["weight"]
    out = tensors.get("bias", tensors.get("1.bias", weight))
    rows = weight.shape[0]
    if info["kind"] in ("sage", "sage-max"):
        rows //= 2
    elif info["kind"] == "rgcn":
        info.setdefault("bases", tensors["coef"].shape[1])
        rows //= 1 + info["bases"]
    return {"in": rows, "out": out.shape[-1], "activation": "none", **info}, tensors


def _parts(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """What a model is made of, in the order in which it was declared; what has a form of its own is not looked into."""
    name = type(module).__name__
    if name.endswith("Conv") or name in ("Linear", "BatchNorm", "BatchNorm1d", "LayerNorm", "JumpingKnowledge"):
        yield module
        return
    for child in module.children():
        yield from _parts(child)


def _layers(module: torch.nn.Module) -> Tuple[List[Written], str, Dict[str, torch.Tensor]]:
    """The layers of a module, what makes its logits, and the tensors of the last product where that is no layer."""
    parts = list(_parts(module))
    of = lambda *names: [p for p in parts if any(type(p).__name__.endswith(n) for n in names)]
    convs, linears, norms, jumps = of("Conv"), of("Linear"), of("BatchNorm", "BatchNorm1d", "LayerNorm"), of("JumpingKnowledge")
    jumping, jump = "last", {}
    if jumps:
        jumping = jumps[0].mode
        if jumping not in ("cat", "max") or not linears:
            raise errors.InvalidError(f"JumpingKnowledge by {jumping!r} before {len(linears)} Linear: gstore has cat and max before one")
        last = linears.pop()
        jump = {"weight": last.weight.t(), "bias": _bias(last.bias, last.weight.shape[0])}
    if convs and linears:
        raise errors.InvalidError(f"{len(linears)} Linear beside {len(convs)} convolutions: gstore's layers are of one kind")
    layers = [_layer(c) for c in convs or linears]
    hidden = len(layers) if jumps else len(layers) - 1
    if norms and len(norms) != hidden:
        raise errors.InvalidError(f"{len(norms)} norms for {hidden} hidden layers: gstore's hidden layers are alike")
    for k, (info, tensors) in enumerate(layers):
        info["activation"] = "relu" if k < hidden else "none"
        if k < hidden and norms:
            info["norm"], found = _norm(norms[k])
            tensors.update(found)
        if info["kind"] == "gat":
            _heads(info, tensors, layers[0][0]["heads"], k < hidden)
    return layers, jumping, jump


def _bias(bias: Optional[torch.Tensor], out: int) -> torch.Tensor:
    return torch.zeros(out) if bias is None else bias


def _need(module: torch.nn.Module, **expected: Any) -> None:
    """Refuses what gstore's layers have not."""
    for name, want in expected.items():
        got = getattr(module, name, want)
        if got != want:
            raise errors.InvalidError(f"{module} with {name}={got!r}: gstore has it with {want!r} only")


def _layer(m: torch.nn.Module) -> Written:
    """A convolution of PyG's or a Linear as a layer, without what follows it."""
    name = type(m).__name__
    if name == "Linear":
        return {"kind": "mlp", "in": m.weight.shape[1], "out": m.weight.shape[0]}, {"weight": m.weight.t(), "bias": _bias(m.bias, m.weight.shape[0])}
    if name == "SAGEConv" and hasattr(m, "lin_l"):
        _need(m, normalize=False, project=False)
        if m.aggr not in ("mean", "max"):
            raise errors.InvalidError(f"{m} with aggr={m.aggr!r}: gstore has mean and max")
        near = m.lin_l.weight.t()
        own = m.lin_r.weight.t() if m.root_weight else torch.zeros_like(near)
        out = near.shape[1]
        return {"kind": "sage" if m.aggr == "mean" else "sage-max", "in": near.shape[0], "out": out}, {"weight": torch.cat([own, near]), "bias": _bias(m.lin_l.bias, out)}
    if name == "GCNConv" and hasattr(m, "lin"):
        _need(m, normalize=True, improved=False, add_self_loops=True)
        w = m.lin.weight.t()
        return {"kind": "gcn", "in": w.shape[0], "out": w.shape[1]}, {"weight": w, "bias": _bias(m.bias, w.shape[1])}
    if name == "GATConv" and hasattr(m, "att_src"):
        _need(m, negative_slope=0.2, add_self_loops=True, residual=False)
        lin = m.lin_src if getattr(m, "lin", None) is None else m.lin
        w, out = lin.weight.t(), m.heads * m.out_channels if m.concat else m.out_channels
        info = {"kind": "gat", "in": w.shape[0], "out": out, "heads": m.heads, "mean_heads": not m.concat}
        tensors = {"weight": w, "src": m.att_src.reshape(-1, 1), "dst": m.att_dst.reshape(-1, 1), "bias": _bias(m.bias, out)}
        if m.edge_dim is not None:
            _need(m, fill_value="mean")
            info["edge_dim"] = m.edge_dim
            tensors.update({"edge_weight": m.lin_edge.weight.t(), "edge": m.att_edge.reshape(-1, 1)})
        return info, tensors
    if name == "GINConv":
        inner = list(m.nn.children())
        if [type(k).__name__ for k in inner] != ["Linear", "LayerNorm", "ReLU", "Linear"] or float(m.eps) != 0:
            raise errors.InvalidError(f"{m}: gstore has it with eps 0 and nn=Sequential(Linear, torch.nn.LayerNorm, ReLU, Linear)")
        first, second = (_layer(inner[k])[1] for k in (0, 3))
        norm = {k.split(".")[1]: v for k, v in _norm(inner[1])[1].items()}
        tensors = {**{f"0.{k}": v for k, v in first.items()}, **{f"1.{k}": v for k, v in second.items()}, **norm}
        return {"kind": "gin", "in": first["weight"].shape[0], "out": second["weight"].shape[1]}, tensors
    if name == "RGCNConv" and m.root is not None:
        _need(m, aggr="mean", num_blocks=None)
        n, out = m.root.shape
        if m.num_bases is None:
            return {"kind": "rsage", "in": n, "out": out, "relations": m.num_relations}, {"weight": m.root, "relations": m.weight.reshape(-1, out), "bias": _bias(m.bias, out)}
        weight = torch.cat([m.root, m.weight.reshape(-1, out)])
        return {"kind": "rgcn", "in": n, "out": out, "bases": m.num_bases, "relations": m.num_relations}, {"weight": weight, "coef": m.comp, "bias": _bias(m.bias, out)}
    raise errors.InvalidError(f"{m} is none of the layers that save_model knows: PyG's SAGEConv, GCNConv, GATConv, GINConv, RGCNConv; give a list of layers")


def _heads(info: Dict[str, Any], tensors: Dict[str, torch.Tensor], heads: int, hidden: bool) -> None:
    """A hidden layer's heads are side by side, the last one's are averaged, and all layers have equally many."""
    have = info["heads"]
    if have == 1 and heads > 1 and not hidden:  # as many equal ones
        tensors.update({k: tensors[k].repeat(1, heads) for k in ("weight", "edge_weight") if k in tensors}, **{k: tensors[k].repeat(heads, 1) for k in ("src", "dst", "edge") if k in tensors})
    elif have != heads or have > 1 and hidden == info["mean_heads"]:
        where = "side by side in hidden layers, averaged in the last (concat=False)"
        raise errors.InvalidError(f"a GATConv of {have} heads, concat={not info['mean_heads']}, in a model of {heads}: gstore's are {where}")
    info.update(heads=heads, mean_heads=not hidden)


def _norm(m: torch.nn.Module) -> Tuple[str, Dict[str, torch.Tensor]]:
    """A norm's name and tensors."""
    if getattr(m, "mode", "node") != "node":
        raise errors.InvalidError(f"{m}: gstore's norm is over a node's columns: mode='node'")
    m = getattr(m, "module", m)  # of PyG's BatchNorm
    if m.weight is None:
        raise errors.InvalidError(f"{m}: expected one with weights")
    tensors = {"norm.gamma": m.weight, "norm.beta": _bias(m.bias, len(m.weight))}
    if hasattr(m, "running_var"):
        return "batch", {**tensors, "norm.mean": m.running_mean, "norm.variance": m.running_var + (m.eps - _EPSILON)}
    _need(m, eps=_EPSILON)
    return "layer", tensors


def _compare(module: torch.nn.Module, written: Model) -> None:
    """Fails unless both give a random graph's nodes the same logits, or probabilities."""
    r = torch.Generator().manual_seed(1)
    copied = copy.deepcopy(module).cpu().float().eval()
    for m in copied.modules():  # PyG's GCNConv(cached=True) would go on with the graph that it was called with first
        if getattr(m, "cached", False):
            setattr(m, "_cached_edge_index", None)
            setattr(m, "_cached_adj_t", None)
    nodes, relations = 60, max(info.get("relations", 0) for info in written.about["layers"])
    x = torch.randn(nodes, written.about["layers"][0]["in"], generator=r)
    pairs = torch.randperm(nodes * nodes, generator=r)[:240]
    edge_index = torch.stack([pairs // nodes, pairs % nodes])
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    inputs: List[Optional[torch.Tensor]] = [x, edge_index]
    if relations:
        inputs += [torch.randint(0, relations, (edge_index.shape[1],), generator=r)]
    if any(info.get("edge_weights") for info in written.about["layers"]):
        inputs += [None, torch.rand(edge_index.shape[1], generator=r)]
    mine_inputs, dim = list(inputs), written.about["layers"][0].get("edge_dim")
    if dim:
        attr = torch.randn(edge_index.shape[1], dim, generator=r)
        inputs, mine_inputs = inputs + [attr], inputs + [None, None, attr]
    try:
        with torch.no_grad():
            theirs, mine = copied(*inputs), written(*mine_inputs)
    except TypeError as e:
        raise errors.InvalidError(f"{type(module).__name__} is not called with (x, edge_index): give a module that is, or a list of layers ({e})") from e
    if not isinstance(theirs, torch.Tensor):
        raise errors.InvalidError(f"{type(module).__name__} returns a {type(theirs).__name__}, expected a tensor of all nodes' logits")
    close = lambda of: theirs.shape == mine.shape and torch.allclose(theirs, of(mine), rtol=1e-3, atol=1e-4)
    if not any(close(of) for of in (lambda v: v, lambda v: v.log_softmax(1), lambda v: v.softmax(1))):
        far = f"differ by {float((theirs - mine).abs().max()):.3g}" if theirs.shape == mine.shape else f"are {list(theirs.shape)} for {list(mine.shape)}"
        kinds = [f"{info['kind']} {info.get('norm', '')} {info['activation']}" for info in written.about["layers"]]
        raise errors.InvalidError(f"{type(module).__name__} computes something else than its layers in order, {kinds}: outputs on a random graph {far}. Give a list of layers")
