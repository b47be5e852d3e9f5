"""The names of a run's games, and other games in a preset's place with settings that fit their size (`--game G`).

An iteration of the new games has about as many matches as one of the preset's own, shared equally as powers of two, but
at most ``LONGER`` times as many turns. The preset states each of its games' entropy and loss weight; a new game takes
them from the game most like it: one of equal motive (competing or not), if there is any, and among those the nearest in
length. A game of the preset keeps its table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any

from games.aliases import full_name, short_name
from games.common.errors import UsageError
from games.families import family
from games.registry import make_game
from games.spec import GameSpec

FEWEST = 16  # matches of an iteration
LONGER = 4  # in turns, an iteration may be longer than the preset's
BY_ROLE = (("roles", "policy"), ("roles", "player"), ("credit", "rules"))  # tables whose keys are game/role


def with_games(data: Mapping[str, Any], names: Sequence[str], source: str) -> dict[str, Any]:
    """Return a configuration's data with other games in place of its own.

    Raises UsageError for an unknown game, a game that is named twice, and data that binds roles of a game that was
    replaced.
    """
    full = [full_name(name) for written in names for name in family(written)]
    if repeated := next((name for name in full if full.count(name) > 1), None):
        raise UsageError(f"--game {short_name(repeated)} is given twice. Name each game once.")
    specs = {name: make_game(name).spec for name in full}
    old = {full_name(name): table for written, table in data["games"].items() for name in family(written)}
    old_specs = {name: make_game(name).spec for name in old}
    _check_roles(data, full, source)
    played = {name: table.get("matches", 512) / table.get("every", 1) for name, table in old.items()}
    matches = sum(played.values()) / len(full)
    turns = LONGER * sum(old_specs[name].max_turns * count for name, count in played.items()) / len(full)
    games = {
        name: old[name] if name in old else _table(spec, min(matches, turns / max(spec.max_turns, 1)), old, old_specs)
        for name, spec in specs.items()
    }
    return without_other_teachers({**data, "games": games})


def without_other_teachers(data: dict[str, Any]) -> dict[str, Any]:
    """Return a file's data without the teachers of games that others replace, and without teaching if none is left.

    So a preset that is taught one of its games can be trained on the others, or on any.
    """
    teacher, objective = data.get("teacher"), data.get("objective")
    if not (isinstance(teacher, dict) and isinstance(players := teacher.get("players"), dict)):
        return data
    games = {full_name(name) for written in data["games"] for name in family(written)}
    kept = {key: player for key, player in players.items() if full_name(key.rpartition("/")[0] or key) in games}
    data = {**data, "teacher": {**teacher, "players": kept}}
    if players and not kept and not teacher.get("player") and isinstance(objective, dict):
        data["objective"] = {key: value for key, value in objective.items() if not key.startswith("distill")}
    return data


def resolve_names(data: dict[str, Any]) -> None:
    """Replace aliases and families of games by games' names, and aliases in keys of the form game/role.

    Raises UsageError for a family with too many games, and for a game that is in the table twice.
    """
    if isinstance(games := data.get("games"), dict):
        data["games"] = {}
        for written, settings in games.items():
            for name in map(full_name, family(written)):
                if name in data["games"]:
                    raise UsageError(f"games names {name} twice, the second time as {written}. Name each game once.")
                data["games"][name] = settings
    for table, key in BY_ROLE:
        section = data.get(table)
        if isinstance(section, dict) and isinstance(by_role := section.get(key), dict):
            parts = {name: name.rpartition("/") for name in by_role}
            section[key] = {
                full_name(game) + slash + role: by_role[name] for name, (game, slash, role) in parts.items()
            }


def _check_roles(data: Mapping[str, Any], names: Sequence[str], source: str) -> None:
    """Refuse data that binds roles of a game that would be replaced."""
    for section, key in BY_ROLE:
        for role in data.get(section, {}).get(key, {}):
            game = full_name(role.rpartition("/")[0])
            if game not in names:
                raise UsageError(
                    f"{source} is made for {short_name(game)}: its {section}.{key} says what "
                    f"{role.rpartition('/')[2]} is there, so it cannot be replaced by another game. Choose another "
                    f"preset, such as settle or pocket, or add --game {short_name(game)}."
                )


def _table(
    spec: GameSpec, matches: float, old: Mapping[str, Mapping[str, Any]], old_specs: Mapping[str, GameSpec]
) -> dict[str, Any]:
    """Return the settings of a game with about ``matches`` matches in an iteration."""

    def distance(name: str) -> tuple[bool, float]:
        like = old_specs[name]
        return like.competitive != spec.competitive, abs(log2(max(like.max_turns, 1) / max(spec.max_turns, 1)))

    like = old[min(old, key=distance)]
    inherited = {key: like[key] for key in ("entropy", "entropy_end", "loss_weight") if key in like}
    return {"matches": max(2 ** round(log2(max(matches, 1.0))), FEWEST), **inherited}
