"""Errors that say that a disk has no more room, whichever library raises them."""

from __future__ import annotations

import errno
import re
import sqlite3

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # also where a user's share, or the size of one file, is at its limit


def full_disk_errno(error: BaseException) -> int | None:
    """Return the system's number of an error that says that there is no more room; None for any other error.

    Libraries written in Rust (safetensors, tokenizers) tell it in words alone: "... (os error 28)".
    """
    number = error.errno if isinstance(error, OSError) else None
    if match := re.search(r"\(os error (\d+)\)", str(error)):
        number = int(match[1])
    elif isinstance(cause := error.__cause__, sqlite3.OperationalError):
        number = errno.ENOSPC if cause.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL else None
    return number if number in _FULL else None
