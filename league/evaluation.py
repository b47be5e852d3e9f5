"""What is measured when a snapshot is frozen: rating matches, exact play, and the mixture so far."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from arena.records import MatchRequest, ReplyRequest, Sampler
from games.errors import NotEnumerable, unknown_name
from games.files import atomic_write
from games.registry import make_game
from games.seeds import derive_seed
from games.spec import GameSpec, Utility
from league.config_matchmaking import EvaluationConfig
from league.exploitability import PolicyTable, exploitability, head_to_head
from league.matchmaking.informative import informative
from league.payoffs import Known, Result
from league.player_engines import SCRIPTED, Engines
from league.players import Player
from league.population import Snapshot
from roles.role import Role

if TYPE_CHECKING:
    from league.start import Roles  # which imports torch


def scripted_engines(names: Sequence[str], setting: str, engines: Engines) -> dict[str, Sampler]:
    """Return the engine of each player that is a rule, a kept exploiter, or behind a server.

    Raises UsageError, which names the setting, for any other name.
    """
    found: dict[str, Sampler] = {}
    for name in names:
        engine = engines.outside(name)
        if engine is None:
            valid = [*SCRIPTED, "exploiter:DIR", "openai:MODEL"]
            raise unknown_name("scripted player", name, valid, f"Set {setting}.")
        found[name] = engine
    return found


def try_out(engines: Mapping[str, Sampler], roles: Roles) -> None:
    """Let each player answer once in every seat of every game. Raises UsageError for one that cannot play it."""
    for game, seated in roles.items():
        for name, engine in engines.items():
            position, waiting = make_game(game), set(range(len(seated)))
            position.reset(0)
            while waiting and (seat := position.to_act()) is not None:
                if seat in waiting:
                    asked = (position.observe(seat), position.legal_actions(), (), random.Random(0))
                    engine.sample([ReplyRequest(name, seated[seat], position, *asked)])
                    waiting.remove(seat)
                position.apply(position.legal_actions()[0])


def rating_matches(
    config: EvaluationConfig,
    *,
    run_seed: int,
    snapshot: Snapshot,
    earlier: Sequence[Snapshot],
    specs: Sequence[GameSpec],
    roles: Roles,
    first_index: int,
    exploiters: Collection[str] = (),
    known: Callable[[str, str, str], Known] = lambda player, opponent, game: Known(0.5, 0.0),
) -> list[MatchRequest]:
    """Return matches of a new snapshot against the anchors, and those of snapshots that ``config.pairing`` asks for.

    Each deal is played once with the first of a pair in each seat whose role its policy has, the second in
    all others; snapshots meet those of policies that sit across from theirs. Exploiters take any seat.
    """
    rng = np.random.default_rng(derive_seed(run_seed, "rating", snapshot.id))
    facing = {spec.name: _facing(snapshot.policy, roles[spec.name], exploiters) for spec in specs}
    past = [one for one in earlier if any(one.policy in met for met in facing.values())]
    size = len(past) if config.pairing == "round_robin" else min(config.opponents, len(past))
    drawn = sorted(rng.choice(len(past), size=size, replace=False).tolist()) if past else []
    requests: list[MatchRequest] = []
    for spec in specs:
        pairs: list[tuple[Snapshot, str]] = [(snapshot, anchor) for anchor in config.anchors]
        if config.pairing == "informative":
            pairs += _most_informative([*past, snapshot], spec, roles[spec.name], exploiters, known)[:size]
        else:
            pairs += [(snapshot, past[i].id) for i in drawn if past[i].policy in facing[spec.name]]
        for one, opponent in pairs:
            everywhere = one.policy in exploiters
            own = [seat for seat, role in enumerate(roles[spec.name]) if everywhere or role.policy == one.policy]
            met = (snapshot.id, spec.name, *([] if one is snapshot else [one.id]), opponent)
            for deal, seat in itertools.product(range(-(-config.matches // max(len(own), 1))), own):
                players = tuple(one.id if s == seat else opponent for s in range(spec.seats))
                deal_seed = derive_seed(run_seed, "rating deal", *met, deal)
                sample_seed = derive_seed(run_seed, "rating sample", *met, deal, seat)
                index, nobody = first_index + len(requests), (False,) * spec.seats
                requests.append(MatchRequest(index, spec.name, deal_seed, sample_seed, players, nobody, "rating"))
    return requests


def _most_informative(
    snapshots: Sequence[Snapshot],
    spec: GameSpec,
    roles: Sequence[Role],
    exploiters: Collection[str],
    known: Callable[[str, str, str], Known],
) -> list[tuple[Snapshot, str]]:
    """Return the pairs of snapshots that meet in a game, those of whom a match tells most first, then the newest."""
    across = {policy: _facing(policy, roles, exploiters) for policy in {one.policy for one in snapshots}}
    count = len(snapshots)
    score, matches = np.full((count, count), 0.5), np.zeros((count, count))
    for a, b in itertools.combinations(range(count), 2):
        found = known(snapshots[b].id, snapshots[a].id, spec.name)
        score[b, a], matches[b, a] = score[a, b], matches[a, b] = found
        score[a, b] = 1.0 - found.score
    error = np.sqrt(score * (1.0 - score) / np.maximum(matches, 1.0))
    weights = informative(matches, score, error)
    pairs = [(b, a) for b in range(count) for a in range(b) if snapshots[a].policy in across[snapshots[b].policy]]
    pairs.sort(key=lambda pair: (-weights[pair], -pair[0], -pair[1]))
    return [(snapshots[b], snapshots[a].id) for b, a in pairs]


def _facing(policy: str, roles: Sequence[Role], exploiters: Collection[str]) -> set[str]:
    """Return the policies that sit across from a policy in a game."""
    bound = {role.policy for role in roles}
    if policy in exploiters:
        return bound | set(exploiters)
    met = {other.policy for role in roles if role.policy == policy for other in roles if other.seat != role.seat}
    return met | set(exploiters) if policy in bound and len(roles) > 1 else met


Profile = tuple[str, ...]  # a snapshot's id by seat


class Tables:
    """The exact policy tables of all snapshots in the small games, kept in ``tables/`` of a run."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._tables: dict[tuple[Profile, str], PolicyTable] = {}
        self._without_table: set[str] = set()

    def of(
        self, profile: Profile, spec: GameSpec, engine: Sampler, roles: tuple[Role, ...], seed: int
    ) -> PolicyTable | None:
        """Return the table of the snapshots in a game's seats, kept or made now; None if the game has none."""
        if (table := self.kept(profile, spec)) is not None or spec.name in self._without_table:
            return table
        try:
            player = Player("+".join(profile), spec, engine, roles, tuple(((one, 1.0),) for one in profile))
            table = player.tabulate(seed, self._limit).table
        except NotEnumerable:
            self._without_table.add(spec.name)
            return None
        rows = [[*key, *row] for key, row in table.probabilities.items()]
        atomic_write(self._path(profile, spec.name), json.dumps(rows))
        self._tables[profile, spec.name] = table
        return table

    def kept(self, profile: Profile, spec: GameSpec) -> PolicyTable | None:
        """Return the table of the snapshots in a game's seats if it was made before."""
        if (profile, spec.name) not in self._tables:
            path = self._path(profile, spec.name)
            if not path.exists():
                return None
            rows = json.loads(path.read_text(encoding="utf-8"))
            table = PolicyTable(spec.name, {(seat, state): tuple(row) for seat, state, *row in rows})
            self._tables[profile, spec.name] = table
        return self._tables[profile, spec.name]

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


def exact_metrics(spec: GameSpec, table: PolicyTable) -> dict[str, float]:
    """Return what the table of the newest snapshots tells.

    A cooperative game has its joint return; any other game its exploitability (NashConv / seats) and
    the first seat's value against itself.
    """
    values = head_to_head([table] * spec.seats)
    if spec.utility is Utility.IDENTICAL:
        return {"return": values[0]}
    return {"exploitability": exploitability(table), "first_seat_value": values[0]}


def score_against(results: Sequence[Result], player: str, opponent: str, game: str) -> float | None:
    """Return a player's mean score (win 1, draw 1/2, loss 0) over all matches; None without a match."""
    own = [one for one in results if (one.player, one.opponent, one.game) == (player, opponent, game)]
    return sum(one.sum_score for one in own) / sum(one.n for one in own) if own else None
