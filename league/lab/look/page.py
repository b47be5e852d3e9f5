"""The page: its frame, its style and its scripts, each a file of ``static/`` by subject.

Over HTTP they are separate files; in one file they are inlined, and the policy names each by its hash. Both policies
forbid everything else, so that even a bug in the page could not run what a model has written.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
STYLE, FRAME = "look.css", "look.html"
SCRIPTS = (  # in the order in which they run
    *("core.js", "data.js", "charts.js", "boards.js", "curves.js", "lists.js", "match.js", "tokens.js", "results.js"),
    *("population.js", "strategy.js", "ask.js", "main.js"),
)
KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def page() -> bytes:
    """Return the page with addresses of its files."""
    links = f'<link rel="stylesheet" href="{STYLE}">'
    scripts = "\n".join(f'<script src="{name}"></script>' for name in SCRIPTS)
    return _filled("", links, scripts).encode()


def one_page(data: str) -> str:
    """Return the page in one file. ``data`` is JSON without < and >: the answers to what the page asks."""
    style = (STATIC / STYLE).read_text(encoding="utf-8")
    scripts = [(STATIC / name).read_text(encoding="utf-8") for name in SCRIPTS]
    policy = f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src {_hash(style)}; img-src data:"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    kept = f'<script type="application/json" id="kept">{data}</script>'
    return _filled(
        meta, f"<style>{style}</style>", "\n".join([kept, *(f"<script>{each}</script>" for each in scripts)])
    )


@lru_cache(maxsize=32)
def asset(name: str) -> bytes | None:
    """Return a file of the page; None for any other name."""
    return (STATIC / name).read_bytes() if name in (STYLE, *SCRIPTS) else None


def _filled(meta: str, style: str, scripts: str) -> str:
    frame = (STATIC / FRAME).read_text(encoding="utf-8")
    return frame.replace("<!-- policy -->", meta).replace("<!-- style -->", style).replace("<!-- scripts -->", scripts)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
