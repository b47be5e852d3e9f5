"""What is measured when a snapshot is frozen: rating matches, exact play, and the mixture so far."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from arena.records import MatchRequest, Sampler
from games.errors import NotEnumerable, unknown_name
from games.files import atomic_write
from games.seeds import derive_seed
from games.spec import GameSpec, Utility
from league.config import EvaluationConfig
from league.exploitability import PolicyTable, exploitability, head_to_head, mixable, mixture
from league.meta_solvers import FROM_PAYOFFS, META_SOLVERS
from league.payoffs import PayoffTable, Result
from league.players import SCRIPTED, Engines, Player
from league.population import Snapshot
from league.start import Roles
from roles.role import Role


def anchor_engines(config: EvaluationConfig) -> dict[str, Sampler]:
    """Return the engine of each anchor by its name. Raises UsageError for a name that is no scripted player's."""
    engines, found = Engines(), {}
    for name in config.anchors:
        engine = engines.scripted(name)
        if engine is None:
            raise unknown_name("scripted player", name, SCRIPTED, "Set evaluation.anchors.")
        found[name] = engine
    return found


def rating_matches(
    config: EvaluationConfig,
    *,
    run_seed: int,
    snapshot: Snapshot,
    earlier: Sequence[Snapshot],
    specs: Sequence[GameSpec],
    roles: Roles,
    first_index: int,
) -> list[MatchRequest]:
    """Return matches of a new snapshot against the anchors and some earlier snapshots.

    Each deal is played once with the snapshot in each seat whose role its policy has, the opponent in
    all others; earlier snapshots are of the policies that it meets there.
    """
    rng = np.random.default_rng(derive_seed(run_seed, "rating", snapshot.id))
    facing = {spec.name: _facing(snapshot.policy, roles[spec.name]) for spec in specs}
    past = [one for one in earlier if any(one.policy in met for met in facing.values())]
    size = min(config.opponents, len(past))
    drawn = sorted(rng.choice(len(past), size=size, replace=False).tolist()) if past else []
    requests: list[MatchRequest] = []
    for spec in specs:
        own = [seat for seat, role in enumerate(roles[spec.name]) if role.policy == snapshot.policy]
        met = [past[i].id for i in drawn if past[i].policy in facing[spec.name]]
        deals = -(-config.matches // len(own)) if own else 0
        for opponent, deal, seat in itertools.product([*config.anchors, *met], range(deals), own):
            players = tuple(snapshot.id if s == seat else opponent for s in range(spec.seats))
            seeds = (
                derive_seed(run_seed, "rating deal", snapshot.id, spec.name, opponent, deal),
                derive_seed(run_seed, "rating sample", snapshot.id, spec.name, opponent, deal, seat),
            )
            index = first_index + len(requests)
            requests.append(MatchRequest(index, spec.name, *seeds, players, (False,) * spec.seats, "rating"))
    return requests


def _facing(policy: str, roles: Sequence[Role]) -> set[str]:
    """Return the policies that sit across from a policy in a game."""
    return {other.policy for role in roles if role.policy == policy for other in roles if other.seat != role.seat}


Profile = tuple[str, ...]  # a snapshot's id by seat


class Tables:
    """The exact policy tables of all snapshots in the small games, kept in ``tables/`` of a run."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._tables: dict[tuple[Profile, str], PolicyTable] = {}
        self._without_table: set[str] = set()

    def add(
        self, profile: Profile, spec: GameSpec, engine: Sampler, roles: tuple[Role, ...], seed: int
    ) -> PolicyTable | None:
        """Tabulate the snapshots that sit in a game's seats; None if the game has no table."""
        if spec.name in self._without_table:
            return None
        try:
            player = Player("+".join(profile), spec, engine, roles, tuple(((one, 1.0),) for one in profile))
            table = player.tabulate(seed, self._limit).table
        except NotEnumerable:
            self._without_table.add(spec.name)
            return None
        rows = [[seat, state, *row] for (seat, state), row in table.probabilities.items()]
        atomic_write(self._path(profile, spec.name), json.dumps(rows))
        self._tables[profile, spec.name] = table
        return table

    def get(self, profile: Profile, game: str) -> PolicyTable:
        """Return a table, from memory or disk."""
        if (profile, game) not in self._tables:
            rows = json.loads(self._path(profile, game).read_text(encoding="utf-8"))
            self._tables[profile, game] = PolicyTable(game, {(seat, state): tuple(row) for seat, state, *row in rows})
        return self._tables[profile, game]

    def _path(self, profile: Profile, game: str) -> Path:
        return self._folder / f"{'+'.join(dict.fromkeys(profile))}.{game}.json"


def profiles(snapshots: Sequence[Snapshot], roles: Sequence[Role]) -> list[Profile]:
    """Return who sat in a game's seats each time that policies were frozen: the newest of each policy by then."""
    newest: dict[str, str] = {}
    found: dict[int, Profile] = {}  # by step
    for snapshot in snapshots:
        newest[snapshot.policy] = snapshot.id
        if all(role.policy in newest for role in roles):
            found[snapshot.step] = tuple(newest[role.policy] for role in roles)
    return list(dict.fromkeys(found.values()))


def exact_metrics(
    config: EvaluationConfig,
    spec: GameSpec,
    table: PolicyTable,
    tables: Tables,
    past: Sequence[Profile],
    payoffs: PayoffTable,
) -> dict[str, float]:
    """Return what a table tells of the newest snapshots, and the tables of all ``past`` profiles of their mixture.

    A cooperative game has its joint return; any other game its exploitability (NashConv / seats) and
    the first seat's value against itself. A mixture made from payoffs is one of single snapshots: it is left
    out where roles have policies of their own.
    """
    values = head_to_head([table] * spec.seats)
    if spec.utility is Utility.IDENTICAL:
        return {f"{spec.name}/return": values[0]}
    metrics = {
        f"{spec.name}/exploitability": exploitability(table),
        f"{spec.name}/first_seat_value": values[0],
    }
    alone = all(len(set(profile)) == 1 for profile in past)
    if not mixable(spec.name) or (config.mixture in FROM_PAYOFFS and not alone):
        return metrics
    matrix = np.zeros((len(past), len(past)))
    if config.mixture in FROM_PAYOFFS:
        matrix, _ = payoffs.matrix([profile[0] for profile in past], spec.name)
    weights = META_SOLVERS[config.mixture](matrix)
    mixed = mixture([tables.get(one, spec.name) for one in past], [float(w) for w in weights])
    return metrics | {f"{spec.name}/mixture_exploitability": exploitability(mixed)}


def score_against(results: Sequence[Result], player: str, opponent: str, game: str) -> float | None:
    """Return a player's mean score (win 1, draw 1/2, loss 0) over all matches; None without a match."""
    own = [one for one in results if (one.player, one.opponent, one.game) == (player, opponent, game)]
    return sum(one.sum_score for one in own) / sum(one.n for one in own) if own else None
