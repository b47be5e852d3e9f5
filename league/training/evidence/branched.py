"""An iteration's matches, forked at their branch points within the budget of replies (``[branching]``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import TYPE_CHECKING

from arena.records import Episode, MatchRequest, Turn
from arena.submatches import begin_match
from games.registry import make_game
from league.config.checks.features import most_retries, most_turns
from league.config.context import RunContext
from league.population.matchmaking.branching import (
    BRANCHING_RULES,
    BranchPoint,
    Entropies,
    ForkLimits,
    branch_points,
    fork_requests,
)
from league.training.checkpoints.run_state import RunState
from league.training.evidence.counterfactuals import PromptKey, prompt_key, reply_probabilities

if TYPE_CHECKING:
    from learners.update.policy import Policy

PlayWhole = Callable[[Sequence[MatchRequest]], list[Episode]]


def with_forks(context: RunContext, state: RunState, play: PlayWhole, episodes: list[Episode]) -> list[Episode]:
    """Return an iteration's matches, followed by their forks; unchanged without a rule.

    The policies of ``state`` have the weights that the matches were played with.
    """
    settings = context.config.branching
    if settings.rule is None:
        return episodes
    by_game: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        by_game[episode.request.game].append(episode)
    rule, entropies = BRANCHING_RULES[settings.rule].make, entropies_of(state.policies)

    def scores(scored: Sequence[Episode], others: Sequence[Episode]) -> list[list[float]]:
        return rule(scored, others, entropies, settings)

    points: list[BranchPoint] = []
    for game, played in by_game.items():
        roles = context.roles[game]
        turns, retries = most_turns(context.all_specs[game], roles), most_retries(roles)
        limits = ForkLimits(settings.replies, settings.width, turns, retries)
        points += branch_points(played, scores, limits)
    requests = fork_requests(points, settings.width, context.config.seed, state.next_match)
    state.next_match += len(requests)
    forks = play(requests) if requests else []
    origins = [point for point in points for _ in range(settings.width)]
    return episodes + [_after_fork(fork, *origin) for fork, origin in zip(forks, origins, strict=True)]


def entropies_of(policies: Mapping[str, Policy]) -> Entropies:
    """Return a function that gives the policy's entropy at turns, in nats: exact for ``choice`` replies.

    For a ``free`` reply it is an estimate, the mean surprisal of its tokens; for a player without a policy, 0.
    Chances that one call has computed are kept for the next one.
    """
    known: dict[str, dict[PromptKey, tuple[float, ...]]] = defaultdict(dict)

    def entropies(turns: Sequence[Turn]) -> list[float]:
        exact: dict[str, list[Turn]] = defaultdict(list)
        for turn in turns:
            if turn.player in policies and turn.trace is not None and turn.trace.mask is not None:
                exact[turn.player].append(turn)
        for name, policy_turns in exact.items():
            prompts = [key for turn in policy_turns if (key := prompt_key(turn)) not in known[name]]
            if prompts:
                known[name] |= reply_probabilities(policies[name].lm, prompts)
        return [_entropy(turn, known[turn.player]) for turn in turns]

    return entropies


def _entropy(turn: Turn, probabilities: Mapping[PromptKey, Sequence[float]]) -> float:
    if turn.trace is None:
        return 0.0
    if turn.trace.mask is None or not probabilities:
        return -sum(turn.trace.logprobs) / max(len(turn.trace.logprobs), 1)
    return -sum(p * log(p) for p in probabilities[prompt_key(turn)] if p > 0.0)


def _after_fork(fork: Episode, origin: Episode, fork_turn: int) -> Episode:
    """Return a fork whose turns have only the rewards after its branch point, as in the match that it comes from.

    A seat that had a turn before the fork was paid for it there. Its return is still the whole match's.
    """
    game = make_game(fork.request.game)
    begin_match(game, fork.request)
    before_fork, turns = game.returns(), list(fork.turns)
    for seat in {turn.seat for turn in origin.turns[:fork_turn]}:
        first = next((index for index, turn in enumerate(turns) if turn.seat == seat), None)
        if first is not None:
            turns[first] = turns[first]._replace(reward=turns[first].reward - before_fork[seat])
    return fork._replace(turns=tuple(turns))
