"""Graphs that come in pieces: written beside the store as they come, for gstore to read as often as an ingest must."""

from __future__ import annotations

import collections.abc
import contextlib
import os
import pathlib
import shutil
import tempfile
from typing import Any, Dict, Iterator, List, Optional, Union

import numpy as np

from . import _frames, errors

_ROWS = 1 << 17  # of a row group, and of a batch where that can be chosen


def is_stream(x: Any) -> bool:
    """Whether x comes in pieces: a RecordBatchReader, a dataset or scanner of pyarrow, or any iterator."""
    return hasattr(x, "read_next_batch") or hasattr(x, "to_batches") and not hasattr(x, "column_names") or isinstance(x, collections.abc.Iterator)


@contextlib.contextmanager
def spooled(path: Union[str, os.PathLike], **tables: Any) -> Iterator[Dict[str, Any]]:
    """A folder beside `path` with a Parquet file for each table that is not None, as long as the context lasts: its name under
    "folder", and of each table the schema of its rows. Memory has a row group at a time."""
    where = pathlib.Path(os.fspath(path))
    if where.is_dir() and any(where.iterdir()):  # an ingest would refuse it, once all has come
        raise errors.ExistsError(f"{where} is there already")
    where.absolute().parent.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=where.name + ".stream-", dir=where.absolute().parent)
    try:
        yield {"folder": folder, **{name: _write(name, table, os.path.join(folder, name + ".parquet")) for name, table in tables.items() if table is not None}}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(name: str, table: Any, path: str) -> Any:
    """Writes the pieces of a table to a Parquet file, and returns their schema."""
    import pyarrow
    from pyarrow import parquet

    writer: Any = None
    waiting: List[Any] = []
    rows = 0

    def flush() -> None:
        nonlocal waiting, rows
        if waiting:
            writer.write_table(pyarrow.Table.from_batches(waiting), row_group_size=_ROWS)
        waiting, rows = [], 0

    try:
        for piece in _pieces(table):
            for batch in _batches(piece, name):
                if writer is None:
                    writer = parquet.ParquetWriter(path, batch.schema, use_dictionary=False, write_statistics=False, compression="snappy")
                elif batch.schema.names != writer.schema.names:
                    raise errors.InputError(f"{name}: a batch of columns {batch.schema.names}, the first had {writer.schema.names}")
                if not len(batch):
                    continue
                if batch.schema != writer.schema:  # a column of nulls at first, integers of another width
                    (batch,) = pyarrow.Table.from_batches([batch]).cast(writer.schema).combine_chunks().to_batches()
                waiting.append(batch)
                rows += len(batch)
                if rows >= _ROWS:
                    flush()
        if writer is None:
            raise errors.InputError(f"{name}: no batches: expected at least one, which names the columns")
        flush()
        return writer.schema
    except pyarrow.ArrowException as e:
        raise errors.InputError(f"{name}: {e}") from e
    finally:
        if writer is not None:
            writer.close()
        pyarrow.default_memory_pool().release_unused()


def _pieces(table: Any) -> Iterator[Any]:
    if hasattr(table, "scanner"):  # a dataset, of which a few batches are read ahead instead of some dozens
        return iter(table.to_batches(batch_size=_ROWS, batch_readahead=1, fragment_readahead=1))
    if hasattr(table, "to_batches") and not hasattr(table, "column_names"):  # a scanner
        return iter(table.to_batches())
    if is_stream(table):
        return iter(table)
    return iter([table])


def _batches(piece: Any, name: str) -> Iterator[Any]:
    """The record batches of what an iterator yields: those of pyarrow, frames of pandas, and of edges pairs of numpy arrays."""
    import pyarrow

    if isinstance(piece, pyarrow.RecordBatch):
        return iter([piece])
    if hasattr(piece, "iloc") and hasattr(piece, "columns"):
        keep = name == "nodes" and "id" not in piece.columns
        piece = pyarrow.Table.from_pandas(piece.reset_index(names="id") if keep else piece, preserve_index=False)
    if isinstance(piece, pyarrow.Table):
        return iter(piece.to_batches(max_chunksize=_ROWS))
    if name != "edges":
        raise errors.InvalidError(f"{name} of {type(piece)}: expected record batches, or tables of pyarrow or pandas")
    from .ingest import _ends, _numbers

    src, dst = (_numbers(end, what) for end, what in zip(_ends(piece), ("sources", "destinations")))
    return iter([pyarrow.RecordBatch.from_arrays([pyarrow.array(src), pyarrow.array(dst)], names=["src", "dst"])])


def dense(schema: Any, nodes: Optional[Any]) -> bool:
    """Whether edges of that schema name nodes by number."""
    import pyarrow

    names = schema.names
    ends = _frames.called_ends(names) or names[:2]
    return nodes is None and all(pyarrow.types.is_integer(schema.field(end).type) for end in ends)
