"""gstore: graphs larger than memory for PyTorch, PyG and DGL.

>>> store = gstore.open("papers.gstore")
>>> loader = gstore.NeighborLoader(store, fanouts=[15, 10], batch_size=1000, mem="8GiB", seed=1)
>>> for batch in loader:
...     data = batch.to_pyg()

A thin layer over gstore's Go library; numpy is all that it needs.
"""

import os
from typing import Any, Union

from .errors import (
    BudgetError, CancelledError, ClosedError, CorruptError, Error, ExistsError, ForkError, InputError, InvalidError, LockedError,
    NotFoundError, VersionError,
)  # fmt: skip
from .graphs import from_pyg
from .ingest import ingest
from .links import LinkBatch, LinkLoader
from .loader import Batch, Layer, NeighborLoader
from .store import Column, Neighbors, Store, open
from .table import EmbeddingTable

__version__ = "0.1.0"


def load_model(path: "Union[str, os.PathLike[str]]") -> "Any":
    """The model for nodes that `gstore export STORE path --what model` wrote, as a torch.nn.Module (docs/python.md)."""
    from .models import load_model as load

    return load(path)


__all__ = [
    "Batch", "BudgetError", "CancelledError", "ClosedError", "Column", "CorruptError", "EmbeddingTable", "Error", "ExistsError", "ForkError",
    "InputError", "InvalidError", "Layer", "LinkBatch", "LinkLoader", "LockedError", "NeighborLoader", "Neighbors", "NotFoundError", "Store", "VersionError", "from_pyg", "ingest",
    "load_model", "open",
]  # fmt: skip
