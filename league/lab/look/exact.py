"""The exact advantage of a stored match's turns, from the policy tables that the run keeps of its snapshots.

A player in training is taken as its newest snapshot up to that iteration: with a snapshot frozen in it, the weights
after its update. Only in games small enough that the run tabulates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from arena.records import Episode
from games.common.errors import DamagedFile, UsageError
from games.outside.as_played import is_outside
from games.registry import make_game
from league.lab.look.run_files import SNAPSHOTS, RunFiles
from league.population.evaluation.policy_tables import PolicyTables, Profile, profiles
from league.population.storage.run_dir import STATE_FOLDER
from league.theory.exact.exploitability import PolicyTable, exact_form, uniform_table
from league.theory.exact.states import Key
from league.theory.exact.turn_values import TurnValues, turn_values
from league.training.evidence.turn_positions import places_in
from roles.role import bound_policies

UNIFORM = "random"  # the player whose table needs no file


class StoredTables:
    """The tables of a game's snapshots that a run has stored."""

    def __init__(self, run: RunFiles, game: str) -> None:
        context, snapshots = run.context, run.snapshots()
        self.game, self.spec = game, context.specs[game]
        self._tables = PolicyTables(run.path / STATE_FOLDER / "tables", context.config.evaluation.exact_limit)
        self._snapshots = {snapshot.id: snapshot for snapshot in snapshots}
        main = {*bound_policies(context.roles)}
        of_roles = profiles([snapshot for snapshot in snapshots if snapshot.policy in main], context.roles[game])
        alone = [(snapshot.id,) * self.spec.seats for snapshot in snapshots if snapshot.policy not in main]
        self.profiles = sorted([*of_roles, *alone], key=self.step)  # those whose table may be stored, the oldest first

    def step(self, profile: Profile) -> int:
        """Return the iteration of a profile's newest snapshot."""
        return max(self._snapshots[player].step if player in self._snapshots else 0 for player in profile)

    def table(self, profile: Profile) -> PolicyTable | None:
        """Return a profile's table; None where it is not stored, or is damaged."""
        try:
            return self._tables.stored(profile, self.spec)
        except DamagedFile:  # as standings do: the run computes it again
            return None

    def label(self, profile: Profile) -> str:
        """Return a profile's name: its players, each once."""
        return "+".join(dict.fromkeys(profile))

    def of_player(self, player: str, seat: int, iteration: int) -> tuple[str, PolicyTable] | None:
        """Return the table by which a player decides in a seat, with its name; None where there is none."""
        if player == UNIFORM:
            return UNIFORM, uniform_table(self.game)
        for profile in reversed(self.profiles):
            snapshot = self._snapshots.get(profile[seat])
            live = snapshot is not None and snapshot.policy == player and self.step(profile) <= iteration
            if (live or profile[seat] == player) and (table := self.table(profile)) is not None:
                return self.label(profile), table
        return None


def tabulated(run: RunFiles, game: str) -> StoredTables | None:
    """Return the stored tables of a game; None for a game that is not the run's own, or from another library."""
    if is_outside(game) or not (run.path / SNAPSHOTS).is_dir() or game not in run.context.specs:
        return None
    return run.of_file(f"tables of {game}", run.path / SNAPSHOTS, lambda: StoredTables(run, game))


def exact_credit(run: RunFiles, match: Episode, iteration: int) -> tuple[list[float | None] | None, str]:
    """Return the exact advantage of each turn in the units of updates, or None and why it is not known."""
    game, players = match.request.game, match.request.players
    stored = tabulated(run, game)
    if stored is None:
        return None, "Exact advantages are known only in games whose snapshots the run tabulates, unlike this one."
    found = [stored.of_player(player, seat, iteration) for seat, player in enumerate(players)]
    missing = [player for player, table in zip(players, found, strict=True) if table is None]
    if missing:
        return (
            None,
            f"No policy table of {missing[0]} up to iteration {iteration} is stored: the game may be too large.",
        )
    tables = [table for table in found if table is not None]
    try:
        values = _values(run, game, tables)
        return _of_turns(match, values, run.context.scales[game]), ""
    except (UsageError, ValueError, KeyError) as error:
        return None, f"Not known here: {error}"


def _values(run: RunFiles, game: str, tables: Sequence[tuple[str, PolicyTable]]) -> TurnValues:
    """Return the values of every turn when these tables sit by seat; remembered while the population is the same."""

    def compute() -> TurnValues:
        return turn_values(exact_form(game), [tables[key[0]][1].probabilities[key] for key in _numbers(game)])

    names = "/".join(name for name, _ in tables)
    values: TurnValues = run.of_file(f"values of {game} {names}", run.path / SNAPSHOTS, compute)
    return values


def _of_turns(match: Episode, values: TurnValues, scale: float) -> list[float | None]:
    if any(turn.action is None for turn in match.turns):
        raise UsageError("an illegal reply is not an action of the game.")
    places = places_in(make_game(match.request.game), match, _numbers(match.request.game))
    credit: list[Any] = []
    for _, place in places:
        value = float(values.advantages[values.first[place.state] + place.action]) / scale
        credit.append(value if value == value else None)  # NaN where the others never lead there
    return credit


@lru_cache(maxsize=8)
def _numbers(game: str) -> dict[Key, int]:
    """Return the number of each information state, in the order of ``exact_form``."""
    return {key: index for index, key in enumerate(exact_form(game).keys)}
