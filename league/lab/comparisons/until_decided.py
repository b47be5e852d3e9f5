"""Matches that stop when they are decided: two players meet until one is shown to be stronger, or neither.

A deal is one observation, whatever the number of its seatings: half of A's mean lead over B on it, as a share of the
game's range of returns, plus ½. So 1 is the greatest win on the deal in every seating, and ½ is level; in a game of
win, draw and loss it is the mean score. Deals are independent, and their confidence sequence
(``league.theory.confidence_sequence``) holds at any stopping time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from arena.records import Episode
from games.common.errors import UsageError
from games.spec import GameSpec, Utility
from league.population.evaluation.head_to_head import (
    A,
    B,
    Decided,
    HeadToHead,
    Meeting,
    Winner,
    mean_return,
    outcomes_of,
    play_scheduled,
    role_names,
    schedule,
    seatings,
    summarise,
)
from league.population.players.player import Player
from league.theory.confidence_sequence import anytime_mean, confidence_interval, looks
from league.theory.statistics import Estimate

AT_MOST = 20_000  # matches, by default


class Until(NamedTuple):
    """When to stop."""

    confidence: float = 0.95
    margin: float | None = None  # on the scale of an observation; None: never decide that nobody is stronger
    at_most: int = AT_MOST  # matches

    def check(self, spec: GameSpec) -> None:
        """Raise UsageError for impossible numbers, and for a game in which nobody is stronger."""
        self.check_numbers()
        if spec.utility is Utility.IDENTICAL and spec.seats > 1:
            raise UsageError(
                f"--until decides who is stronger, and in {spec.alias} both players get the same. Leave it out."
            )

    def check_numbers(self) -> None:
        """Raise UsageError for impossible numbers in any game."""
        if not 0.5 <= self.confidence < 1.0:
            raise UsageError(f"--until {self.confidence:g}: the confidence should be at least 0.5 and below 1.")
        if self.margin is not None and not 0.0 < self.margin < 0.5:
            raise UsageError(f"--margin {self.margin:g}: the margin should be above 0 and below 0.5, such as 0.02.")


def compare_until(
    players: tuple[Player, Player], until: Until, seed: int, on_episode: Callable[[Episode], None] | None = None
) -> HeadToHead:
    """Play A against B until it is decided, or ``until.at_most`` matches are played; return the result.

    All its intervals account for the repeated looks. The matches are the first ones of ``compare`` with the same seed.
    """
    spec = players[A].spec
    until.check(spec)
    scheduled = schedule(players, until.at_most, seed)
    cycle, episodes = len(seatings(spec)), list[Episode]()
    for deals in looks(len(scheduled) // cycle):
        episodes += play_scheduled(players, scheduled[len(episodes) : deals * cycle], on_episode)
        played = scheduled[: len(episodes)]
        ends = [(match.deal, match.seating, episode.returns) for match, episode in zip(played, episodes, strict=True)]
        decision = decide(spec, outcomes_of(spec, ends), until)
        if decision.winner is not Winner.OPEN:
            break
    labels = (players[A].label, players[B].label)
    result = summarise(labels, spec, seed, role_names(players), played, episodes, anytime_mean)
    return replace(result, decision=decision)


def decide(spec: GameSpec, outcomes: Sequence[Meeting], until: Until) -> Decided:
    """Return what these outcomes decide. Its confidence holds however often it is called."""
    span = spec.max_return - spec.min_return
    leads: dict[int, list[float]] = {}
    for outcome in outcomes:
        lead = mean_return(outcome.returns, outcome.seating, A) - mean_return(outcome.returns, outcome.seating, B)
        leads.setdefault(outcome.deal, []).append(min(max(lead, -span), span))
    observations = [0.5 + sum(of_deal) / len(of_deal) / span / 2.0 for of_deal in leads.values()]
    low, high = confidence_interval(observations, until.confidence)
    mean = sum(observations) / len(observations)
    bounds = tuple((bound - 0.5) * 2.0 * span for bound in (mean, low, high))
    return Decided(winner(low, high, until.margin), until.confidence, until.margin, Estimate(*bounds))


def winner(low: float, high: float, margin: float | None) -> Winner:
    """Return the verdict of an interval of the mean observation."""
    if low > 0.5:
        return Winner.A
    if high < 0.5:
        return Winner.B
    return Winner.LEVEL if margin is not None and 0.5 - margin <= low and high <= 0.5 + margin else Winner.OPEN
