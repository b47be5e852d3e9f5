"""The page that opens TensorBoard: it sets what no address can set, then goes on to TensorBoard's own page.

TensorBoard leaves outliers out of its charts' scales unless it is told otherwise, and the first points of a curve,
before anything was learned, are outliers to it: one would not see them. It keeps that setting in the browser, for each
host and port. Whoever has chosen it there keeps the choice.
"""

from __future__ import annotations

import json

SETTINGS = "_tb_global_settings"  # TensorBoard's key in localStorage

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>TensorBoard</title><link rel="icon" href="data:,">
<script>
const settings = %s, address = %s;
try {
  const kept = JSON.parse(localStorage.getItem(settings) ?? "{}");
  localStorage.setItem(settings, JSON.stringify({ignoreOutliers: false, ...kept}));
} catch {}  // nothing can be kept here, as in some private windows
location.replace(address);
</script></head><body><noscript>TensorBoard needs JavaScript.</noscript></body></html>
"""


def start_page(address: str) -> bytes:
    """Return the page that goes on to an address of the same server."""
    return (_PAGE % (json.dumps(SETTINGS), json.dumps(address).replace("<", "\\u003c"))).encode()
