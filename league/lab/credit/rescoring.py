"""New credit for stored matches: by another rule, other settings or another price of a forfeit, without playing.

Matches are credited as in a run: the matches of one iteration together, in the order of iterations, and a rule keeps
its memory from one to the next. So a run with all its matches stored gets its own numbers again, bit for bit. A
critic's values and counterfactuals are not part of a match; a rule that needs them is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from arena.records import EndReason, Episode, flatten_episodes
from arena.submatches import play_again
from games.common.errors import UsageError
from games.common.section import Section
from games.registry import make_game
from games.spec import Game, Utility
from league.population.storage.sampled_matches import SampledMatch, with_credit
from learners.advantages import DEFAULT_RULE, RULES, assign_credit
from learners.advantages.rule import Need, State
from learners.trajectories import Evidence, Trajectory, return_scale, to_trajectories
from roles.conduct import settle_forfeit
from roles.role import Role, Roles

_NOT_STORED = {
    Need.VALUES: "a critic's value of each turn",
    Need.CONTRIBUTIONS: "what each turn contributed by an estimator",
    Need.COUNTERFACTUALS: "what the actions that were not played would have paid",
    Need.TREE: "whole trees of replies (matchmaking.tree)",
    Need.PREFERENCES: "which of two matches a judge prefers",
}


class Scoring(NamedTuple):
    """How matches are credited."""

    rule_for: Callable[[str, str], str]  # by game and role
    settings_of: Callable[[str], Section]  # by rule
    settings_for: Callable[[str, str], Section | None]  # by game and role; None for a role without its own
    scaled: bool  # rewards are divided by half the range of the game's returns
    price: float | None  # of a forfeit, in the game's units, for every role
    repriced: bool  # whether ``price`` replaces the price that the matches were settled by


class Rescored(NamedTuple):
    """Matches with their new credit, and the trajectories that it belongs to."""

    samples: list[SampledMatch]
    trajectories: list[Trajectory]
    advantages: list[list[float]]  # by trajectory, by turn
    settled: int  # matches whose returns changed with the price


def rescore(samples: Sequence[SampledMatch], roles: Roles, scoring: Scoring) -> Rescored:
    """Return stored matches, in the order of their iterations, with a rule's credit for their trained seats.

    If no seat of any match was in training, every seat without a fixed player counts. Raises UsageError for a rule
    that needs data that is not stored, and for a game that has no roles here.
    """
    in_training = any(any(match.request.trained) for s in samples for match in flatten_episodes([s.episode]))
    priced = [_with_price(sample, roles, scoring) for sample in samples]
    settled = sum(new.episode.returns != old.episode.returns for new, old in zip(priced, samples, strict=True))
    rescored = Rescored([], [], [], settled)
    state: State = {}
    for _, group in groupby(sorted(priced, key=_iteration), key=_iteration):
        of_iteration = list(group)
        episodes = [s.episode if in_training else _all_trained(s.episode, roles) for s in of_iteration]
        trajectories = to_trajectories(episodes, lambda game: _roles_of(roles, game), _scales(episodes, scoring.scaled))
        _check_needs({scoring.rule_for(t.game, t.role) for t in trajectories})
        evidence = [Evidence()] * len(trajectories)
        rules = scoring.rule_for, scoring.settings_of, scoring.settings_for
        credited = assign_credit(trajectories, evidence, state, *rules)
        state = credited.state
        rescored.samples.extend(with_credit(of_iteration, trajectories, credited.advantages))
        rescored.trajectories.extend(trajectories)
        rescored.advantages.extend(credited.advantages)
    return rescored


def _iteration(sample: SampledMatch) -> int:
    return sample.iteration or 0


def _roles_of(roles: Roles, game: str) -> Sequence[Role]:
    if game not in roles:
        raise UsageError(f"A match of {game} is stored, but the run whose roles are used does not have that game.")
    return roles[game]


def _all_trained(episode: Episode, roles: Roles) -> Episode:
    """Return an episode in which all seats without a fixed player are in training."""
    trained = tuple(not role.fixed for role in _roles_of(roles, episode.request.game))
    children = tuple(_all_trained(child, roles) for child in episode.children)
    return episode._replace(request=episode.request._replace(trained=trained), children=children)


def _scales(episodes: Sequence[Episode], scaled: bool) -> dict[str, float]:
    games = {match.request.game for match in flatten_episodes(episodes)}
    return {game: return_scale(make_game(game).spec) if scaled else 1.0 for game in games}


def _check_needs(rules: set[str]) -> None:
    """Raise UsageError for a rule that needs data that stored matches do not have."""
    for name in sorted(rules):
        for need in sorted(RULES[name].needs & _NOT_STORED.keys(), key=str):
            raise UsageError(
                f"The rule {name} needs {_NOT_STORED[need]}, which is not stored with matches. Choose another with "
                f"--rule, for example {DEFAULT_RULE}."
            )


def _with_price(sample: SampledMatch, roles: Roles, scoring: Scoring) -> SampledMatch:
    """Return a match settled by another price of its forfeit, if there is one."""
    if not scoring.repriced or not any(m.end is EndReason.FORFEIT for m in flatten_episodes([sample.episode])):
        return sample
    return sample._replace(episode=_settled_again(sample.episode, roles, scoring.price))


def _settled_again(episode: Episode, roles: Roles, price: float | None) -> Episode:
    """Return a forfeited match with the returns under another price; the change is in each seat's last turn."""
    children = tuple(_settled_again(child, roles, price) for child in episode.children)
    if episode.end is not EndReason.FORFEIT or episode.offender is None:
        return episode._replace(children=children)
    role = _roles_of(roles, episode.request.game)[episode.offender]
    conduct = role.conduct.model_copy(update={"price": price})
    settled = settle_forfeit(_game_before(episode), episode.offender, conduct)
    turns = list(episode.turns)
    for seat, (after, before) in enumerate(zip(settled, episode.returns, strict=True)):
        last = next((i for i in reversed(range(len(turns))) if turns[i].seat == seat), None)
        if last is not None and after != before:
            turns[last] = turns[last]._replace(reward=turns[last].reward + (after - before))
    return episode._replace(turns=tuple(turns), returns=settled, children=children)


def _game_before(episode: Episode) -> Game:
    """Return a match where it was forfeited, by playing its actions again; unplayed where its position does not matter.

    Raises UsageError if it matters and the match opened submatches, which are not replayed.
    """
    game = make_game(episode.request.game)
    if game.spec.utility in (Utility.ZERO_SUM, Utility.IDENTICAL):
        return game
    if episode.children:
        raise UsageError(
            f"A match of {game.spec.name} with submatches was forfeited: what it had paid until then cannot be "
            "recovered from its record, so its price cannot be changed."
        )
    play_again(game, episode)
    return game
