"""Exact outputs of any PyG model for all nodes of a store, layer by layer, within a memory bound.

A mini-batch with all neighbours grows with every hop. Here a layer is computed for all nodes before the next one
begins: a chunk of nodes needs the rows of their direct neighbours only (as GraphSAGE's and DGL's layer-wise inference
do). Rows between layers lie in temporary files.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from . import _stages, errors, sizes
from ._stages import Program, Rows, Table
from .loader import NeighborLoader
from .store import Store, opened

_DEFAULT = 256 << 20  # bytes of a chunk, without mem
_TOLERANCE = 1e-3  # of the check: float32, summed in another order


class Near(NamedTuple):
    """A chunk of nodes with all their neighbours."""

    nodes: np.ndarray  #: the chunk's, then others that they have edges from
    chunk: int  #: how many are the chunk's
    edges: Dict[str, torch.Tensor]  #: edge_index between places in nodes, and edge_type or edge_attr


def infer(
    model: Union[torch.nn.Module, Sequence[Callable]],
    store: Union[Store, str, os.PathLike],
    *,
    features: Union[None, str, Sequence[str]] = None,
    edge_features: Union[None, str, Sequence[str]] = None,
    mem: Union[None, int, str] = None,
    out: Union[None, str, os.PathLike] = None,
    device: Any = None,
    check: bool = True,
) -> np.ndarray:
    """The outputs of a model for every node, from all its neighbours: float32 [nodes, columns], a row for each internal id, so that
    `found[store.lookup(ids)]` are those of the user's ids.

    model: a torch.nn.Module called with (x, edge_index), and as its arguments are called edge_type, edge_attr or
    edge_weight. It is taken apart by torch.fx at its message passing layers (PyG's MessagePassing); what is between
    them must work on each row by itself. Or a list of layers in order: modules without message passing are called with
    (x), all others with (x, edge_index, …). A layer is called with a chunk of nodes, their neighbours and the edges
    between them.
    features: the columns side by side that are x; by default the store's first. edge_features: those of edge_attr.
    mem: bounds what gstore and a chunk's tensors hold; default 256MiB of tensors. The model, its activations within a
    layer of a chunk and the pages that the system caches are beside it. Rows between layers lie in files beside the
    store.
    out: a file to be made, which `numpy.load(out, mmap_mode="r")` opens; by default the result is in memory.
    device: where chunks are computed; by default where the model's parameters are.
    check: first compare with the model as a whole on a small random graph, and refuse a model for which they differ,
    such as one that normalises over all nodes.

    The model is computed as by eval(), without gradients. PyG's GCNConv reads degrees of neighbours, which come from
    the whole graph.
    """
    store = opened(store)
    names = [features] if isinstance(features, str) else list(features or store.feature_names[:1])
    if not names:
        raise errors.NotFoundError(f"{store.path}: no features that a model could read")
    where = torch.device(device) if device is not None else _stages.device_of(model)
    training = _stages.evaluating(model)
    try:
        program = Program(model)
        if check:
            _check(model, program, sum(store._column(n).dim for n in names), max(1, len(store.relations)), where)
        bound = sizes.parse(mem)
        graph = _StoreGraph(store, names, edge_features, bound, program)
        return _run(program, graph, _Files(store), where, out)
    finally:
        training()


class _Files:
    """Where rows between layers lie: files that end with their tables, or with the process."""

    def __init__(self, store: Optional[Store]):
        self.folder = None if store is None else os.path.dirname(os.path.abspath(store.path))

    def table(self, nodes: int, columns: int, path: Union[None, str, os.PathLike] = None) -> Table:
        return Table(nodes, columns, self.folder, None if path is None else os.fspath(path))


def _run(
    program: Program, graph: Any, files: _Files, where: torch.device, out: Union[None, str, os.PathLike]
) -> np.ndarray:
    """Computes the program's stages one after the other; the last one's rows are the result."""
    tables: Dict[str, Rows] = {"x": graph}
    with torch.no_grad():
        for stage in program.stages:
            last = stage is program.stages[-1]
            made: Optional[Table] = None
            for near in graph.chunks(stage.hop):
                rows = {name: torch.from_numpy(tables[name].rows(near.nodes)).to(where) for name in stage.reads}
                found = stage.compute(rows, {k: v.to(where) for k, v in near.edges.items()}, graph, near)
                if not isinstance(found, torch.Tensor) or found.dim() not in (1, 2) or len(found) < near.chunk:
                    raise errors.InvalidError(
                        f"{stage.name} of {len(near.nodes)} rows gave {_stages.shape(found)}: expected a row for each node"
                    )
                own = found[: near.chunk].reshape(near.chunk, -1).float().cpu().numpy()
                if made is None:
                    made = files.table(graph.nodes, own.shape[1], out if last else None)
                made.write(near.nodes[: near.chunk], own)
            if made is None:
                raise errors.InvalidError("a graph without nodes")
            tables[stage.name] = made
            if last:
                return made.result()
            for name in [n for n in tables if n != "x" and n not in program.needed_after(stage)]:
                tables.pop(name)
    raise errors.InvalidError("a model without layers")


class _StoreGraph:
    """A store's features and neighbours."""

    def __init__(
        self,
        store: Store,
        features: Sequence[str],
        edge_features: Union[None, str, Sequence[str]],
        bound: int,
        program: Program,
    ):
        self.store, self.features, self.edge_features, self.bound = store, features, edge_features, bound
        self.nodes = store.nodes
        self.width = sum(store._column(n).dim for n in features)
        self.wants = program.edges
        if "edge_type" in self.wants and not store.of_kinds:
            raise errors.InvalidError("the model reads edge_type, and edges here are of one kind")
        if {"edge_attr", "edge_weight"} & self.wants and edge_features is None:
            if "weight" not in store.columns or "edge_attr" in self.wants:
                own = [n for n, c in store.columns.items() if c.role in ("edge", "weight")]
                raise errors.InvalidError(
                    f"the model reads {sorted(self.wants - {'edge_type'})}: name the columns with edge_features=, of {own}"
                )
            self.edge_features = "weight"
        if edge_features is not None and "edge_type" in self.wants:
            raise errors.InvalidError("edge_type beside columns of edges: neighbours have one of them")
        degree = max(1.0, store.edges * (2 if store.undirected else 1) / max(1, store.nodes))
        columns = max(self.width, program.widest, 16)
        budget = max(bound - (96 << 20), 16 << 20) if bound else _DEFAULT
        # A node of a chunk has its row and its neighbours': as they are read, as they are computed, and their edges.
        self.edges_most = max(1 << 12, int(budget // (4 * columns * 4 + 64)))
        self.chunk = max(1, int(self.edges_most / (degree + 1)))
        self._degrees: Optional[np.ndarray] = None

    def rows(self, nodes: np.ndarray) -> np.ndarray:
        found = [
            self.store.features(n, nodes).reshape(len(nodes), -1).astype(np.float32, copy=False) for n in self.features
        ]
        return found[0] if len(found) == 1 else np.concatenate(found, 1)

    def chunks(self, hop: bool) -> Iterator[Near]:
        if not hop:
            for first in range(0, self.nodes, self.edges_most):
                nodes = np.arange(first, min(first + self.edges_most, self.nodes))
                yield Near(nodes, len(nodes), {})
        elif self.edge_features is not None and {"edge_attr", "edge_weight"} & self.wants:
            yield from self._loaded()
        else:
            for first in range(0, self.nodes, self.chunk):
                yield from self._neighbours(np.arange(first, min(first + self.chunk, self.nodes)))

    def _neighbours(self, nodes: np.ndarray) -> Iterator[Near]:
        """Chunks of nodes that follow each other, which have no more edges than there is room for."""
        near = self.store.neighbors(nodes, relations="edge_type" in self.wants)
        begin = 0
        while begin < len(nodes):
            end = int(np.searchsorted(near.indptr, near.indptr[begin] + self.edges_most, side="right")) - 1
            end = min(max(end, begin + 1), len(nodes))
            at = slice(int(near.indptr[begin]), int(near.indptr[end]))
            if self.bound and at.stop - at.start > 8 * self.edges_most:
                raise errors.BudgetError(
                    f"node {nodes[begin]} has {at.stop - at.start} neighbours, a chunk within mem has room for {self.edges_most}: give more mem"
                )
            kinds = (
                {} if near.relations is None else {"edge_type": torch.from_numpy(near.relations[at].astype(np.int64))}
            )
            yield together(
                nodes[begin:end],
                near.nodes[at],
                np.repeat(np.arange(end - begin), np.diff(near.indptr[begin : end + 1])),
                kinds,
            )
            begin = end

    def _loaded(self) -> Iterator[Near]:
        """Chunks with columns of edges, of a topology in memory."""
        small = min(self.store.feature_names, key=lambda n: self.store.columns[n].dim)
        with NeighborLoader(
            self.store,
            [-1],
            self.chunk,
            split=None,
            shuffle=False,
            features=[small],
            edge_features=self.edge_features,
            plan="memory",
            mem=self.bound or None,
        ) as loader:
            for b in loader:
                assert b.edge_attr is not None and b.edge_index is not None  # as the loader was asked for
                attr = torch.from_numpy(b.edge_attr.copy())
                edges = (
                    {"edge_attr": attr, "edge_weight": attr.reshape(-1)} if attr.shape[1] == 1 else {"edge_attr": attr}
                )
                edges["edge_index"] = torch.from_numpy(b.edge_index.copy())
                yield Near(
                    b.n_id.copy(),
                    b.batch_size,
                    {k: v for k, v in edges.items() if k == "edge_index" or k in self.wants},
                )

    def degrees(self) -> np.ndarray:
        """Edges into each node, one for itself where it has none: int32 [nodes]."""
        if self._degrees is None:
            self._degrees = np.empty(self.nodes, np.int32)
            for first in range(0, self.nodes, self.chunk):
                nodes = np.arange(first, min(first + self.chunk, self.nodes))
                near = self.store.neighbors(nodes)
                dst = np.repeat(nodes, np.diff(near.indptr))
                own = np.unique(dst[dst == near.nodes])
                self._degrees[nodes] = np.diff(near.indptr) + 1
                self._degrees[own] -= 1
        return self._degrees


def together(chunk: np.ndarray, sources: np.ndarray, destinations: np.ndarray, edges: Dict[str, torch.Tensor]) -> Near:
    """A chunk of ascending nodes that follow each other, with edges from sources into its places."""
    others = np.unique(sources[(sources < chunk[0]) | (sources > chunk[-1])])
    inside = (sources >= chunk[0]) & (sources <= chunk[-1])
    place = np.where(inside, sources - chunk[0], len(chunk) + np.searchsorted(others, sources))
    index = torch.from_numpy(np.stack([place, destinations]).astype(np.int64))
    return Near(np.concatenate([chunk, others]), len(chunk), {"edge_index": index, **edges})


class _SmallGraph:
    """A random graph in memory, on which the stages are compared with the model."""

    def __init__(self, columns: int, relations: int, wants: "set[str]", attributes: int):
        g = torch.Generator().manual_seed(1)
        self.nodes, self.chunk = 40, 9
        self.x = torch.randn(self.nodes, columns, generator=g)
        src, dst = torch.randint(0, self.nodes, (2, 160), generator=g)
        order = torch.argsort(dst, stable=True)
        self.index = torch.stack([src, dst])[:, order]
        self.edges: Dict[str, torch.Tensor] = {}
        if "edge_type" in wants:
            self.edges["edge_type"] = torch.randint(0, relations, (160,), generator=g)
        if "edge_attr" in wants:
            self.edges["edge_attr"] = torch.rand(160, attributes, generator=g)
        if "edge_weight" in wants:
            self.edges["edge_weight"] = torch.rand(160, generator=g)

    def rows(self, nodes: np.ndarray) -> np.ndarray:
        return self.x.numpy()[nodes]

    def chunks(self, hop: bool) -> Iterator[Near]:
        src, dst = self.index.numpy()
        for first in range(0, self.nodes, self.chunk):
            nodes = np.arange(first, min(first + self.chunk, self.nodes))
            at = np.flatnonzero((dst >= nodes[0]) & (dst <= nodes[-1]))
            yield together(
                nodes,
                src[at],
                dst[at] - first,
                {k: v[torch.from_numpy(at)] for k, v in self.edges.items()} if hop else {},
            )

    def degrees(self) -> np.ndarray:
        src, dst = self.index.numpy()
        found = np.bincount(dst, minlength=self.nodes) + 1
        found[np.unique(dst[src == dst])] -= 1
        return found.astype(np.int32)


def _check(model: Any, program: Program, columns: int, relations: int, where: torch.device) -> None:
    """Refuses a model whose stages do not compute what it computes."""
    graph = _SmallGraph(columns, relations, program.edges, program.attributes)
    with torch.no_grad():
        whole = (
            _stages.whole(
                model, graph.x.to(where), graph.index.to(where), {k: v.to(where) for k, v in graph.edges.items()}
            )
            .float()
            .cpu()
            .numpy()
        )
    found = _run(program, graph, _Files(None), where, None)
    whole = whole.reshape(len(whole), -1)
    if whole.shape != found.shape or not np.allclose(whole, found, atol=_TOLERANCE, rtol=_TOLERANCE):
        by = "another shape" if whole.shape != found.shape else f"{float(np.abs(whole - found).max()):.2g}"
        raise errors.InvalidError(
            f"{type(model).__name__} layer by layer differs by {by} from the whole on a small graph: it has something that reads more than "
            "a node and its neighbours, such as a normalisation over all nodes"
        )


__all__ = ["infer"]
