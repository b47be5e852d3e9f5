"""Draws of a made-up game, for tests of matchmaking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from arena.records import MatchRequest
from games.spec import GameSpec, Utility
from league.config.context import RunContext
from league.config.matchmaking import ExploitersConfig, MatchmakingConfig
from league.population.matchmaking import DrawContext, Member, MetaStrategy, OpponentPool, draw_matches
from league.population.results.payoffs import PairRecord
from league.population.storage.members import Kind


def spec(seats: int = 2) -> GameSpec:
    return GameSpec("toy", seats, 2, 3, -1.0, 1.0, Utility.ZERO_SUM, False, True)


def draw(
    past: int | dict[str, Sequence[str]] = 10,
    live: tuple[str, ...] = ("main", "main"),
    win_rate: Callable[[str, str, str], float] = lambda player, opponent, game: 0.5,
    meta: MetaStrategy | None = None,
    others: Sequence[Member] = (),
    fixed: frozenset[str] = frozenset(),
    **changes: Any,
) -> list[MatchRequest]:
    by_policy = {"main": [f"main-{step:06d}" for step in range(past)]} if isinstance(past, int) else past
    population = [Member(member, policy, "main") for policy, ids in by_policy.items() for member in ids]
    game = changes.pop("game", spec(len(live)))
    pair_record = lambda *pair: PairRecord(win_rate(*pair), 10.0)  # noqa: E731
    drawn = DrawContext(game.name, live, [*population, *others], pair_record, meta or MetaStrategy(), fixed)
    exploiting = changes.pop("exploiting", {})
    config = SimpleNamespace(
        matchmaking=changes.pop("config", MatchmakingConfig()),
        exploiters=changes.pop("exploiters", ExploitersConfig()),
        seed=changes.pop("run_seed", 0),
        league_roles=exploiting,
    )
    learning = [*changes.pop("learning", set(live) - fixed), *exploiting]
    context = cast(RunContext, SimpleNamespace(config=config, specs={game.name: game}))
    defaults = {"iteration": 7, "matches": 512, "first_index": 1000}
    return draw_matches(context, changes.pop("context", drawn), learning=learning, **{**defaults, **changes})


def opponents(matches: list[MatchRequest], live: tuple[str, ...] = ("main", "main")) -> Counter[str]:
    return Counter(player for match in matches for player in match.players if player not in live)


def draw_members(count: int) -> list[Member]:
    return [Member(f"main-{step:06d}", "main", "main") for step in range(count)]


def pool_of(rates: Sequence[float], kinds: Sequence[Kind] | None = None) -> OpponentPool:
    """Return a pool against whose players "main" wins at given rates."""
    names = [str(number) for number in range(len(rates))]
    rate = dict(zip(names, rates, strict=True))
    pair_record = lambda player, opponent, game: PairRecord(rate[opponent], 10.0)  # noqa: E731
    return OpponentPool(names, ("main",), "toy", pair_record, MatchmakingConfig(), kinds or ["main"] * len(rates))
