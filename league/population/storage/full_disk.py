"""Errors that mean a full disk, whichever library raises them."""

from __future__ import annotations

import errno
import re
import sqlite3

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # also if a user's quota, or the size of one file, is at its limit


def full_disk_errno(error: BaseException) -> int | None:
    """Return the system's number of an error that means a full disk; None for any other error.

    Libraries written in Rust (safetensors, tokenizers) report it only in words: "... (os error 28)".
    """
    number = error.errno if isinstance(error, OSError) else None
    if match := re.search(r"\(os error (\d+)\)", str(error)):
        number = int(match[1])
    elif isinstance(cause := error.__cause__, sqlite3.OperationalError):
        number = errno.ENOSPC if cause.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL else None
    return number if number in _FULL else None
