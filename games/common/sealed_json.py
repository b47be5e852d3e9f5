"""JSON files that carry the SHA-256 of their content, so that damage is noticed when they are read."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from games.common.errors import DamagedFile
from games.common.files import atomic_write, parse_json, read_file

_SEALED = re.compile(rb'\{"sha256": "([0-9a-f]{64})", "data": (.*)\}', re.DOTALL)


def write_sealed(path: Path, data: Any) -> None:
    """Write ``{"sha256": ..., "data": ...}`` atomically; it is the hash of the text of ``data``."""
    content = json.dumps(data).encode()
    atomic_write(path, b'{"sha256": "%s", "data": %s}' % (hashlib.sha256(content).hexdigest().encode(), content))


def read_sealed(path: Path, remedy: str) -> Any:
    """Return the data that ``write_sealed`` wrote. Raises DamagedFile, with ``remedy``, for any other content."""
    try:
        content = read_file(path)
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read: {error.strerror}", remedy) from error
    match = _SEALED.fullmatch(content)
    if match is None:
        raise DamagedFile(path, "it was cut short or is another file", remedy)
    if hashlib.sha256(match[2]).hexdigest().encode() != match[1]:
        raise DamagedFile(path, "its content has changed since it was written", remedy)
    try:
        return parse_json(match[2].decode())
    except ValueError as error:
        raise DamagedFile(path, f"it holds no data that can be read: {error}", remedy) from error
