"""The views of a run by name: each is a function of the run's files and of a query, and returns JSON.

A number that JSON has no word for, such as an infinite error, is sent as null.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Mapping
from typing import Any

from games.common.errors import unknown_name
from league.lab.look.run_files import RunFiles

# By name, the module of this room and its function; imported when first asked for, as games are slow to import.
VIEWS = {
    "overview": "curves.overview",
    "curves": "curves.curve_points",
    "iteration": "curves.iteration",
    "matches": "matches.kept_matches",
    "match": "matches.one_match",
    "tokens": "tokens.turn_tokens",
    "scores": "tokens.scored_turn",
    "results": "results.iteration_results",
    "group": "results.group",
    "matrix": "results.matrix",
    "pair": "results.pair",
    "tree": "population.tree",
    "snapshot": "population.one_snapshot",
    "states": "strategy.states",
    "compare": "strategy.compare",
    "alarm": "alarms.alarm",
}

LOADING = frozenset({"scores"})  # views that load weights, one after another


def view(run: RunFiles, name: str, query: Mapping[str, str]) -> dict[str, Any]:
    """Return a view. Raises UsageError for an unknown view, and for what the run does not have."""
    if name not in VIEWS:
        raise unknown_name("view", name, VIEWS)
    module, _, function = VIEWS[name].partition(".")
    answer: dict[str, Any] = getattr(importlib.import_module(f"league.lab.look.{module}"), function)(run, query)
    return answer


def as_json(answer: Any) -> str:
    """Return an answer as JSON that any browser reads, and that may stand within a script's element of a page."""
    text = json.dumps(_finite(answer), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
