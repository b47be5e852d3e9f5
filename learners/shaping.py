"""Rewards for beliefs, beside the game's own: one pure step between play and credit.

Speaking (Sarkar et al. 2025, arXiv 2502.06060, for free discussion): seat i, which speaks at turn t, is paid the mean
over the other seats j that are probed

    speaking_i(t) = mean_j [b_j(t + 1) - b_j(t)],   b_j the probability that j gives to the truth.

A message that moves no belief earns exactly 0. Gain (IGPO, arXiv 2510.14967, in bits): seat i is paid at its turn t_k
for what it has learned until its next one, or the end,

    gain_i(t_k) = log2 b_i(t_{k+1}) - log2 b_i(t_k),

and its first turn is also paid for what it learned before; so over a match the gains sum to log2 b_i(end) - log2
b_i(0).

Both change which play is best. Their potential-based forms do not (Ng, Harada and Russell 1999; for games Devlin and
Kudenko 2011): with Phi_i(t) = mean_j b_j(t) or log2 b_i(t), and 0 when the match is over, seat i is paid
Phi_i(t_{k+1}) - Phi_i(t_k). Over a match that sums to -Phi_i at its first turn, which its play cannot influence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

from arena.records import Belief, Episode
from learners.beliefs import bits, changes, histories, spoken
from roles.probes import Probe


class Shaping(NamedTuple):
    """One role's rewards for beliefs: their weights, in units of scaled returns, and their forms."""

    speaking: float = 0.0  # for each unit of probability
    gain: float = 0.0  # for each bit
    speaking_potential: bool = False
    gain_potential: bool = False

    @property
    def on(self) -> bool:
        """Whether anything is paid."""
        return bool(self.speaking or self.gain)


def shaping_rewards(episode: Episode, by_seat: Sequence[Shaping], probes: Sequence[Probe]) -> tuple[float, ...]:
    """Return the reward of each turn of a match for beliefs; () if no seat is paid.  # [K]

    ``by_seat`` is each seat's shaping [seats], and ``probes`` are the probes of the match's roles.
    """
    if not any(shaping.on for shaping in by_seat):
        return ()
    rewards_K = [0.0] * len(episode.turns)
    for seat, shaping in enumerate(by_seat):
        if shaping.speaking:
            potential = shaping.speaking_potential
            by_turn = _speaking_potential(episode, seat) if potential else speaking_rewards(episode, seat, probes)
            _add(rewards_K, by_turn, shaping.speaking)
        if shaping.gain:
            _add(
                rewards_K,
                _gain_potential(episode, seat) if shaping.gain_potential else gain_rewards(episode, seat),
                shaping.gain,
            )
    return tuple(rewards_K)


def speaking_rewards(episode: Episode, seat: int, probes: Sequence[Probe]) -> dict[int, float]:
    """Return, for each turn at which a seat speaks, the mean change in the others' belief in the truth."""
    by_name = {probe.name: probe for probe in probes}
    heard: dict[int, list[float]] = {}
    for change in changes(episode):
        turn = episode.turns[change.turn]
        if turn.seat == seat != change.hearer and spoken(turn, by_name[change.probe]):
            heard.setdefault(change.turn, []).append(change.after - change.before)
    return {turn: fmean(amounts) for turn, amounts in heard.items()}


def gain_rewards(episode: Episode, seat: int) -> dict[int, float]:
    """Return, for each turn of a seat, what it learned until its next turn, in bits, as a mean over its probes."""
    seat_turns = [index for index, turn in enumerate(episode.turns) if turn.seat == seat]
    probe_count = sum(1 for _, hearer in histories(episode) if hearer == seat)
    gained: dict[int, float] = {}
    for change in changes(episode):
        if change.hearer == seat and seat_turns:
            turn = max([index for index in seat_turns if index <= change.turn], default=seat_turns[0])
            gained[turn] = gained.get(turn, 0.0) + change.bits / probe_count
    return gained


def _speaking_potential(episode: Episode, seat: int) -> dict[int, float]:
    series = [beliefs for (_, hearer), beliefs in histories(episode).items() if hearer != seat]
    return _potential(episode, seat, series, lambda probability: probability)


def _gain_potential(episode: Episode, seat: int) -> dict[int, float]:
    series = [beliefs for (_, hearer), beliefs in histories(episode).items() if hearer == seat]
    return _potential(episode, seat, series, bits)


def _potential(
    episode: Episode, seat: int, beliefs: Sequence[Sequence[Belief]], value_of: Callable[[float], float]
) -> dict[int, float]:
    """Return, for each turn of a seat, the change in its potential: the mean value of the beliefs, 0 at the end.

    At a turn before a belief was first asked for, its first answer stands in: nothing is known of how it has changed.
    """
    seat_turns = [index for index, turn in enumerate(episode.turns) if turn.seat == seat]

    def at(turn: int) -> float:
        newest = [
            next((belief for belief in reversed(series) if belief.after <= turn), series[0]) for series in beliefs
        ]
        return fmean([value_of(belief.in_truth or 0.0) for belief in newest]) if newest else 0.0

    potentials = [*(at(turn) for turn in seat_turns), 0.0]
    return {turn: potentials[number + 1] - potentials[number] for number, turn in enumerate(seat_turns)}


def _add(rewards_K: list[float], by_turn: dict[int, float], weight: float) -> None:
    for turn, reward in by_turn.items():
        rewards_K[turn] += weight * reward
