"""Repeated matrix games: what every action would have paid in each round, with the other seats' actions held fixed.

This is full information in the sense of online learning. Regret (``evaluation.regret``) and credit rules with
``Need.COUNTERFACTUALS`` need the payoffs of the actions that were not taken, and only the stage game knows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.lm.chunks import Tokens
from arena.records import Episode, Turn
from games.openspiel.repeated import Floats, StageGame, stage_game
from league.config.context import RunContext
from learners.advantages.rule import Need
from learners.trajectories import Counterfactuals, Evidence, Trajectory
from roles.trie import token_logprobs

if TYPE_CHECKING:
    from arena.lm.language_model import LanguageModel
    from learners.update.policy import Policy

MAX_TOKENS = 8192  # padded tokens in one forward pass


class SeatRounds(NamedTuple):
    """One seat's completed rounds in one match."""

    actions: NDArray[np.intp]  # the seat's actions, as indices  # [T]
    payoffs: Floats  # what each of its actions would have paid  # [T, A]


class PromptKey(NamedTuple):
    """What the probabilities of a policy's replies depend on, beside its weights."""

    prompt: Tokens
    legal: tuple[str, ...]
    temperature: float


def seat_rounds(stage: StageGame, turns: Sequence[Turn], seat: int) -> SeatRounds:
    """Return a seat's rounds in a match with these turns, of all seats. A round that a forfeit cut short is left out.

    Illegal replies are no actions, so they are skipped.
    """
    by_seat = [
        [actions.index(turn.action) for turn in turns if turn.seat == actor and turn.action is not None]
        for actor, actions in enumerate(stage.actions)
    ]
    completed = min(map(len, by_seat))
    played = [np.array(indices[:completed], np.intp) for indices in by_seat]
    payoffs = np.moveaxis(stage.payoffs[seat], seat, -1)  # axes: the other seats in order, then this one
    opponents = [indices for actor, indices in enumerate(played) if actor != seat]
    return SeatRounds(played[seat], payoffs[tuple(opponents)])


def counterfactuals(
    context: RunContext,
    policies: Mapping[str, Policy],
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
) -> list[Evidence]:
    """Return each trajectory's evidence from play: its counterfactuals, where the rule of its role needs them.

    ``policies`` have the weights that the episodes were played with, and the trajectories' returns were divided by the
    run's scales. In a round that was not completed every action pays the reward of that turn, so nothing is learned
    from it.
    """
    evidence = [Evidence()] * len(trajectories)
    matches = {episode.request.index: episode for episode in episodes}
    for name, policy in policies.items():
        mine = [
            i
            for i, trajectory in enumerate(trajectories)
            if trajectory.policy == name
            and Need.COUNTERFACTUALS in context.config.credit.needs(trajectory.game, trajectory.role)
        ]
        turns = [turn for i in mine for turn in trajectories[i].turns]
        probabilities = reply_probabilities(policy.lm, [prompt_key(turn) for turn in turns]) if turns else {}
        for i in mine:
            trajectory = trajectories[i]
            rounds = seat_rounds(stage_game(trajectory.game), matches[trajectory.match].turns, trajectory.seat)
            payoffs = np.repeat(np.array(trajectory.rewards)[:, None], rounds.payoffs.shape[1], axis=1)  # [K, A]
            payoffs[: len(rounds.payoffs)] = rounds.payoffs / context.scales[trajectory.game]
            policy_KA = np.array([probabilities[prompt_key(turn)] for turn in trajectory.turns]).reshape(payoffs.shape)
            expected = tuple((policy_KA * payoffs).sum(axis=1).tolist())
            evidence[i] = Evidence(counterfactuals=Counterfactuals(expected, float(payoffs.sum(axis=0).max())))
    return evidence


def reply_probabilities(lm: LanguageModel, keys: Sequence[PromptKey]) -> dict[PromptKey, tuple[float, ...]]:
    """Return the exact probabilities of all legal ``choice`` replies, in their order, of each prompt."""
    import torch  # slow to import, and `league regret` does not need it

    probabilities: dict[PromptKey, tuple[float, ...]] = {}
    for temperature in {key.temperature for key in keys}:
        distinct = list(dict.fromkeys(key for key in keys if key.temperature == temperature))
        tries = [lm.trie(key.legal) for key in distinct]
        with torch.inference_mode():
            for chunk in lm.plan_choice([key.prompt for key in distinct], tries, MAX_TOKENS):
                nodes, first = lm.choice_logprobs(chunk, tries, temperature).nodes.tolist(), 0
                for item in chunk.items:
                    trie = tries[item]
                    item_nodes = nodes[first : first + len(trie.prefixes)]
                    first += len(trie.prefixes)
                    probabilities[distinct[item]] = tuple(
                        [exp(sum(token_logprobs(trie, item_nodes, reply))) for reply in range(len(trie.replies))]
                    )
    return probabilities


def prompt_key(turn: Turn) -> PromptKey:
    """Return what the probabilities of a turn's replies depend on. Raises ValueError for a free reply."""
    if turn.trace is None or turn.trace.mask is None:
        raise ValueError(
            f"a turn of {turn.player!r} was not sampled from the legal replies alone, so these have no probabilities"
        )
    return PromptKey(turn.trace.prompt_ids, turn.trace.mask, turn.trace.temperature)
