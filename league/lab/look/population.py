"""The snapshots as a tree, and one snapshot: its parents, its rating, how its strategy differs from its parent's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from league.lab.look.run_files import RunFiles
from league.population.storage.population import HOW, Snapshot


def tree(run: RunFiles, _: Mapping[str, str]) -> dict[str, Any]:
    """Return every snapshot with its parent, the oldest first."""
    ratings = _ratings(run)
    return {
        "games": list(run.toml.get("games", {})),
        "snapshots": [_card(each, ratings) for each in run.snapshots()],
    }


def one_snapshot(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return snapshot ``id`` with its children, its weight in the mixture, and the settings of its policy."""
    snapshot = run.snapshot(query.get("id", ""))
    mixtures = run.published("mixtures.json", lambda published: published.mixtures) or {}
    return {
        **_card(snapshot, _ratings(run)),
        "games": list(run.toml.get("games", {})),
        "children": [each.id for each in run.snapshots() if snapshot.id in each.parents],
        "siblings": [each.id for each in run.snapshots() if each.policy == snapshot.policy],
        "mixture": {game: [seat.get(snapshot.id, 0.0) for seat in seats] for game, seats in mixtures.items()},
        "settings": run.toml.get("policies", {}).get(snapshot.policy, {}),
    }


def _card(snapshot: Snapshot, ratings: Mapping[str, Mapping[str, list[float]]]) -> dict[str, Any]:
    return {
        "id": snapshot.id,
        "policy": snapshot.policy,
        "step": snapshot.step,
        "parent": snapshot.parent,
        "parents": list(snapshot.parents),
        "origin": snapshot.origin.value,
        "how": snapshot.how or HOW[snapshot.origin],
        "ratings": {game: rated[snapshot.id] for game, rated in ratings.items() if snapshot.id in rated},
    }


def _ratings(run: RunFiles) -> Mapping[str, Mapping[str, list[float]]]:
    """Return each player's rating and its standard deviation, by game."""
    stored = run.published("ratings.json", lambda published: published.ratings.to_json()) or {"ratings": {}}
    ratings: Mapping[str, Mapping[str, list[float]]] = stored["ratings"]
    return ratings
