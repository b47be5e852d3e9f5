"""Repeated matrix games: what every action would have paid in each round, the other seats' moves held as they were.

That is full information in the sense of online learning: regret (``league/regret.py``) and the credit rule
``regret`` need what the actions that were not taken would have paid, and only the stage game can tell.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.chunks import Tokens
from arena.records import Episode, Turn
from games.errors import UsageError
from games.registry import make_game
from league.config import RunConfig
from learners.trajectories import Trajectory
from roles.trie import token_logprobs

if TYPE_CHECKING:
    from arena.lm import LanguageModel
    from learners.policy import Policy

BUDGET = 8192  # padded tokens in one forward pass
REPEATED = "repeated_game("

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StageGame:
    """The matrix game that is played in every round, in its own units."""

    name: str  # of the repeated game
    actions: tuple[tuple[str, ...], ...]  # by seat
    payoffs: Floats  # to each seat, by joint action  # [seats, A_0, ..., A_seats-1]
    rounds: int


class Rounds(NamedTuple):
    """One seat's completed rounds in one match."""

    actions: NDArray[np.intp]  # what it played, as an index into its actions  # [T]
    payoffs: Floats  # what each of its actions would have paid  # [T, A]


class _Asked(NamedTuple):
    """What the chances of a policy's replies depend on, beside its weights."""

    prompt: Tokens
    legal: tuple[str, ...]
    temperature: float


def is_repeated(name: str) -> bool:
    """Return whether a game is OpenSpiel's repetition of a matrix game."""
    return name.startswith(REPEATED)


@functools.cache
def stage_game(name: str) -> StageGame:
    """Return the stage game of a repeated game, read off its first round. Raises UsageError for any other game."""
    start = make_game(name)
    if not is_repeated(name):
        raise UsageError(
            f"{name} is no repeated matrix game, so what another action would have paid in a round is not known. Use "
            'one, for example "repeated_game(stage_game=matrix_rps(),num_repetitions=8)".'
        )
    seats = start.spec.seats
    walk, actions = start.copy(), []
    for _ in range(seats):
        actions.append(walk.legal_actions())
        walk.apply(actions[-1][0])
    payoffs = np.empty((seats, *map(len, actions)))
    for joint in np.ndindex(*payoffs.shape[1:]):
        match = start.copy()
        for seat, action in enumerate(joint):
            match.apply(actions[seat][action])
        payoffs[:, *joint] = match.returns()
    return StageGame(name, tuple(actions), payoffs, start.spec.max_turns // seats)


def rounds_of(stage: StageGame, turns: Sequence[Turn], seat: int) -> Rounds:
    """Return a seat's rounds in a match with these turns, of all seats. A round that a forfeit cut short is left out.

    Illegal replies are no moves, so they are passed over.
    """
    moves = [
        [own.index(turn.action) for turn in turns if turn.seat == where and turn.action is not None]
        for where, own in enumerate(stage.actions)
    ]
    completed = min(map(len, moves))
    played = [np.array(own[:completed], np.intp) for own in moves]
    by_own = np.moveaxis(stage.payoffs[seat], seat, -1)  # the other seats' axes, in order, then the own
    others = [own for where, own in enumerate(played) if where != seat]
    return Rounds(played[seat], by_own[tuple(others)])


def counterfactuals(
    config: RunConfig,
    policies: Mapping[str, Policy],
    scales: Mapping[str, float],
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
) -> list[Trajectory]:
    """Return the trajectories with what the rule ``regret`` needs, where a role is credited by it.

    ``policies`` have the weights that the episodes were played with, ``scales`` are those that the
    trajectories were made with. A round that was not completed pays whatever it paid for every action,
    so nothing is learned from it.
    """
    known = list(trajectories)
    matches = {episode.request.index: episode for episode in episodes}
    for name, policy in policies.items():
        own = [
            i
            for i, one in enumerate(trajectories)
            if one.policy == name and config.credit.rule_for(one.game, one.role) == "regret"
        ]
        turns = [turn for i in own for turn in trajectories[i].turns]
        chances = reply_chances(policy.lm, [_asked(turn) for turn in turns]) if turns else {}
        for i in own:
            one = trajectories[i]
            rounds = rounds_of(stage_game(one.game), matches[one.match].turns, one.seat)
            payoffs = np.repeat(np.array(one.rewards)[:, None], rounds.payoffs.shape[1], axis=1)  # [K, A]
            payoffs[: len(rounds.payoffs)] = rounds.payoffs / scales[one.game]
            played = np.array([chances[_asked(turn)] for turn in one.turns]).reshape(payoffs.shape)
            expected = tuple((played * payoffs).sum(axis=1).tolist())
            known[i] = one._replace(expected=expected, best_fixed=float(payoffs.sum(axis=0).max()))
    return known


def reply_chances(lm: LanguageModel, asked: Sequence[_Asked]) -> dict[_Asked, tuple[float, ...]]:
    """Return the exact chances of all legal ``choice`` replies, in their order, of each prompt."""
    import torch  # slow to import, and `league regret` can do without

    found: dict[_Asked, tuple[float, ...]] = {}
    for temperature in {one.temperature for one in asked}:
        distinct = list(dict.fromkeys(one for one in asked if one.temperature == temperature))
        tries = [lm.trie(one.legal) for one in distinct]
        with torch.inference_mode():
            for chunk in lm.plan_choice([one.prompt for one in distinct], tries, BUDGET):
                nodes, first = lm.choice_logprobs(chunk, tries, temperature).nodes.tolist(), 0
                for item in chunk.items:
                    trie = tries[item]
                    own = nodes[first : first + len(trie.prefixes)]
                    first += len(trie.prefixes)
                    found[distinct[item]] = tuple(
                        [exp(sum(token_logprobs(trie, own, reply))) for reply in range(len(trie.replies))]
                    )
    return found


def _asked(turn: Turn) -> _Asked:
    if turn.trace is None or turn.trace.mask is None:
        raise ValueError(f"a turn of {turn.player!r} was not drawn from the legal replies alone, so has no chances")
    return _Asked(turn.trace.prompt_ids, turn.trace.mask, turn.trace.temperature)
