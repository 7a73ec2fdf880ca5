"""Stores on object storage."""

from __future__ import annotations

import os
from typing import Any, Dict, Union

from . import _lib, errors, sizes
from .store import Store
from .store import open as open_store


def push(store: Union[Store, str, os.PathLike], address: str, *, note: str = "", force: bool = False) -> int:
    """Copies what a store holds to `address`, what is new of it, as its next snapshot there; returns the snapshot's number.

    address is s3://BUCKET/PREFIX (with ?endpoint=https://HOST for another server than Amazon's) or file:///FOLDER. Names and passwords
    come from AWS's variables and files. A push that would hide versions or runs of the newest snapshot is refused without `force`.
    """
    path = store.path if isinstance(store, Store) else os.fspath(store)
    return _called("upload", {"path": path, "address": address, "note": note, "force": force})


def pull(
    address: str, path: Union[str, os.PathLike], *, snapshot: int = 0, lazy: bool = False, cache_size: Union[None, int, str] = None, force: bool = False
) -> Store:
    """Makes the store at `path` what a snapshot at `address` holds, by default the newest, and opens it.

    With lazy columns, edges and ids stay at the address and are read from there when they are needed; the store keeps at most `cache_size`
    ("50GiB"; default: half of what the disk has room for) of what it has read. Stores that are open stay as they were.
    """
    if cache_size is not None and not lazy:
        raise errors.InvalidError("cache_size says nothing without lazy=True")
    request = {"path": os.fspath(path), "address": address, "snapshot": snapshot, "lazy": lazy, "cache_bytes": sizes.parse(cache_size), "force": force}
    _called("download", request)
    return open_store(path)


def _called(method: str, request: Dict[str, Any]) -> int:
    """The number of the snapshot. Options have other names here than on the command line, which errors have."""
    try:
        return int(_lib.call(0, method, request, []).value["snapshot"])
    except errors.Error as e:
        raise type(e)(str(e).replace("--force", "force=True")) from None
