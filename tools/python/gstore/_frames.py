"""Tables of pandas, pyarrow and polars: which column of theirs is what, by the names that `gstore ingest` knows (docs/formats.md)."""

import re
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from . import errors
from .store import PARTS

ENDS = (
    ("src", "dst"), ("source", "target"), ("source", "destination"), ("from", "to"), ("head", "tail"), ("src_id", "dst_id"),
    ("source_id", "target_id"), ("from_id", "to_id"), ("head_id", "tail_id"), ("u", "v"), ("subject", "object"), ("h", "t"),
)  # fmt: skip
IDS = ("id", "node", "node_id", "nid", "name")
UNKNOWN_LABELS = ("unknown", "unlabeled", "unlabelled", "undefined", "?")
LABELS = ("label", "y", "class", "labels", "node_label")
TIMES = ("timestamp", "time", "ts")


def _find(names: Sequence[str], known: str) -> Optional[str]:
    return next((n for n in names if n.strip().lower() == known), None)


def called_ends(names: Sequence[str]) -> Optional[Tuple[str, str]]:
    """The columns that are called as edges' sources and destinations are."""
    for pair in ENDS:
        src, dst = (_find(names, known) for known in pair)
        if src and dst:
            return src, dst
    return None


def ends(columns: Dict[str, np.ndarray]) -> Tuple[str, str]:
    """The columns of edges' sources and destinations: called so, or else the first two unless they cannot be ids."""
    names = list(columns)
    called = called_ends(names)
    if called:
        return called
    if len(names) < 2 or any(columns[n].dtype.kind not in "iuOUST" for n in names[:2]):
        raise errors.InvalidError(f"edges: no columns src and dst (or source and target, from and to, …) among {names}")
    return names[0], names[1]


def id_column(columns: Dict[str, np.ndarray]) -> Optional[str]:
    """The column of nodes' ids: called so, or the first one if it is called as keys are, such as account_id; None: there is none."""
    names = list(columns)
    for known in IDS:
        found = _find(names, known)
        if found and (known != "name" or columns[found].dtype.kind not in "f"):
            return found
    return names[0] if names and re.search(r"([_\s-][iI][dD]|[a-z]I[dD])$", names[0]) else None


def seconds(times: np.ndarray) -> np.ndarray:
    """Dates as seconds since 1970."""
    return times.astype("datetime64[s]").astype(np.int64)


def columns_of(frame: Any) -> Optional[Dict[str, np.ndarray]]:
    """The columns of a pandas or pyarrow table, None for anything else."""
    if hasattr(frame, "collect") and hasattr(frame, "lazy"):  # a LazyFrame of polars
        frame = frame.collect()
    if hasattr(frame, "to_arrow") and hasattr(frame, "columns"):  # a DataFrame of polars
        frame = frame.to_arrow()
    if hasattr(frame, "data") and hasattr(frame.data, "table") and hasattr(frame, "column_names"):  # a Dataset of Hugging Face
        frame = frame.with_format("arrow")[:] if getattr(frame, "_indices", None) is not None else frame.data.table
    names = getattr(frame, "column_names", None)
    if names is None and hasattr(frame, "iloc") and hasattr(frame, "columns"):
        names = list(frame.columns)
    if names is None:
        return None
    return {str(n): frame[n].to_numpy() for n in names}


def edge_frame(columns: Dict[str, np.ndarray], relations: Any) -> Tuple[np.ndarray, np.ndarray, Any, Dict[str, np.ndarray]]:
    src, dst = ends(columns)
    if relations is None:
        relations = columns.get("relation")
    rest = {n: rows for n, rows in columns.items() if n not in (src, dst, "relation") and rows.dtype.kind in "iuf"}
    dates = [n for n, rows in columns.items() if rows.dtype.kind == "M"]
    when = next((n for n in dates if n.lower() in TIMES), dates[0] if len(dates) == 1 else None)
    if when and not any(n.lower() in TIMES for n in rest):
        rest["timestamp"] = seconds(columns[when])
    return columns[src], columns[dst], relations, rest


def node_frame(columns: Dict[str, np.ndarray], index: Any, features: Dict[str, Any], ids: Any, labels: Any, splits: Any, classes: Any) -> Tuple[Any, Any, Any, Any]:
    """Reads a table of nodes; features of its numeric columns are added to features."""
    called = id_column(columns)
    if called and called != "id" and index is not None and not (index.dtype.kind in "iu" and np.array_equal(index, np.arange(len(index)))):
        called = None  # the index is of ids
    if ids is None:
        ids = columns[called] if called else index
    label = next((found for found in (_find(list(columns), known) for known in LABELS) if found), None)
    if labels is None and label:
        labels, classes = labels_of(columns[label], classes)
    if splits is None and "split" in columns:
        of = np.array([PARTS.get(part, part) for part in columns["split"].tolist()], dtype=object)
        splits = {part: of == part for part in ("train", "valid", "test")}
    rest = [rows.astype(np.float32) for n, rows in columns.items() if n not in (called, "id", label, "split") and rows.dtype.kind in "iufb"]
    if rest and "x" not in features:
        features["x"] = np.stack(rest, 1)
    return ids, labels, splits, classes


def labels_of(column: np.ndarray, classes: Any = None) -> Tuple[np.ndarray, Any]:
    """Classes of a column of numbers or texts, −1 where there is none or one of UNKNOWN_LABELS beside two others, and their names if they are
    texts; numbers, NaN where there is none, of one with fractions."""
    if column.dtype.kind in "iub":
        return column, classes
    if column.dtype.kind == "f":
        present = ~np.isnan(column)
        if (column[present] % 1 != 0).any():
            return column.astype(np.float64), classes
        return np.where(present, column, -1).astype(np.int64), classes
    values = column.tolist()
    unknown = {v for v in values if isinstance(v, str) and v.lower() in UNKNOWN_LABELS}
    if len({v for v in values if v is not None and v == v}) < 3 or len(unknown) > 1:
        unknown = set()
    present = np.array([v is not None and v == v and v not in unknown for v in values], dtype=bool)
    names, found = np.unique(column[present].astype(str), return_inverse=True)
    labels = np.full(len(column), -1, np.int64)
    labels[present] = found
    return labels, [str(n) for n in names]
