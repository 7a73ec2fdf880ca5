"""Sizes as the command line takes them."""

from __future__ import annotations

from typing import Union

from . import errors

_UNITS = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "b": 1}


def parse(size: Union[None, int, float, str]) -> int:
    """Bytes of a size such as "8GiB" or 1 << 33; 0 for None."""
    if size is None:
        return 0
    if not isinstance(size, str):
        return int(size)
    text = size.strip().lower()
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            try:
                return int(float(text[: -len(unit)]) * factor)
            except ValueError:
                break
    try:
        return int(text)
    except ValueError:
        raise errors.InvalidError(f"{size!r} is no size: expected a number with KiB, MiB, GiB or TiB, such as '4GiB'") from None
