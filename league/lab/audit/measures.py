"""What an audit measures, as records, and how each follows from tables and matches. Nothing here queries a player."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.records import EndReason, Episode
from games.spec import GameSpec, Utility
from league.population.evaluation.head_to_head import A, B, HeadToHead, mean_return
from league.population.players.tabulating import TabulatedPolicy
from league.theory.cycles import Cycle, find_cycles
from league.theory.exact.exploitability import PolicyTable, exploitability, head_to_head
from league.theory.exact.sampled import resampled_tables, sampled_exploitability
from league.theory.statistics import Estimate, clustered_mean

DRAWS = 100  # tables by which the error of a margin from sampled replies is taken


class Field(NamedTuple):
    """All audited players in one two-seat zero-sum game, each against each."""

    spec: GameSpec
    players: tuple[str, ...]  # [N]
    margin: NDArray[np.float64]  # row's mean return against column over both seatings, in the game's units  # [N, N]
    error: NDArray[np.float64]  # standard errors; 0 where both are known exactly  # [N, N]
    cycles: tuple[Cycle, ...]
    ranked: tuple[str, ...]  # of the players those that are compared: earlier checkpoints would outnumber them

    def mean_margin(self, player: str) -> float:
        """Return a player's mean margin over the other ranked ones."""
        others = [self.players.index(name) for name in self.ranked if name != player]
        return float(self.margin[self.players.index(player), others].mean()) if others else 0.0

    @property
    def leader(self) -> str:
        """The ranked player with the greatest mean margin; of equal ones the first."""
        return max(self.ranked, key=self.mean_margin)


class LaterEarlier(NamedTuple):
    """A checkpoint against an earlier one of its run, in one game."""

    game: str
    later: str
    earlier: str
    margin: Estimate  # the later one's mean return, in the game's units a match

    @property
    def verdict(self) -> str:
        """Whether the later one "beats" the earlier, "loses" to it, or neither."""
        if self.margin.low is not None and self.margin.low > 0.0:
            return "beats"
        return "loses to" if self.margin.high is not None and self.margin.high < 0.0 else "is level with"


class EditEffect(NamedTuple):
    """What an edit of words, labels or cards does to a player that should not read them."""

    player: str
    game: str  # edited
    moved: float  # mean total variation of the strategy over information states
    noise: float  # what that would be for an unmoved strategy, by sampling alone; 0 where it is known exactly
    most: float  # the greatest total variation at any state
    before: Estimate  # exploitability in the game's units a match
    after: Estimate


class Forfeits(NamedTuple):
    """A player's failures and its strength, all together and apart, in its matches against others in one game."""

    player: str
    opponent: str
    spec: GameSpec
    matches: int
    forfeited: int  # by the player
    by_role: dict[str, int]
    by_turn: dict[int, int]  # its own turn at which it failed, from 1
    against: int  # matches that the opponent forfeited
    illegal_rate: float | None
    lead: Estimate  # its mean return less the opponent's
    lead_unforfeited: Estimate | None  # in the matches that nobody forfeited; None: there is none
    unforfeited: int


class Control(NamedTuple):
    """A player against itself under another name: any difference is the measurement's."""

    player: str
    spec: GameSpec
    matches: int
    lead: Estimate

    @property
    def differs(self) -> bool:
        """Whether a difference was found where there is none: at 95 %, one in twenty."""
        low, high = self.lead.low, self.lead.high
        return low is not None and high is not None and not low <= 0.0 <= high


def field_of(spec: GameSpec, tables: Mapping[str, TabulatedPolicy], ranked: Sequence[str]) -> Field | None:
    """Return all players of a game against each other; None unless it is a zero-sum game of two with two players."""
    if spec.seats != 2 or spec.utility is not Utility.ZERO_SUM or len(tables) < 2:
        return None
    names = tuple(tables)
    drawn = {name: draws_of(tabulated) for name, tabulated in tables.items()}
    margin, error = np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
    for i, a in enumerate(names):
        for j, b in enumerate(names[:i]):
            margin[i, j] = margin_of(tables[a].table, tables[b].table)
            if drawn[a] or drawn[b]:
                left, right = (drawn[name] or [tables[name].table] * DRAWS for name in (a, b))
                error[i, j] = np.std([margin_of(x, y) for x, y in zip(left, right, strict=True)], ddof=1)
            margin[j, i], error[j, i] = -margin[i, j], error[i, j]
    clean = np.where(np.abs(margin) < 1e-12, 0.0, margin)
    return Field(
        spec, names, clean, error, tuple(find_cycles(names, clean, error)), tuple(n for n in names if n in ranked)
    )


def draws_of(tabulated: TabulatedPolicy, seed: int = 0) -> list[PolicyTable]:
    """Return tables as other replies might have given them; none where a table is known."""
    return resampled_tables(tabulated.table, tabulated.counts, DRAWS, seed) if tabulated.counts else []


def margin_of(a: PolicyTable, b: PolicyTable) -> float:
    """Return a's mean return against b over both seatings, exactly."""
    return (head_to_head([a, b])[0] + head_to_head([b, a])[1]) / 2.0


def later_and_earlier(field: Field, line: Sequence[str]) -> list[LaterEarlier]:
    """Return each of a run's checkpoints, oldest first in ``line``, against every earlier one."""
    present = [field.players.index(name) for name in line if name in field.players]
    results = []
    for number, later in enumerate(present):
        for earlier in present[:number]:
            mean, half = float(field.margin[later, earlier]), 1.96 * float(field.error[later, earlier])
            margin = Estimate(mean, mean - half, mean + half)
            results.append(LaterEarlier(field.spec.name, field.players[later], field.players[earlier], margin))
    return results


def edit_effect(player: str, game: str, before: TabulatedPolicy, after: TabulatedPolicy) -> EditEffect:
    """Return how an edited game moves a player's strategy, read at the same information states."""
    base = before.table
    edited = PolicyTable(base.game, after.table.probabilities)
    distances = _distances(base, edited)
    noise = 0.0
    if before.counts or after.counts:
        # two tables of the player as it is in the plain game, each from as many replies as were asked
        first = draws_of(before, 1) or [base] * DRAWS
        again = TabulatedPolicy(base, False, 0.0, counts=_scaled(before, after))
        noise = float(np.mean([np.mean(_distances(x, y)) for x, y in zip(first, draws_of(again, 2), strict=False)]))
    return EditEffect(
        player,
        game,
        float(np.mean(distances)),
        noise,
        float(np.max(distances)),
        exploitability_of(base, before),
        exploitability_of(edited, after),
    )


def exploitability_of(table: PolicyTable, tabulated: TabulatedPolicy) -> Estimate:
    """Return a table's exploitability, with an interval where it was sampled, without width where it is known."""
    plain = exploitability(table)
    if tabulated.exact:
        return Estimate(plain, plain, plain)
    sampled = None if tabulated.counts is None else sampled_exploitability(table, tabulated.counts)
    return Estimate(plain, None, None) if sampled is None else Estimate(plain, *sampled.mean[1:])


def _scaled(before: TabulatedPolicy, after: TabulatedPolicy) -> dict[tuple[int, str], tuple[int, ...]]:
    """Return the plain game's shares in as many replies as the edited game's states had."""
    counts = after.counts or before.counts or {}
    return {
        key: tuple(round(sum(row) * share) for share in before.table.probabilities[key]) for key, row in counts.items()
    }


def _distances(a: PolicyTable, b: PolicyTable) -> list[float]:
    """Return the total variation between two tables of one game at each information state."""
    return [
        0.5 * math.fsum(abs(x - y) for x, y in zip(row, b.probabilities[key], strict=True))
        for key, row in a.probabilities.items()
    ]


def forfeits_of(result: HeadToHead) -> Forfeits:
    """Return A's failures against B, and its lead in all matches and in those that nobody forfeited.

    The latter are not a fair sample of deals: a player that forfeits bad cards looks strong in what is left.
    """
    by_role: Counter[str] = Counter()
    by_turn: Counter[int] = Counter()
    against = 0
    leads, deals = [], []
    for match, episode in zip(result.matches, result.episodes, strict=True):
        if episode.end is EndReason.FORFEIT and episode.offender is not None:
            if match.seating[episode.offender] == A:
                by_role[_role_of(episode, episode.offender)] += 1
                by_turn[_own_turns(episode, episode.offender)] += 1
            else:
                against += 1
        else:
            gains = [mean_return(episode.returns, match.seating, side) for side in (A, B)]
            leads.append(gains[A] - gains[B])
            deals.append(match.deal)
    span = result.spec.max_return - result.spec.min_return
    return Forfeits(
        result.players[A],
        result.players[B],
        result.spec,
        len(result.episodes),
        by_role.total(),
        dict(sorted(by_role.items())),
        dict(sorted(by_turn.items())),
        against,
        result.illegal_rates[A],
        result.lead,
        clustered_mean(leads, deals, (-span, span)) if leads else None,
        len(leads),
    )


def _role_of(episode: Episode, seat: int) -> str:
    return next((turn.role for turn in reversed(episode.turns) if turn.seat == seat), f"seat {seat}")


def _own_turns(episode: Episode, seat: int) -> int:
    """Return the number of the turn at which a seat failed, its own turns counted from 1; a retry does not count as a
    turn.
    """
    return sum(turn.seat == seat and turn.action is not None for turn in episode.turns) + 1
