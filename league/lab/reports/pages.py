"""HTML pages in one file each, with style and script inside, that need no network.

All values given to a template are escaped; only the SVG drawn in this folder is ``Markup``. The pages' content security
policy forbids a browser to load anything or to run any script but the page's own, so that even a fault in a template
would be harmless.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from games.common.errors import UsageError
from games.common.files import atomic_write

TEMPLATES = Path(__file__).parent / "templates"
MINUS, DASH = "−", "–"


def render_page(template: str, **content: Any) -> str:
    """Return a page made from a template of this folder."""
    style, script = (_asset(name) for name in ("page.css", "page.js"))
    return (
        _environment().get_template(template).render(style=Markup(style), script=Markup(script), csp=_csp(), **content)
    )


def write_page(path: Path, page: str) -> None:
    """Write a page atomically. Raises UsageError where it cannot be written."""
    try:
        atomic_write(path, page)
    except OSError as error:
        raise UsageError(f"-o {path}: the page cannot be written there ({error.strerror}).") from error


def signed(value: float | None, decimals: int = 3) -> str:
    """Return a number with its sign, or a dash."""
    return DASH if value is None else f"{_rounded(value, decimals):+.{decimals}f}".replace("-", MINUS)


def plain(value: float | None, decimals: int = 3) -> str:
    """Return a number, or a dash."""
    return DASH if value is None else f"{_rounded(value, decimals):.{decimals}f}".replace("-", MINUS)


def _rounded(value: float, decimals: int) -> float:
    """Return a rounded number, never a negative zero."""
    return round(value, decimals) + 0.0


def short(value: float | None) -> str:
    """Return a number with three significant digits, or a dash."""
    if value is None:
        return DASH
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("-", MINUS)


def short_signed(value: float | None) -> str:
    """Return a number with three significant digits and its sign, or a dash."""
    return f"+{short(value)}" if value is not None and value > 0 else short(value)


def breakable(name: str) -> Markup:
    """Return a name with break opportunities after its separators."""
    return Markup("<wbr>").join(re.split(r"(?<=[/_.-])", name))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(breakable=breakable, signed=signed, plain=plain, short=short, short_signed=short_signed)
    return environment


@lru_cache(maxsize=4)
def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _csp() -> str:
    """Return the pages' content security policy: the script by its hash, images that are in the page, nothing else."""
    digest = base64.b64encode(hashlib.sha256(_asset("page.js").encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
