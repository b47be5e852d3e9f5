"""Rewards beside the game's, of beliefs: one pure step between play and credit.

Speaking (Sarkar et al. 2025, arXiv 2502.06060, for free discussion): seat i, who says something at turn t, is paid the
mean over the other seats j that are asked

    speaking_i(t) = mean_j [b_j(t + 1) - b_j(t)],   b_j the probability that j gives to the truth.

What hearers make nothing of earns exactly 0. Gain (IGPO, arXiv 2510.14967, in bits): seat i is paid at its turn t_k
for what it has learned until its next one, or the end,

    gain_i(t_k) = log2 b_i(t_{k+1}) - log2 b_i(t_k),

and what it has learned before its first turn at that one; so over a match gains sum to log2 b_i(end) - log2 b_i(0).

Both change what is best to play. Their potential-based forms do not (Ng, Harada and Russell 1999; for games Devlin and
Kudenko 2011): with Phi_i(t) = mean_j b_j(t) or log2 b_i(t), and 0 when the match is over, seat i is paid
Phi_i(t_{k+1}) - Phi_i(t_k). Over a match that is -Phi_i at its first turn, on which its play has no influence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

from arena.records import Belief, Episode
from learners.beliefs import bits, changes, histories, spoken
from roles.probes import Probe


class Shaping(NamedTuple):
    """What one role is paid for beliefs: weights, in units of scaled returns, and forms."""

    speaking: float = 0.0  # for each unit of probability
    gain: float = 0.0  # for each bit
    speaking_potential: bool = False
    gain_potential: bool = False

    @property
    def on(self) -> bool:
        """Whether anything is paid."""
        return bool(self.speaking or self.gain)


def shaping_rewards(episode: Episode, by_seat: Sequence[Shaping], probes: Sequence[Probe]) -> tuple[float, ...]:
    """Return what beliefs pay for each turn of a match; () if no seat is paid.  # [K]

    ``by_seat`` is what each seat is paid, and ``probes`` are those of the match's roles.  # [seats]
    """
    if not any(one.on for one in by_seat):
        return ()
    paid = [0.0] * len(episode.turns)
    for seat, one in enumerate(by_seat):
        if one.speaking:
            potential = one.speaking_potential
            found = _speaking_potential(episode, seat) if potential else speaking_rewards(episode, seat, probes)
            _add(paid, found, one.speaking)
        if one.gain:
            _add(paid, _gain_potential(episode, seat) if one.gain_potential else gain_rewards(episode, seat), one.gain)
    return tuple(paid)


def speaking_rewards(episode: Episode, seat: int, probes: Sequence[Probe]) -> dict[int, float]:
    """Return by turn of a seat that says something the mean change in the others' belief in the truth."""
    by_name = {probe.name: probe for probe in probes}
    heard: dict[int, list[float]] = {}
    for change in changes(episode):
        turn = episode.turns[change.turn]
        if turn.seat == seat != change.hearer and spoken(turn, by_name[change.probe]):
            heard.setdefault(change.turn, []).append(change.after - change.before)
    return {turn: fmean(amounts) for turn, amounts in heard.items()}


def gain_rewards(episode: Episode, seat: int) -> dict[int, float]:
    """Return by turn of a seat what it has learned until its next turn, in bits, as a mean over its probes."""
    mine = [place for place, turn in enumerate(episode.turns) if turn.seat == seat]
    own = sum(1 for _, hearer in histories(episode) if hearer == seat)
    gained: dict[int, float] = {}
    for change in changes(episode):
        if change.hearer == seat and mine:
            turn = max([place for place in mine if place <= change.turn], default=mine[0])
            gained[turn] = gained.get(turn, 0.0) + change.bits / own
    return gained


def _speaking_potential(episode: Episode, seat: int) -> dict[int, float]:
    others = [beliefs for (_, hearer), beliefs in histories(episode).items() if hearer != seat]
    return _potential(episode, seat, others, lambda probability: probability)


def _gain_potential(episode: Episode, seat: int) -> dict[int, float]:
    own = [beliefs for (_, hearer), beliefs in histories(episode).items() if hearer == seat]
    return _potential(episode, seat, own, bits)


def _potential(
    episode: Episode, seat: int, beliefs: Sequence[Sequence[Belief]], worth: Callable[[float], float]
) -> dict[int, float]:
    """Return by turn of a seat the difference of the mean worth of beliefs in the truth, which is 0 at the end."""
    mine = [place for place, turn in enumerate(episode.turns) if turn.seat == seat]

    def at(turn: int) -> float:
        newest = [next((one for one in reversed(series) if one.after <= turn), series[0]) for series in beliefs]
        return fmean([worth(one.in_truth or 0.0) for one in newest]) if newest else 0.0

    known = [*(at(turn) for turn in mine), 0.0]
    return {turn: known[number + 1] - known[number] for number, turn in enumerate(mine)}


def _add(paid: list[float], found: dict[int, float], weight: float) -> None:
    for turn, amount in found.items():
        paid[turn] += weight * amount
