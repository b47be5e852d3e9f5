"""Strategies in small games: probabilities at any information state over the run, and two snapshots side by side.

What differs between two is sorted by what it costs: the advantage that the second gives away at an information state,
times how often it gets there in play with itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from games.common.errors import UsageError, unknown_name
from league.lab.look.exact import StoredTables, tabulated
from league.lab.look.run_files import RunFiles
from league.population.evaluation.policy_tables import Profile
from league.theory.exact.exploitability import PolicyTable, exact_form, information_positions
from league.theory.exact.game_value import nash_equilibrium
from league.theory.exact.states import Key
from league.theory.exact.strategy_states import NAMED, ShownAction
from league.theory.exact.turn_values import turn_values
from roles.role import bound_policies

MOST_STATES = 40  # that a search finds, and that a comparison lists
MOST_STEPS = 120  # tables over a run


def states(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the information states whose observation has all words of ``find``, with their play over the run.

    ``policy`` chooses whose; without it, the line-ups of the run's roles. Without words: the states that have names.
    """
    stored = _stored(run, query)
    words = query.get("find", "").casefold().split()
    texts = _texts(run, stored)
    named = {state.key: state.title for state in NAMED.get(stored.game, ())}
    if words:
        keys = [key for key, (text, _) in texts.items() if all(word in text.casefold() for word in words)]
    else:
        keys = list(named) or list(texts)
    chosen = _over_run(run, stored, query.get("policy", ""))
    equilibrium = nash_equilibrium(stored.spec)
    bands = {state.key: state.actions for state in NAMED.get(stored.game, ())}
    rows = []
    for key in keys[:MOST_STATES]:
        text, actions = texts[key]
        rows.append(
            {
                "title": named.get(key, ""),
                "text": text,
                "actions": actions,
                "lines": [[table.probabilities[key][number] for _, table in chosen] for number in range(len(actions))],
                "equilibrium": None if equilibrium is None else list(equilibrium.probabilities[key]),
                "bands": _bands(bands.get(key, ()), len(actions)),
            }
        )
    return {
        "game": stored.game,
        "games": _games(run),
        "policies": list(dict.fromkeys(snapshot.policy for snapshot in run.snapshots())),
        "total": len(keys),
        "all": len(texts),
        "players": [stored.label(profile) for profile, _ in chosen],
        "steps": [stored.step(profile) for profile, _ in chosen],
        "states": rows,
    }


def _bands(shown: Sequence[ShownAction], actions: int) -> dict[int, list[float]]:
    """Return the least and greatest probability of actions in equilibria; of two actions, one gives the other's."""
    bands = {
        each.action_index: [each.low, each.high] for each in shown if each.low is not None and each.high is not None
    }
    if actions == 2 and len(bands) == 1:
        [(action, (low, high))] = bands.items()
        bands[1 - action] = [1.0 - high, 1.0 - low]
    return bands


def compare(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return where snapshots ``a`` and ``b`` play differently, the costliest difference to ``b`` first."""
    stored = _stored(run, query)
    (name_a, a), (name_b, b) = (_table(stored, query.get(which, "")) for which in ("a", "b"))
    texts, form = _texts(run, stored), exact_form(stored.game)
    values = turn_values(form, [b.probabilities[key] for key in form.keys])
    rows = []
    for number, key in enumerate(form.keys):
        of_a, of_b = np.array(a.probabilities[key]), np.array(b.probabilities[key])
        advantages = values.advantages[values.first[number] : values.first[number + 1]]
        visits = float(values.visits[number])
        cost = visits * float(of_a @ np.nan_to_num(advantages))
        text, actions = texts[key]
        row = {"text": text, "actions": actions, "a": of_a.tolist(), "b": of_b.tolist()}
        rows.append({**row, "apart": float(np.abs(of_a - of_b).max()), "visits": visits, "cost": cost})
    rows.sort(key=lambda row: (-row["cost"], -row["apart"]))
    shown = [row for row in rows if row["apart"] > 0.0005]
    return {"game": stored.game, "a": name_a, "b": name_b, "total": len(shown), "states": _both_ends(shown)}


def _both_ends(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows whose difference costs most, and those whose difference gains most."""
    return rows if len(rows) <= MOST_STATES else [*rows[: MOST_STATES // 2], *rows[-MOST_STATES // 2 :]]


def _stored(run: RunFiles, query: Mapping[str, str]) -> StoredTables:
    game = query.get("game") or next(iter(_games(run)), "")
    stored = tabulated(run, game) if game in run.context.specs else None
    if stored is None or not any(stored.table(profile) for profile in stored.profiles[-1:]):
        raise UsageError(
            f"{run.name} has no strategy table of {game}: the game is too large, or nothing is frozen yet."
        )
    return stored


def _games(run: RunFiles) -> list[str]:
    return list(run.toml.get("games", {}))


def _texts(run: RunFiles, stored: StoredTables) -> dict[Key, tuple[str, list[str]]]:
    """Return what the seat sees at each information state, with its role before it, and its actions by ascending id."""
    roles = run.context.roles[stored.game]
    texts = {}
    for key, game in information_positions(stored.game).items():
        by_id = sorted(zip(game.legal_ids(), game.legal_actions(), strict=True))
        texts[key] = f"{roles[key[0]].name}\n{game.observe(key[0])}", [action for _, action in by_id]
    return texts


def _over_run(run: RunFiles, stored: StoredTables, policy: str) -> list[tuple[Profile, PolicyTable]]:
    """Return the tables of a policy's snapshots, or of the main line-ups, thinned evenly over the run."""
    policies = {snapshot.id: snapshot.policy for snapshot in run.snapshots()}
    main = {*bound_policies(run.context.roles)}
    wanted = {policy} if policy else main
    profiles = [profile for profile in stored.profiles if {policies.get(player) for player in profile} & wanted]
    if len(profiles) > MOST_STEPS:
        places = {round(place) for place in np.linspace(0, len(profiles) - 1, MOST_STEPS).tolist()}
        profiles = [profile for number, profile in enumerate(profiles) if number in places]
    tables = [(profile, stored.table(profile)) for profile in profiles]
    return [(profile, table) for profile, table in tables if table is not None]


def _table(stored: StoredTables, name: str) -> tuple[str, PolicyTable]:
    """Return the table of a snapshot or line-up by name, or of ``equilibrium``."""
    if name == "equilibrium":
        equilibrium = nash_equilibrium(stored.spec)
        if equilibrium is None:
            raise UsageError(f"No equilibrium of {stored.game} is known.")
        return name, equilibrium
    by_name: dict[str, Profile] = {}
    for profile in stored.profiles:
        by_name[stored.label(profile)] = profile
        for player in profile:
            by_name.setdefault(player, profile)
    if name not in by_name:
        raise unknown_name("snapshot with a table", name, by_name)
    table = stored.table(by_name[name])
    if table is None:
        raise UsageError(f"No table of {name} in {stored.game} is stored.")
    return name, table
