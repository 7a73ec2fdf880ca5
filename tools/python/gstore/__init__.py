"""gstore: graphs larger than memory for PyTorch, PyG and DGL.

>>> store = gstore.open("papers.gstore")
>>> loader = gstore.NeighborLoader(store, fanouts=[15, 10], batch_size=1000, mem="8GiB", seed=1)
>>> for batch in loader:
...     data = batch.to_pyg()

A thin layer over gstore's Go library; numpy is all that it needs.
"""

import importlib
import os
from typing import Any, Optional, Sequence, Union

import numpy as np

from .errors import (
    BudgetError, CancelledError, ClosedError, CorruptError, Error, ExistsError, ForkError, InputError, InternalError, InvalidError,
    LockedError, NotFoundError, VersionError,
)  # fmt: skip
from .graphs import from_pyg
from .history import History, Past
from .ingest import append, ingest
from .links import LinkBatch, LinkLoader
from .loader import Batch, Layer, NeighborLoader
from .remote import pull, push
from .store import Column, Neighbors, Store, open
from .table import EmbeddingTable

__version__ = "0.1.0"


def load_model(path: "Union[str, os.PathLike[str]]") -> "Any":
    """The model for nodes that `gstore export STORE path --what model` or `save_model` wrote, as a torch.nn.Module (docs/python.md)."""
    from .models import load_model as load

    return load(path)


def save_model(model: "Any", path: "Union[str, os.PathLike[str]]", store: "Optional[Store]" = None, *, features: "Optional[Sequence[str]]" = None, edge_features: "Optional[Sequence[str]]" = None) -> None:
    """Writes a torch.nn.Module as a model that `gstore eval STORE --checkpoint path` computes out of core (docs/python.md)."""
    from .modules import save_model as save

    save(model, path, store, features=features, edge_features=edge_features)


def infer(model: "Any", store: "Union[Store, str, os.PathLike[str]]", **options: "Any") -> "np.ndarray":
    """The outputs of a PyG model, or a list of layers, for every node from all its neighbours, layer by layer within `mem`: float32
    [nodes, columns], a row for each internal id (`gstore.infer` of docs/python.md). options: features, edge_features, mem, out,
    device, check."""
    from ._infer import infer as run

    return run(model, store, **options)


def __getattr__(name: str) -> "Any":
    """gstore.pyg, which needs PyTorch and PyG, is imported when it is first named."""
    if name == "pyg":
        return importlib.import_module(".pyg", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Batch", "BudgetError", "CancelledError", "ClosedError", "Column", "CorruptError", "EmbeddingTable", "Error", "ExistsError", "ForkError", "History",
    "InputError", "InternalError", "InvalidError", "Layer", "LinkBatch", "LinkLoader", "LockedError", "NeighborLoader", "Neighbors", "NotFoundError", "Past", "Store", "VersionError", "from_pyg", "infer", "ingest",
    "load_model", "open", "pull", "push", "save_model",
]  # fmt: skip
