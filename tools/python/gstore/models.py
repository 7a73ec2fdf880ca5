"""Models that gstore trained, as PyTorch modules: what docs/models.md says, by which they are exported."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import warnings
from typing import Any, Dict, Iterable, List, Optional, Union

import numpy as np
import torch

from . import errors

_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "U8": np.uint8}


def read_safetensors(path: Union[str, os.PathLike]) -> Dict[str, np.ndarray]:
    """The tensors of a safetensors file, by name."""
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise errors.CorruptError(f"{path}: a header of {length} bytes in {len(data)}")
    found = {}
    for name, t in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + k for k in t["data_offsets"])
        if end > len(data) or t["dtype"] not in _DTYPES:
            raise errors.CorruptError(f"{path}: tensor {name} of {t['dtype']} ends at byte {end} of {len(data)}")
        found[name] = np.frombuffer(data[begin:end], _DTYPES[t["dtype"]]).reshape(t["shape"]).copy()
    return found


def load_model(path: Union[str, os.PathLike]) -> "Model":
    """The model for nodes that `gstore export STORE path --what model` or `save_model` wrote, as a torch.nn.Module. CorruptError says
    that the files are not what was written, by their checksums; one without checksums is read with a warning."""
    folder = pathlib.Path(path)
    try:
        text = (folder / "model.json").read_bytes()
    except FileNotFoundError:
        raise errors.NotFoundError(f"{folder}: no model.json; write one by gstore export STORE {folder} --what model") from None
    try:
        about = json.loads(text)
    except ValueError as e:
        raise errors.CorruptError(f"{folder / 'model.json'}: {e}") from None
    _check(folder, about, text)
    if about["task"] != "node":
        raise errors.InvalidError(f"{folder}: a model of task {about['task']}; those of task node are loaded")
    tensors = read_safetensors(folder / about["tensors_file"])
    _fit(folder, about, tensors)
    return Model(about, tensors)


_NO_SUM = "0" * 64  # stands for a description's own checksum while that is computed


def with_sums(about: Dict[str, Any], tensors: Iterable[bytes]) -> bytes:
    """model.json of a model whose file of tensors consists of these parts, with checksums of both files."""
    whole = hashlib.sha256()
    for part in tensors:
        whole.update(part)
    text = json.dumps({**about, "tensors_sha256": whole.hexdigest(), "description_sha256": _NO_SUM}, indent=2).encode()
    return text.replace(_NO_SUM.encode(), hashlib.sha256(text).hexdigest().encode(), 1)


def _check(folder: pathlib.Path, about: Dict[str, Any], text: bytes) -> None:
    """Refuses files that are not what was written, by their checksums; warns where there are none."""
    sums = [about.get(name, "") for name in ("description_sha256", "tensors_sha256")]
    if not any(sums):
        warnings.warn(f"{folder} carries no checksum: whether it is what was written is not known", stacklevel=3)
        return
    own = re.sub(rb'("description_sha256": *")[0-9a-f]{64}"', rb"\g<1>" + _NO_SUM.encode() + b'"', text, count=1)
    for name, want in (("model.json", sums[0]), (about.get("tensors_file", ""), sums[1])):  # the second name is right where the first sum is
        path = folder / name
        found = hashlib.sha256(own if name == "model.json" else path.read_bytes()).hexdigest()
        if found != want:
            raise errors.CorruptError(
                f"{path}: its sha256 is {found[:16]}…, expected {str(want)[:16]}…; "
                "a file that was changed on purpose is taken without description_sha256 and tensors_sha256 in model.json"
            )


def _fit(folder: pathlib.Path, about: Dict[str, Any], tensors: Dict[str, np.ndarray]) -> None:
    """Refuses tensors that are not what the description says, and numbers that are not finite."""
    shapes = {name: list(t.shape) for name, t in tensors.items()}
    want = {p["name"]: p["shape"] for p in about.get("parameters") or []}
    if want and shapes != want:
        raise errors.InvalidError(f"{folder}: tensors {shapes}, the description says {want}")
    for name, t in tensors.items():
        if not np.isfinite(t).all():
            raise errors.InvalidError(f"{folder}: tensor {name} has numbers that are not finite: training diverged, or the file is damaged")
    last = shapes.get("jump.bias") or ([1, about["layers"][-1]["out"]] if about.get("layers") else [1, 0])
    if about.get("classes") and len(about["classes"]) != last[-1]:
        raise errors.InvalidError(f"{folder}: {len(about['classes'])} classes are named, the last layer has {last[-1]}")


class Model(torch.nn.Module):
    """A node classifier of gstore's. `forward(x, edge_index, edge_type, edge_weight, edge_attr)` gives the logits, or the numbers, of all nodes: x [n, columns] are
    the features as store.features and loaders give them, which are standardised where the store's are, columns of categories behind
    them, edge_index [2, e] sources and destinations of edges, both ways where the graph is undirected, edge_type their
    relations (of a directed graph in both directions, those against it counted on), edge_weight what they weigh, for models with edge weights,
    edge_attr [e, columns] their features, for models of --edge-features.
    Parameters may be trained further, but for a batch norm's running statistics; there is no dropout."""

    def __init__(self, about: Dict[str, Any], tensors: Dict[str, np.ndarray]):
        super().__init__()
        self.about, self.jumping = about, about.get("jumping") or "last"
        infos = about["layers"]
        self.layers = torch.nn.ModuleList(_Layer(info, _below(tensors, layer_prefix(infos, k))) for k, info in enumerate(infos))
        self.jump = torch.nn.ParameterDict(_parameters(_below(tensors, "jump."))) if self.jumping != "last" else None

    def tensors(self) -> Dict[str, np.ndarray]:
        """The parameters as they are now, by the names of the file."""
        found = {}
        for p in self.about["parameters"]:
            prefix, name = p["name"].split(".", 1)
            where: Any = self.jump if prefix == "jump" else next(m for k, m in enumerate(self.layers) if layer_prefix(self.about["layers"], k) == prefix + ".").w
            found[p["name"]] = where[name.replace(".", "_")].detach().cpu().float().numpy()
        return found

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_type: Optional[torch.Tensor] = None, edge_weight: Optional[torch.Tensor] = None, edge_attr: Optional[torch.Tensor] = None) -> torch.Tensor:
        h = x.float()
        states: List[torch.Tensor] = []
        infos = self.about["layers"]
        kind = infos[-1].get("node_types")  # one more than which of the columns behind the features says nodes' types
        node_type = x[:, infos[0]["in"] + kind - 1].long() if kind else None
        for layer in self.layers:
            h = layer(h, edge_index, edge_type, edge_weight, edge_attr, node_type)
            states.append(h)
        if self.jump is not None:
            h = torch.cat(states, 1) if self.jumping == "cat" else torch.stack(states).amax(0)
            h = h @ self.jump["weight"] + self.jump["bias"]
        numbers = self.about.get("numbers")
        return h * numbers["deviation"] + numbers["mean"] if numbers else h


def layer_prefix(layers: List[Dict[str, Any]], k: int) -> str:
    """What the names of the tensors of layer k of these begin with."""
    first = 1 if layers[0]["kind"] == "input" else 0
    return "input." if k < first else f"{k - first}."


def _below(tensors: Dict[str, np.ndarray], prefix: str) -> Dict[str, np.ndarray]:
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}


def _parameters(tensors: Dict[str, np.ndarray]) -> Dict[str, torch.nn.Parameter]:
    """Names with dots are none for PyTorch's dictionaries. Running statistics of a norm are not trained."""
    fixed = ("norm.mean", "norm.variance")
    return {k.replace(".", "_"): torch.nn.Parameter(torch.from_numpy(v), requires_grad=k not in fixed) for k, v in tensors.items()}


def _mean(rows: torch.Tensor, dst: torch.Tensor, n: int) -> torch.Tensor:
    total = rows.new_zeros(n, rows.shape[1]).index_add_(0, dst, rows)
    return total / torch.bincount(dst, minlength=n).clamp(min=1)[:, None]


class _Layer(torch.nn.Module):
    """One layer, by the formulas of docs/models.md."""

    def __init__(self, info: Dict[str, Any], tensors: Dict[str, np.ndarray]):
        super().__init__()
        self.info, self.kind = info, info["kind"]
        self.relational = bool(info.get("relations") or {"relations", "coef"} & set(tensors))  # the latter of earlier versions
        self.w = torch.nn.ParameterDict(_parameters(tensors))
        if not hasattr(self, "_" + self.kind.replace("-", "_")):
            raise errors.InvalidError(f"a layer of kind {self.kind!r} is not known")

    def forward(self, h: torch.Tensor, edge_index: torch.Tensor, edge_type: Optional[torch.Tensor], edge_weight: Optional[torch.Tensor], edge_attr: Optional[torch.Tensor], node_type: Optional[torch.Tensor] = None) -> torch.Tensor:
        carried: Any = None
        if self.relational:
            if edge_type is None:
                raise errors.InvalidError("a model of relations needs edge_type")
            carried = edge_type
        self.node_type = node_type
        if self.info.get("edge_weights"):
            if edge_weight is None:
                raise errors.InvalidError("a model with edge weights needs edge_weight")
            carried = edge_weight.to(h.dtype).clamp(min=0)
        if self.info.get("edge_dim"):
            if edge_attr is None or edge_attr.shape != (edge_index.shape[1], self.info["edge_dim"]):
                raise errors.InvalidError(f"a model with features of edges needs edge_attr [{edge_index.shape[1]}, {self.info['edge_dim']}]")
            carried = edge_attr.to(h.dtype)
        y = getattr(self, "_" + self.kind.replace("-", "_"))(h, edge_index[0], edge_index[1], carried)
        norm = self.info.get("norm") or "none"
        if norm == "layer":
            y = _layer_norm(y) * self.w["norm_gamma"] + self.w["norm_beta"]
        elif norm == "batch":
            y = (y - self.w["norm_mean"]) / (self.w["norm_variance"] + 1e-5).sqrt() * self.w["norm_gamma"] + self.w["norm_beta"]
        if self.info.get("residual"):
            y = y + (h @ self.w["residual"] if "residual" in self.w else h)
        activation = self.info.get("activation") or "none"
        return {"none": lambda v: v, "relu": torch.relu, "tanh": torch.tanh}[activation](y)

    def _sage(self, h, src, dst, weight):
        if weight is None:
            return torch.cat([h, _mean(h[src], dst, len(h))], 1) @ self.w["weight"] + self.w["bias"]
        by = h.new_zeros(len(h)).index_add_(0, dst, weight)
        total = torch.zeros_like(h).index_add_(0, dst, h[src] * weight[:, None]) / torch.where(by > 0, by, 1.0)[:, None]
        return torch.cat([h, total], 1) @ self.w["weight"] + self.w["bias"]

    def _sage_max(self, h, src, dst, _):
        most = torch.full_like(h, -torch.inf).scatter_reduce_(0, dst[:, None].expand(-1, h.shape[1]), h[src], "amax")
        return torch.cat([h, torch.where(most.isinf(), 0.0, most)], 1) @ self.w["weight"] + self.w["bias"]

    def _gcn(self, h, src, dst, weight):
        weight = h.new_ones(len(src)) if weight is None else weight
        d = 1 + h.new_zeros(len(h)).index_add_(0, dst, weight)
        total = torch.zeros_like(h).index_add_(0, dst, h[src] * (weight * (d[src] * d[dst]).rsqrt())[:, None])
        return (h / d[:, None] + total) @ self.w["weight"] + self.w["bias"]

    def _gat(self, h, src, dst, attr):
        loops, own = torch.arange(len(h)), 0.0
        if attr is not None:
            heads = self.info["heads"]
            own = attr @ (self.w["edge_weight"].view(attr.shape[1], heads, -1) * self.w["edge"].view(heads, -1)).sum(2)
            own = torch.cat([own, _mean(own, dst, len(h))])
        return self._attention(h, torch.cat([src, loops]), torch.cat([dst, loops]), *(self.w[k] for k in ("weight", "src", "dst")), own) + self.w["bias"]

    def _rgat(self, h, src, dst, kind):
        y = h @ self.w["weight"] + self.w["bias"]
        relations = len(self.w["relations"]) // h.shape[1]
        for r, parts in enumerate(zip(*(torch.chunk(self.w[k], relations) for k in ("relations", "src", "dst")))):
            of = kind == r
            y = y + self._attention(h, src[of], dst[of], *parts)
        return y

    def _attention(self, h, src, dst, weight, by_src, by_dst, own=0.0):
        heads, n = self.info["heads"], len(h)
        t = (h @ weight).view(n, heads, -1)
        of_src, of_dst = ((t * v.reshape(heads, -1)).sum(2) for v in (by_src, by_dst))
        share = _softmax(torch.nn.functional.leaky_relu(of_src[src] + of_dst[dst] + own, 0.2), dst, n)
        y = t.new_zeros(t.shape).index_add_(0, dst, share[:, :, None] * t[src])
        return y.mean(1) if self.info.get("mean_heads") else y.flatten(1)

    def _gin(self, h, src, dst, _):
        z = (h + torch.zeros_like(h).index_add_(0, dst, h[src])) @ self.w["0_weight"] + self.w["0_bias"]
        return torch.relu(_layer_norm(z) * self.w["gamma"] + self.w["beta"]) @ self.w["1_weight"] + self.w["1_bias"]

    def _rgcn(self, h, src, dst, kind):
        coef = self.w["coef"]
        z = [torch.zeros_like(h) for _ in range(coef.shape[1])]
        for r in range(coef.shape[0]):
            of = kind == r
            mean = _mean(h[src[of]], dst[of], len(h))
            z = [total + coef[r, b] * mean for b, total in enumerate(z)]
        return torch.cat([h, *z], 1) @ self.w["weight"] + self.w["bias"]

    def _input(self, h, src, dst, _):
        n = self.info["in"]
        y = h[:, :n] @ self.w["weight"] if n else h.new_zeros(len(h), self.info["out"])
        for k in range(len(self.info.get("categories", []))):
            vectors, number = self.w[f"{k}_vectors"], h[:, n + k].long()
            y = y + vectors[torch.where(number < len(vectors), number, 0)]  # nodes that were appended since have none
        return y

    def _rsage(self, h, src, dst, kind):
        y = h @ self.w["weight"] + self.w["bias"]
        for r, weight in enumerate(self.w["relations"].view(-1, *self.w["weight"].shape)):
            of = kind == r
            y = y + _mean(h[src[of]], dst[of], len(h)) @ weight
        return y

    def _hgt(self, h, src, dst, kind):
        heads, n = self.info["heads"], len(h)
        kinds = torch.zeros(n, dtype=torch.long) if self.node_type is None else self.node_type
        k, m = (part.reshape(n, heads, -1) for part in self._typed("source", h, kinds).chunk(2, 1))
        q = self._typed("query", h, kinds).view(n, heads, -1)
        d = q.shape[2]
        keys, messages = (self.w[name].view(-1, heads, d, d) for name in ("key", "message"))
        score, sent = h.new_zeros(len(src), heads), h.new_zeros(len(src), heads, d)
        for r in range(len(keys)):
            of = kind == r
            score[of] = (torch.einsum("ehi,hij->ehj", k[src[of]], keys[r]) * q[dst[of]]).sum(2) * self.w["prior"][r] / d**0.5
            sent[of] = torch.einsum("ehi,hij->ehj", m[src[of]], messages[r])
        o = h.new_zeros(n, heads, d).index_add_(0, dst, _softmax(score, dst, n)[:, :, None] * sent).flatten(1)
        y = self._typed("output", torch.nn.functional.gelu(o), kinds)
        if "skip" in self.w:
            gate = torch.sigmoid(self.w["skip"][kinds])
            y = gate * y + (1 - gate) * h
        return y @ self.w["logits_weight"] + self.w["logits_bias"] if "logits_weight" in self.w else y

    def _typed(self, name, x, kinds):
        """x times the matrix of each row's type."""
        weights, biases = self.w[name + "_weight"], self.w[name + "_bias"]
        y = x.new_zeros(len(x), weights.shape[1])
        for t, weight in enumerate(weights.view(len(biases), x.shape[1], -1)):
            y[kinds == t] = x[kinds == t] @ weight + biases[t]
        return y

    def _mlp(self, h, src, dst, _):
        return h @ self.w["weight"] + self.w["bias"]


def _softmax(score: torch.Tensor, dst: torch.Tensor, n: int) -> torch.Tensor:
    """Of the scores [edges, heads] of each destination's edges."""
    most = score.new_full((n, score.shape[1]), -torch.inf).scatter_reduce_(0, dst[:, None].expand_as(score), score, "amax")
    share = (score - most[dst]).exp()
    return share / share.new_zeros(n, score.shape[1]).index_add_(0, dst, share)[dst]


def _layer_norm(z: torch.Tensor) -> torch.Tensor:
    return (z - z.mean(1, keepdim=True)) / (z.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
