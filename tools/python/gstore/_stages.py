"""A model cut at its message passing layers: stages, each of which reads rows that are there before and makes rows of its own."""

from __future__ import annotations

import mmap
import operator
import os
import tempfile
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Set, Tuple, Union

import numpy as np
import torch
import torch.fx

from . import errors

EDGES = ("edge_index", "edge_type", "edge_attr", "edge_weight")


class Rows(Protocol):
    """Rows by node."""

    def rows(self, nodes: np.ndarray) -> np.ndarray: ...


class Table:
    """float32 rows of all nodes, in a temporary file, in a file that stays, or in memory without a folder."""

    def __init__(self, nodes: int, columns: int, folder: Optional[str], path: Optional[str]):
        self._stays = path is not None or folder is None
        if path is not None:
            self._rows: np.ndarray = np.lib.format.open_memmap(path, "w+", np.float32, (nodes, columns))
        elif folder is None:
            self._rows = np.empty((nodes, columns), np.float32)
        else:
            with tempfile.TemporaryFile(dir=folder) as f:
                os.truncate(f.fileno(), max(4, 4 * nodes * columns))
                self._rows = np.memmap(f, np.float32, "r+", shape=(nodes, columns))

    def rows(self, nodes: np.ndarray) -> np.ndarray:
        found = self._rows[nodes]
        self._settle()
        return found

    def write(self, nodes: np.ndarray, rows: np.ndarray) -> None:
        self._rows[nodes] = rows
        self._settle()

    def _settle(self) -> None:
        """Has the process hold none of the file's pages: the system keeps them while there is room."""
        held = getattr(self._rows, "_mmap", None)
        if held is not None and hasattr(held, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
            held.madvise(mmap.MADV_DONTNEED)

    def result(self) -> np.ndarray:
        if isinstance(self._rows, np.memmap) and self._stays:
            self._rows.flush()
            return self._rows
        return np.array(self._rows)


class Stage:
    """What makes rows of those that it reads: a layer, whose chunks have their neighbours (hop), or what works on each row."""

    def __init__(
        self,
        name: str,
        hop: bool,
        reads: Sequence[str],
        compute: Callable[[Dict[str, torch.Tensor], Dict[str, torch.Tensor], Any, Any], torch.Tensor],
    ):
        self.name, self.hop, self.reads, self.compute = name, hop, list(dict.fromkeys(reads)), compute


class Program:
    """The stages of a model, or of a list of layers."""

    def __init__(self, model: Any):
        self.edges: Set[str] = {"edge_index"}
        self.attributes = 1
        self.widest = 1
        modules = (
            list(model.modules())
            if isinstance(model, torch.nn.Module)
            else [m for layer in model if isinstance(layer, torch.nn.Module) for m in layer.modules()]
        )
        for m in modules:
            for p in m.parameters(recurse=False):
                self.widest = max(self.widest, *p.shape, 1)
            if getattr(m, "edge_dim", None):
                self.attributes = int(m.edge_dim)
        if isinstance(model, torch.nn.Module):
            self.stages = _Cut(model, self).stages
        else:
            self.stages = self._listed(list(model))
        if not self.stages:
            raise errors.InvalidError("a model without layers")

    def _listed(self, layers: Sequence[Callable]) -> List[Stage]:
        stages, before = [], "x"
        for k, layer in enumerate(layers):
            name, hop = f"layer {k}", passes_messages(layer)
            if isinstance(layer, torch.nn.Module) and hop:
                self.edges |= set(_arguments(layer)) & set(EDGES[1:])

            def compute(
                rows: Dict[str, torch.Tensor],
                edges: Dict[str, torch.Tensor],
                graph: Any,
                near: Any,
                layer: Any = layer,
                before: str = before,
                hop: bool = hop,
            ) -> torch.Tensor:
                if not hop:
                    return layer(rows[before])
                more = [edges[e] for e in EDGES[1:] if e in edges]
                return _called(layer, (rows[before], edges["edge_index"], *more), {}, graph, near)

            stages.append(Stage(name, hop, [before], compute))
            before = name
        return stages

    def needed_after(self, stage: Stage) -> Set[str]:
        """Rows that later stages read, and the last one's."""
        later = self.stages[self.stages.index(stage) + 1 :]
        return {name for s in later for name in s.reads} | {self.stages[-1].name}


def passes_messages(layer: Any) -> bool:
    """Whether a layer reads edges: all but modules that have no message passing in them."""
    from torch_geometric.nn import MessagePassing

    return not isinstance(layer, torch.nn.Module) or any(isinstance(m, MessagePassing) for m in layer.modules())


def _arguments(layer: torch.nn.Module) -> List[str]:
    """What a layer's forward calls its arguments, without those that have a default unless the layer reads columns of edges."""
    import inspect

    found = []
    for name, p in inspect.signature(layer.forward).parameters.items():
        if name == "edge_attr" and not getattr(layer, "edge_dim", None) or name == "edge_weight":
            continue
        if p.default is inspect.Parameter.empty or name in ("edge_attr", "edge_type"):
            found.append(name)
    return found


def _called(layer: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any], graph: Any, near: Any) -> torch.Tensor:
    """Calls a layer with a chunk. What GCNConv takes from neighbours' degrees comes from the whole graph."""
    from torch_geometric.nn import GCNConv
    from torch_geometric.utils import add_remaining_self_loops

    if not isinstance(layer, GCNConv) or not layer.normalize:
        return layer(*args, **kwargs)
    given = dict(zip(("x", "edge_index", "edge_weight"), args), **kwargs)
    if given.get("edge_weight") is not None or layer.improved or not layer.add_self_loops:
        raise errors.InvalidError(
            "GCNConv with weights of edges, improved=True or add_self_loops=False: its degrees are not those of the graph: expected the plain one"
        )
    if layer.flow != "source_to_target":
        raise errors.InvalidError("GCNConv with flow='target_to_source': expected edges into a node")
    x, index = given["x"], given["edge_index"]
    inner = index[:, index[1] < near.chunk]
    index, _ = add_remaining_self_loops(inner, num_nodes=len(x))
    scale = torch.from_numpy(graph.degrees()[near.nodes]).to(x.device).float().pow(-0.5)
    layer.normalize = False
    try:
        return layer(x, index, scale[index[0]] * scale[index[1]])
    finally:
        layer.normalize = True


class _Tracer(torch.fx.Tracer):
    """Layers are not looked into: message passing, and what PyTorch and PyG make of one piece."""

    def is_leaf_module(self, m: torch.nn.Module, qualified: str) -> bool:
        from torch_geometric.nn import MessagePassing

        if isinstance(m, MessagePassing):
            return True
        inside = any(isinstance(x, MessagePassing) for x in m.modules())
        return not inside and (
            m.__module__.startswith(("torch.nn", "torch_geometric.nn")) and not isinstance(m, torch.nn.Sequential)
        )


class _Cut:
    """Cuts a traced model. A value is of rows, of edges, or of neither; a layer's rows, and its result, are tables."""

    def __init__(self, model: torch.nn.Module, program: Program):
        self.model, self.program = model, program
        self.stages: List[Stage] = []
        self.kinds: Dict[torch.fx.Node, str] = {}
        self.tables: Dict[torch.fx.Node, str] = {}  # what rows lie in a table
        try:
            self.fixed = _defaults(model)
            self.graph = _Tracer().trace(model, concrete_args=self.fixed)
        except Exception as e:
            raise errors.InvalidError(
                f"{type(model).__name__} cannot be taken apart by torch.fx ({type(e).__name__}: {e}): give its layers as a list, such as [model.conv1, torch.relu, model.conv2] with modules for functions"
            ) from e
        for node in self.graph.nodes:
            self._look(node)

    def _look(self, node: torch.fx.Node) -> None:
        if node.op == "placeholder":
            self._argument(node)
            return
        if node.op == "output":
            value = node.args[0]
            if not isinstance(value, torch.fx.Node) or self.kinds[value] != "rows":
                raise errors.InvalidError(
                    f"{type(self.model).__name__} returns {value}: expected one tensor with a row for each node"
                )
            if value not in self.tables or not self.stages or self.stages[-1].name != self.tables[value]:
                self._pointwise(value)
            return
        of = {self.kinds[n] for n in node.all_input_nodes}
        if self._passes(node):
            self._layer(node)
        elif {"rows", "edges"} <= of:
            raise errors.InvalidError(
                f"{type(self.model).__name__}: {node.format_node()} reads rows and edges together, and is no message passing layer: expected layers of PyG's MessagePassing"
            )
        else:
            self.kinds[node] = "rows" if "rows" in of else "edges" if "edges" in of else "none"

    def _argument(self, node: torch.fx.Node) -> None:
        name = str(node.target)
        if name.rpartition("_")[0] in self.fixed:  # what torch.fx calls an argument that keeps its default
            self.kinds[node] = "none"
        elif name in EDGES:
            self.kinds[node] = "edges"
            self.program.edges.add(name)
        elif not any(k == "rows" for k in self.kinds.values()):
            self.kinds[node], self.tables[node] = "rows", "x"
        else:
            raise errors.InvalidError(
                f"{type(self.model).__name__} has an argument {name!r}: expected x, edge_index, edge_type, edge_attr and edge_weight"
            )

    def _passes(self, node: torch.fx.Node) -> bool:
        return node.op == "call_module" and passes_messages(self.model.get_submodule(str(node.target)))

    def _pointwise(self, node: torch.fx.Node) -> None:
        """A stage that makes a table of rows."""
        reads, there = self._reads(node), self.tables.get(node)
        name = f"rows {node.name}"

        def compute(
            rows: Dict[str, torch.Tensor], edges: Dict[str, torch.Tensor], graph: Any, near: Any
        ) -> torch.Tensor:
            return self._value(node, rows, edges) if there is None else rows[there]

        self.stages.append(Stage(name, False, reads, compute))
        self.tables[node] = name

    def _layer(self, node: torch.fx.Node) -> None:
        """A stage of a message passing layer, whose arguments of rows lie in tables."""
        reads = []
        for n in node.all_input_nodes:
            if self.kinds[n] == "rows" and n not in self.tables:
                self._pointwise(n)
            if self.kinds[n] == "rows":
                reads.append(self.tables[n])
        layer = self.model.get_submodule(str(node.target))

        def compute(
            rows: Dict[str, torch.Tensor], edges: Dict[str, torch.Tensor], graph: Any, near: Any
        ) -> torch.Tensor:
            value = lambda n: self._value(n, rows, edges)
            return _called(layer, torch.fx.map_arg(node.args, value), torch.fx.map_arg(node.kwargs, value), graph, near)

        name = f"layer {node.target}, {node.name}"
        self.stages.append(Stage(name, True, reads, compute))
        self.kinds[node], self.tables[node] = "rows", name

    def _reads(self, node: torch.fx.Node) -> List[str]:
        """The tables that rows follow from, row by row."""
        if node in self.tables:
            return [self.tables[node]]
        return [name for n in node.all_input_nodes if self.kinds[n] == "rows" for name in self._reads(n)]

    def _value(self, node: torch.fx.Node, rows: Dict[str, torch.Tensor], edges: Dict[str, torch.Tensor]) -> Any:
        """A value of a chunk, from its tables' rows and its edges."""
        known: Dict[torch.fx.Node, Any] = {}

        def of(n: torch.fx.Node) -> Any:
            if n in known:
                return known[n]
            if n in self.tables and self.tables[n] in rows:
                known[n] = rows[self.tables[n]]
                return known[n]
            if n.op == "placeholder":
                known[n] = (
                    edges[str(n.target)] if self.kinds[n] == "edges" else self.fixed[str(n.target).rpartition("_")[0]]
                )
                return known[n]
            if n.op == "get_attr":
                known[n] = operator.attrgetter(str(n.target))(self.model)
                return known[n]
            args, kwargs = torch.fx.map_arg(n.args, of), torch.fx.map_arg(n.kwargs, of)
            if n.op == "call_module":
                known[n] = self.model.get_submodule(str(n.target))(*args, **kwargs)
            elif n.op == "call_method":
                known[n] = getattr(args[0], str(n.target))(*args[1:], **kwargs)
            else:
                known[n] = n.target(*args, **kwargs)  # type: ignore[operator]
            return known[n]

        return of(node)


def _defaults(model: torch.nn.Module) -> Dict[str, Any]:
    """Arguments that keep their default: all that have one but those of edges that the model's layers read."""
    import inspect

    found = {}
    read = {name for m in model.modules() if passes_messages(m) and m is not model for name in _arguments(m)}
    for name, p in inspect.signature(model.forward).parameters.items():
        if (
            p.default is not inspect.Parameter.empty
            and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
            and not (name in EDGES and name in read)
        ):
            found[name] = p.default
    return found


def device_of(model: Any) -> torch.device:
    """Where a model's parameters are."""
    parts = [model] if isinstance(model, torch.nn.Module) else [m for m in model if isinstance(m, torch.nn.Module)]
    return next((p.device for m in parts for p in m.parameters()), torch.device("cpu"))


def evaluating(model: Any) -> Callable[[], None]:
    """Has a model compute as by eval(), and returns what has it go on as it was."""
    parts = [model] if isinstance(model, torch.nn.Module) else [m for m in model if isinstance(m, torch.nn.Module)]
    before = [(x, x.training) for m in parts for x in m.modules()]
    for m in parts:
        m.eval()

    def back() -> None:
        for x, training in before:
            x.training = training

    return back


def whole(model: Any, x: torch.Tensor, index: torch.Tensor, edges: Dict[str, torch.Tensor]) -> torch.Tensor:
    """The model on a graph as a whole."""
    if isinstance(model, torch.nn.Module):
        return model(x, index, **edges)
    more = [edges[e] for e in EDGES[1:] if e in edges]
    for layer in model:
        x = layer(x, index, *more) if passes_messages(layer) else layer(x)
    return x


def shape(found: Any) -> Union[str, Tuple[int, ...]]:
    """What a message says of a result."""
    return tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
