"""Errors of gstore: every one is an `Error` with gstore's own message."""

from __future__ import annotations


class Error(Exception):
    """What gstore refused or failed at."""


class NotFoundError(Error, LookupError):
    """A store, version, column, node or id that does not exist."""


class InvalidError(Error, ValueError):
    """An argument that contradicts itself or the store."""


class CorruptError(Error):
    """Bytes on disk that are not what was written."""


class BudgetError(Error):
    """A memory budget that is too small; the message names the smallest that would do."""


class LockedError(Error):
    """Another writer is at work on the store."""


class ExistsError(Error, FileExistsError):
    """Something is already where a store was to be made."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ClosedError(Error):
    """A store or loader that was closed."""


class CancelledError(Error):
    """An operation that was ended early."""


class InputError(Error, ValueError):
    """Data that cannot be ingested."""


class VersionError(Error):
    """A store of a format version that this build does not read."""


class InternalError(Error):
    """A defect of gstore: its code panicked. The message ends with the stack; please report it. The process, and what does not
    belong to the object whose call it was, go on."""


class ForkError(Error):
    """gstore in a forked child of a process that used it."""


_KINDS = (None, Error, NotFoundError, InvalidError, CorruptError, BudgetError, LockedError, ExistsError, ClosedError, CancelledError, InputError, VersionError, InternalError)


def by_kind(kind: int) -> type[Error]:
    """The class of a kind of the C ABI."""
    found = _KINDS[kind] if 0 < kind < len(_KINDS) else Error
    return found or Error
