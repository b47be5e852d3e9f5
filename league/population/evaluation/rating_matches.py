"""Rating matches of a new snapshot: against the anchors, and among snapshots by the rule of ``evaluation.pairing``.

The informative rule (information-seeking matchmaking) plays the pair next that reveals most about who is better: the
one of greatest ``league.theory.opportunity_cost``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from arena.records import Episode, MatchRequest
from games.common.seeds import derive_seed
from games.spec import GameSpec
from league.config.context import RunContext
from league.config.evaluation import EvaluationConfig
from league.population.evaluation.teams import all_seats
from league.population.results.payoffs import PairRecord, Result
from league.population.storage.population import Snapshot
from league.theory.opportunity_cost import opportunity_cost
from roles.role import Role, bystanders, fixed_names

PairRecordOf = Callable[[str, str, str], PairRecord]  # (player, opponent, game) -> their results so far


def rating_matches(
    context: RunContext,
    snapshot: Snapshot,
    earlier: Sequence[Snapshot],
    first_index: int,
    strangers: Mapping[str, Sequence[str]] | None = None,
    pair_record: PairRecordOf = lambda player, opponent, game: PairRecord(0.5, 0.0),
) -> list[MatchRequest]:
    """Return matches of a new snapshot against the anchors, and among snapshots as ``evaluation.pairing`` says.

    They are of the games that have more than one seat. Each deal is played once for each seat that the first player of
    a pair may take, with the second in all other seats. A snapshot takes the seats of its policy's roles, an exploiter
    any, and meets opposing policies' snapshots. In a game with ``strangers`` it meets all of them and itself, for a
    score of ad-hoc teamwork. Fixed players keep their seats; if that leaves one seat, matches are against them.
    """
    config, run_seed, roles = context.config.evaluation, context.config.seed, context.roles
    exploiters, specs = context.config.league_roles, [spec for spec in context.specs.values() if spec.seats > 1]
    opposing = {spec.name: _opposing_policies(snapshot.policy, roles[spec.name], exploiters) for spec in specs}
    past = [other for other in earlier if any(other.policy in policies for policies in opposing.values())]
    drawn = _drawn_opponents(config, past, derive_seed(run_seed, "rating", snapshot.id))
    requests: list[MatchRequest] = []
    for spec in specs:
        cards, pairs = roles[spec.name], [(snapshot, anchor) for anchor in config.anchors]
        if sum(not role.fixed for role in cards) == 1:  # only fixed players have a seat beside it
            pairs = [(snapshot, player) for player in fixed_names({spec.name: cards})[:1]]
        elif config.pairing == "informative":
            pairs += _most_informative([*past, snapshot], spec, cards, exploiters, pair_record)[: len(drawn)]
        else:
            pairs += [(snapshot, other.id) for other in drawn if other.policy in opposing[spec.name]]
        if met := (strangers or {}).get(spec.name):
            pairs += [(snapshot, other) for other in (snapshot.id, *met) if (snapshot, other) not in pairs]
        for player, opponent in pairs:
            stream = (snapshot.id, spec.name, *([] if player is snapshot else [player.id]), opponent)
            seatings = _seatings(config.matches, player, opponent, cards, exploiters)
            requests += _requests(spec, seatings, run_seed, stream, first_index + len(requests))
    return requests


def _drawn_opponents(config: EvaluationConfig, past: Sequence[Snapshot], seed: int) -> list[Snapshot]:
    """Return the earlier snapshots to meet, in their order: drawn evenly, or all of them in a round robin."""
    if not past:
        return []
    size = len(past) if config.pairing == "round_robin" else min(config.opponents, len(past))
    drawn = np.random.default_rng(seed).choice(len(past), size=size, replace=False)
    return [past[i] for i in sorted(drawn.tolist())]


def _requests(
    spec: GameSpec,
    seatings: Iterable[tuple[tuple[str, ...], int, int]],
    run_seed: int,
    stream: tuple[str, ...],
    first_index: int,
) -> list[MatchRequest]:
    """Return the matches of a pair, whose deals and draws come from the seeds of their ``stream``."""
    return [
        MatchRequest(
            index,
            spec.name,
            derive_seed(run_seed, "rating deal", *stream, deal),
            derive_seed(run_seed, "rating sample", *stream, deal, seat),
            players,
            (False,) * spec.seats,
            "rating",
        )
        for index, (players, deal, seat) in enumerate(seatings, first_index)
    ]


def _seatings(
    matches: int, player: Snapshot, opponent: str, roles: Sequence[Role], exploiters: Collection[str]
) -> Iterator[tuple[tuple[str, ...], int, int]]:
    """Yield who sits where, the deal's number and the player's seat: each deal once for each seat it may take."""
    free = [role for role in roles if not role.fixed]
    seats = [role.seat for role in free if player.policy in exploiters or role.policy == player.policy]
    others = all_seats(opponent, roles)
    for deal, seat in itertools.product(range(-(-matches // max(len(seats), 1))), seats):
        yield (*others[:seat], player.id, *others[seat + 1 :]), deal, seat


def _most_informative(
    snapshots: Sequence[Snapshot],
    spec: GameSpec,
    roles: Sequence[Role],
    exploiters: Collection[str],
    pair_record: PairRecordOf,
) -> list[tuple[Snapshot, str]]:
    """Return the pairs of opposing snapshots in a game, the most informative first, among equals the newest."""
    policies = {snapshot.policy for snapshot in snapshots}
    opposing = {policy: _opposing_policies(policy, roles, exploiters) for policy in policies}
    count = len(snapshots)
    score, matches = np.full((count, count), 0.5), np.zeros((count, count))
    for a, b in itertools.combinations(range(count), 2):
        record = pair_record(snapshots[b].id, snapshots[a].id, spec.name)
        score[b, a], matches[b, a] = score[a, b], matches[a, b] = record
        score[a, b] = 1.0 - record.score
    error = np.sqrt(score * (1.0 - score) / np.maximum(matches, 1.0))
    weights = opportunity_cost(matches, score, error)
    pairs = [(b, a) for b in range(count) for a in range(b) if snapshots[a].policy in opposing[snapshots[b].policy]]
    pairs.sort(key=lambda pair: (-weights[pair], -pair[0], -pair[1]))
    return [(snapshots[b], snapshots[a].id) for b, a in pairs]


def _opposing_policies(policy: str, roles: Sequence[Role], exploiters: Collection[str]) -> set[str]:
    """Return the policies that a policy may meet in a game."""
    free = [role for role in roles if not role.fixed]
    bound = {role.policy for role in free}
    if policy in exploiters:
        return bound | set(exploiters)
    opposing = {other.policy for role in free if role.policy == policy for other in free if other.seat != role.seat}
    return opposing | set(exploiters) if policy in bound and len(free) > 1 else opposing


def without_bystanders(episode: Episode, roles: Sequence[Role]) -> Episode:
    """Return a match without the seats of fixed players while others are compared: a judge does not win matches."""
    left_out = bystanders(roles)
    if not left_out:
        return episode
    seats = [role.seat for role in roles if not (role.fixed and role.policy in left_out)]
    turns = [turn._replace(seat=seats.index(turn.seat)) for turn in episode.turns if turn.seat in seats]
    returns = tuple(episode.returns[seat] for seat in seats)
    players = tuple(episode.request.players[seat] for seat in seats)
    request = episode.request._replace(players=players, trained=(False,) * len(seats))
    return episode._replace(request=request, turns=tuple(turns), returns=returns)


def score_against(results: Sequence[Result], player: str, opponent: str, game: str) -> float | None:
    """Return a player's mean score (win 1, draw ½, loss 0) over all matches; None without a match."""
    rows = [row for row in results if (row.player, row.opponent, row.game) == (player, opponent, game)]
    return sum(row.sum_score for row in rows) / sum(row.n for row in rows) if rows else None
