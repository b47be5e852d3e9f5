"""Exact policy tables of snapshots in small games, stored on disk, and the metrics of the newest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from arena.records import Sampler, Tabular
from games.common.errors import NotEnumerable
from games.common.sealed_json import read_sealed, write_sealed
from games.spec import GameSpec, Utility
from league.population.players.player import Player
from league.population.storage.population import Snapshot
from league.theory.exact.exploitability import PolicyTable, exploitability, head_to_head
from roles.role import ReplyForm, Role

IF_DAMAGED = "Delete it: the run recomputes it from its snapshot; until then the standings leave it out."

Profile = tuple[str, ...]  # a snapshot's id, or the fixed player of the role, by seat


class PolicyTables:
    """The exact policy tables of all snapshots in the small games, stored in a folder of a run."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._tables: dict[tuple[Profile, str], PolicyTable] = {}
        self._without_table: set[str] = set()

    def get_or_compute(
        self,
        profile: Profile,
        spec: GameSpec,
        engine: Sampler,
        roles: tuple[Role, ...],
        seed: int,
        fixed: Mapping[str, Sampler] | None = None,
    ) -> PolicyTable | None:
        """Return the table of the snapshots in a game's seats; None if the game is too large for one.

        ``fixed`` are the engines of fixed players: there is no table with one whose probabilities are not exact.
        """
        if (table := self.stored(profile, spec)) is not None or spec.name in self._without_table:
            return table
        others = tuple((fixed or {}).items())
        try:
            members = tuple(((snapshot, 1.0),) for snapshot in profile)
            player = Player("+".join(profile), spec, engine, roles, members, others=others)
            if not all(is_tabular(player, role) for role in roles if role.fixed):
                raise NotEnumerable(f"The probabilities of {', '.join(profile)} in {spec.name} are not known exactly.")
            table = player.tabulate(seed, self._limit).table
        except NotEnumerable:
            self._without_table.add(spec.name)
            return None
        rows = [[*key, *row] for key, row in table.probabilities.items()]
        write_sealed(self._path(profile, spec.name), rows)
        self._tables[profile, spec.name] = table
        return table

    def stored(self, profile: Profile, spec: GameSpec) -> PolicyTable | None:
        """Return the table of the snapshots in a game's seats if it was computed before, else None."""
        if (profile, spec.name) not in self._tables:
            path = self._path(profile, spec.name)
            if not path.exists():
                return None
            rows = read_sealed(path, IF_DAMAGED)
            table = PolicyTable(spec.name, {(seat, state): tuple(row) for seat, state, *row in rows})
            self._tables[profile, spec.name] = table
        return self._tables[profile, spec.name]

    def _path(self, profile: Profile, game: str) -> Path:
        players = [player.rpartition("/")[2] for player in dict.fromkeys(profile)]  # a fixed player may name a folder
        return self._folder / f"{'+'.join(players)}.{game}.json"


def is_tabular(player: Player, role: Role) -> bool:
    """Return whether the probabilities of a player in a role are known exactly."""
    engine = player.engine_of(player.members[role.seat][0][0])
    return role.reply is ReplyForm.CHOICE and isinstance(engine, Tabular)


def profiles(snapshots: Sequence[Snapshot], roles: Sequence[Role]) -> list[Profile]:
    """Return who sat in a game's seats at each freeze: the newest snapshot of each policy at that step."""
    newest = {role.policy: role.policy for role in roles if role.fixed}
    profile_at: dict[int, Profile] = {}  # by step
    for snapshot in snapshots:
        newest[snapshot.policy] = snapshot.id
        if all(role.policy in newest for role in roles):
            profile_at[snapshot.step] = tuple(newest[role.policy] for role in roles)
    return list(dict.fromkeys(profile_at.values()))


def exact_metrics(spec: GameSpec, table: PolicyTable, seats: Sequence[int] | None = None) -> dict[str, float]:
    """Return the metrics of the newest snapshots' table.

    For a cooperative game its return; for any other game the exploitability (NashConv / seats), over ``seats`` only if
    others have fixed players, and the first seat's value in self-play. In a general-sum game also the CE gap of these
    policies, whose only recommendation is to play as they do: the sum of the seats' gains.
    """
    values = head_to_head([table] * spec.seats)
    if spec.utility is Utility.IDENTICAL:
        return {"return": values[0]}
    gain = exploitability(table, seats)
    metrics = {"exploitability": gain, "first_seat_value": values[0]}
    playing = spec.seats if seats is None else len(seats)
    return metrics if spec.competitive else metrics | {"ce_gap": gain * playing}
