"""Exact policy tables of snapshots in small games, stored on disk, and the metrics of the newest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from arena.records import Sampler
from games.common.errors import NotEnumerable
from games.common.sealed_json import read_sealed, write_sealed
from games.spec import GameSpec, Utility
from league.exact.exploitability import PolicyTable, exploitability, head_to_head
from league.players.player import Player
from league.storage.population import Snapshot
from roles.role import Role

IF_DAMAGED = "Delete it: the run computes it again from its snapshot, and until then the standings leave it out."

Profile = tuple[str, ...]  # a snapshot's id by seat


class PolicyTables:
    """The exact policy tables of all snapshots in the small games, stored in a folder of a run."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._tables: dict[tuple[Profile, str], PolicyTable] = {}
        self._without_table: set[str] = set()

    def get_or_compute(
        self, profile: Profile, spec: GameSpec, engine: Sampler, roles: tuple[Role, ...], seed: int
    ) -> PolicyTable | None:
        """Return the table of the snapshots in a game's seats; None if the game is too large for one."""
        if (table := self.stored(profile, spec)) is not None or spec.name in self._without_table:
            return table
        try:
            player = Player("+".join(profile), spec, engine, roles, tuple(((snapshot, 1.0),) for snapshot in profile))
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
        return self._folder / f"{'+'.join(dict.fromkeys(profile))}.{game}.json"


def profiles(snapshots: Sequence[Snapshot], roles: Sequence[Role]) -> list[Profile]:
    """Return for each freeze who sat in a game's seats: the newest snapshot of each policy at that step."""
    newest: dict[str, str] = {}
    profile_at: dict[int, Profile] = {}  # by step
    for snapshot in snapshots:
        newest[snapshot.policy] = snapshot.id
        if all(role.policy in newest for role in roles):
            profile_at[snapshot.step] = tuple(newest[role.policy] for role in roles)
    return list(dict.fromkeys(profile_at.values()))


def exact_metrics(spec: GameSpec, table: PolicyTable) -> dict[str, float]:
    """Return the metrics of the newest snapshots' table.

    For a cooperative game its return; for any other game the exploitability (NashConv / seats) and the
    first seat's value in self-play.
    """
    values = head_to_head([table] * spec.seats)
    if spec.utility is Utility.IDENTICAL:
        return {"return": values[0]}
    return {"exploitability": exploitability(table), "first_seat_value": values[0]}
