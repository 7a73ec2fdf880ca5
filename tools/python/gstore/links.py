"""Batches of edges with wrong answers: what link prediction trains on."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, TypeVar, Union

import numpy as np

from . import errors, sizes
from ._epochs import EpochBatch, Epochs
from .store import Store, opened
from .table import EmbeddingTable

_L = TypeVar("_L", bound="LinkLoader")


class LinkBatch(EpochBatch):
    """Edges, and nodes that are wrong answers for them. Arrays are views of the loader's memory, valid until the next batch.

    Nodes are numbered within the batch; `n_id` says which they are: ends of the `batch_size` edges and wrong answers first, in no
    order, then with fanouts their neighbours, by whose edges, of both directions, they are reached. Each edge asks twice: for its
    tail, and for its head. Either side takes the edges in an order of its own, and cuts it into chunks whose edges share wrong
    answers: out of core those of a chunk have their answers in the same part of what is in memory.
    """

    def __init__(self, info: Dict[str, Any], arrays: Dict[str, np.ndarray], epoch: int):
        super().__init__(info, arrays, epoch)
        ends = info["chunks"]
        self.chunks: List[List[int]] = [ends[: len(ends) // 2], ends[len(ends) // 2 :]]  #: of tails, of heads: where chunks end

    @property
    def head(self) -> np.ndarray:
        """int64 [edges]: places in n_id."""
        return self._arrays["head"]

    @property
    def tail(self) -> np.ndarray:
        """int64 [edges]: places in n_id."""
        return self._arrays["tail"]

    @property
    def relation(self) -> np.ndarray:
        """int64 [edges]."""
        return self._arrays["relation"]

    @property
    def negatives(self) -> np.ndarray:
        """int64 [2, chunks, negatives]: places in n_id of wrong tails, and of wrong heads."""
        return self._arrays["negatives"]

    @property
    def order(self) -> np.ndarray:
        """int64 [2, edges]: the edges in the order in which chunks take them, that of tails and that of heads."""
        return self._arrays["order"]

    @property
    def mask(self) -> np.ndarray:
        """int64: the wrong answers that are the edge's own right one, as places in scores of shape [2, edges, negatives],
        each side's edges in its order, seen as one list."""
        return self._arrays["mask"]


class LinkLoader(Epochs):
    """Mini-batches of a directed store's edges with shared negatives, in memory or by COMET, a part of the graph at a time.

    Batches are those of `gstore train` on links with the same store, seed, batch size, negatives, chunks, fanouts and plan:
    edges in an order of the epoch's own; negatives, as negatives_from says, from where answers may lie in memory
    ("answers"), from all of it ("resident") or half from each ("mixed"; "auto" is that where nodes have many edges). One seed gives the same batches for any number of threads.

    >>> table = gstore.EmbeddingTable(store, "nodes", dim=100)
    >>> for batch in gstore.LinkLoader(store, table=table, mem="2GiB", seed=1):
    ...     x = table.rows(batch.n_id)
    ...     loss(model, x, batch).backward()
    ...     table.step()

    batch_size: edges. negatives: wrong answers for each edge and side; chunks: groups of a batch's edges that share them.
    degree_share: of the negatives, drawn in proportion to degree; the others are drawn uniformly.
    fanouts: [n] also samples n neighbours over incoming edges and n over outgoing ones, as training's encoders have them.
    remove_batch_edges: hide a batch's edges from these neighbourhoods; by default they are.
    keep_batch_edges: the share of them, drawn at random, that are not hidden; by default, where nodes have many edges, a half, but
    no more than twice the share of the partitions that is in memory.
    table: an EmbeddingTable whose rows are then read ahead and written back behind the training, with the partitions that they
    are of: `table.rows` and `table.step` take the batch's nodes, and others are read from the disk. Its own `mem` holds
    nothing meanwhile. Steps are in the table's next checkpoint, which may be made at any batch.
    rank, world_size: of processes that train one model together, as NeighborLoader's: all do equally many batches an epoch, and
    their edges together are the epoch's. A table has one opener, so that the ranks' embeddings lie elsewhere.
    plan: "auto", "memory", "comet" or "beta"; buffer is the partitions in memory at once, logical COMET's logical
    partitions; mem bounds what gstore holds, the table's rows included. Without a table the room of rows of `gstore train`,
    and always that of its tensors and of evaluation, is left to the caller.
    device: as NeighborLoader's; `table.rows(batch.n_id, device=loader.device)` gives rows beside the batch's tensors.
    """

    def __init__(
        self,
        store: Union[Store, str, os.PathLike],
        batch_size: int = 1000,
        *,
        negatives: int = 500,
        chunks: int = 10,
        degree_share: float = 0.0,
        negatives_from: str = "auto",
        fanouts: Sequence[int] = (),
        remove_batch_edges: Optional[bool] = None,
        keep_batch_edges: float = 0.0,
        table: Optional[EmbeddingTable] = None,
        plan: str = "auto",
        mem: Union[None, int, str] = None,
        buffer: int = 0,
        logical: int = 0,
        seed: int = 0,
        threads: int = 0,
        rank: int = 0,
        world_size: int = 1,
        io_engine: str = "auto",
        copy: bool = False,
        device: Any = None,
    ):
        self.copy, store = copy, opened(store)
        self.table = table
        if table is not None and not (table._drop and table._drop.alive):
            raise errors.ClosedError("the table is closed")
        request = {
            "fanouts": list(fanouts), "batch_size": batch_size, "negatives": negatives, "chunks": chunks, "degree_share": degree_share,
            "negatives_from": negatives_from,
            "remove_batch_edges": remove_batch_edges, "keep_batch_edges": keep_batch_edges, "plan": plan, "buffer": buffer, "logical": logical,
            "memory_bytes": sizes.parse(mem), "seed": seed, "threads": threads, "io_engine": io_engine, "rank": rank, "world": world_size,
            "table": table._handle if table is not None else 0,
        }  # fmt: skip
        self._begin(store, "links", request, ("fanouts", "batch_size", "negatives", "chunks", "degree_share", "negatives_from", "seed", "rank", "world"), device)
        self._identity.update({k: self.config[k] for k in ("logical", "remove_batch_edges", "keep_batch_edges")})

    def __iter__(self) -> Iterator[LinkBatch]:
        return super().__iter__()

    def __enter__(self: _L) -> _L:
        return self

    def _batch(self, info: Dict[str, Any], arrays: Dict[str, np.ndarray]) -> LinkBatch:
        return LinkBatch(info, arrays, self.epoch)
