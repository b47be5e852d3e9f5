"""Counterfactual payoffs in repeated matrix games: every action's payoff in each round, others' actions held fixed.

This is full information in the sense of online learning. Regret (``evaluation.regret``) and credit rules with
the need ``counterfactuals`` need the payoffs of the actions that were not taken, and only the stage game knows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.lm.chunks import Tokens
from arena.records import Turn
from games.common.errors import UsageError
from games.openspiel.repeated import Floats, StageGame, is_repeated, stage_game
from league.config.context import RunContext
from league.training.evidence.source import AfterPlay, Column, Source
from learners.advantages.rule import CreditFacts
from learners.trajectories import Counterfactuals
from roles.role import ReplyForm
from roles.trie import token_logprobs

if TYPE_CHECKING:
    from arena.lm.language_model import LanguageModel

MAX_TOKENS = 8192  # padded tokens in one forward pass


class SeatRounds(NamedTuple):
    """One seat's completed rounds in one match."""

    actions: NDArray[np.intp]  # the seat's actions, as indices  # [T]
    payoffs: Floats  # what each of its actions would have paid  # [T, A]


class PromptKey(NamedTuple):
    """All that the probabilities of a policy's replies depend on, besides its weights."""

    prompt: Tokens
    legal: tuple[str, ...]
    temperature: float


def seat_rounds(stage: StageGame, turns: Sequence[Turn], seat: int) -> SeatRounds:
    """Return a seat's rounds in a match, given the turns of all seats. A round that a forfeit cut short is left out.

    Illegal replies are not actions, so they are skipped.
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


def counterfactuals(context: RunContext, play: AfterPlay) -> Column:
    """Return every action's payoff in each turn, with the other seats' actions held fixed.

    The trajectories' returns were divided by the run's scales. In a round that was not completed every action pays the
    reward of that turn, so nothing is learned from it.
    """
    trajectories = play.trajectories
    column: list[Counterfactuals | None] = [None] * len(trajectories)
    for name, policy in play.policies.items():
        indices = [i for i, trajectory in enumerate(trajectories) if trajectory.policy == name]
        turns = [turn for i in indices for turn in trajectories[i].turns]
        probabilities = reply_probabilities(policy.lm, [prompt_key(turn) for turn in turns]) if turns else {}
        for i in indices:
            trajectory = trajectories[i]
            rounds = seat_rounds(stage_game(trajectory.game), play.matches[trajectory.match].turns, trajectory.seat)
            payoffs = np.repeat(np.array(trajectory.rewards)[:, None], rounds.payoffs.shape[1], axis=1)  # [K, A]
            payoffs[: len(rounds.payoffs)] = rounds.payoffs / context.scales[trajectory.game]
            policy_KA = np.array([probabilities[prompt_key(turn)] for turn in trajectory.turns]).reshape(payoffs.shape)
            expected = tuple((policy_KA * payoffs).sum(axis=1).tolist())
            column[i] = Counterfactuals(expected, float(payoffs.sum(axis=0).max()))
    return column


def check(rule: str, facts: CreditFacts) -> None:
    """Raise UsageError for a game that is not a repeated matrix game, and for replies without probabilities."""
    game = facts.game.name
    if not is_repeated(game):
        raise UsageError(
            f"Credit rule {rule!r} uses the payoffs of actions not taken, so it is only for repeated matrix "
            f"games, not for {game}. Set another credit.rule for it."
        )
    free = [role.name for role in facts.credited if role.reply is not ReplyForm.CHOICE]
    if free:
        raise UsageError(
            f"Credit rule {rule!r} needs the probability of every reply, but {', '.join(sorted(free))} of {game} "
            "answers in free text. Set roles.reply = 'choice', or another credit.rule."
        )


def reply_probabilities(lm: LanguageModel, keys: Sequence[PromptKey]) -> dict[PromptKey, tuple[float, ...]]:
    """Return the exact probabilities of all legal ``choice`` replies, in their order, of each prompt."""
    import torch  # slow to import, and `league lab regret` does not need it

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
                    first += len(trie.prefixes) or 1  # a forced reply has a node whose logits do not matter
                    probabilities[distinct[item]] = tuple(
                        [exp(sum(token_logprobs(trie, item_nodes, reply))) for reply in range(len(trie.replies))]
                    )
    return probabilities


def prompt_key(turn: Turn) -> PromptKey:
    """Return the key of a turn's reply probabilities. Raises ValueError for a free reply."""
    if turn.trace is None or turn.trace.mask is None:
        raise ValueError(
            f"a turn of {turn.player!r} was not sampled from the legal replies alone, so these have no probabilities"
        )
    return PromptKey(turn.trace.prompt_ids, turn.trace.mask, turn.trace.temperature)


SOURCE = Source(counterfactuals, check=check)
