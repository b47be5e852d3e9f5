"""Models of the other player: predictions from a player's own observations, and playing by that belief.

The player meets each of the known types on the same deals in both seats. From some deals, predictors learn which type
the other is and what it does next at each of the player's turns; they are tested on the other deals. In a small game
the results include a Bayesian's exact accuracy and the value of play by a belief: the best response to Bayes' belief,
to the probe's belief, and to the type itself if it were known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from arena.records import Episode
from games.common.errors import UsageError
from games.registry import make_game
from league.lab.comparisons.hidden_states import HoldsModels, hidden_states, prompts_everywhere, prompts_in, readable
from league.lab.opponents.predictors import (
    HELD_OUT,
    AnswerProbe,
    PredictionAccuracy,
    States,
    accuracy,
    by_majority,
    by_probe,
    by_table,
    split,
    train_probe,
)
from league.lab.opponents.questions import AskedTurn, Question, Seen, asked_in
from league.population.evaluation.head_to_head import A, play_scheduled, schedule
from league.population.players.player import Player
from league.theory.bayes_accuracy import BayesAccuracy, bayes_accuracies
from league.theory.beliefs import Beliefs, best_response_to, exact_beliefs, two_seat_form
from league.theory.exact.exploitability import PolicyTable, best_response_values, head_to_head
from league.theory.exact.game_value import nash_equilibrium
from league.theory.exact.states import Key


class Prediction(NamedTuple):
    """How often predictors of one question are right."""

    turns: tuple[int, int]  # learned from, and held out
    answers: int  # how many there are: a uniform guess is right once in this many times
    probe: PredictionAccuracy | None  # None: the player has no hidden states that can be read
    table: PredictionAccuracy
    majority: PredictionAccuracy
    bayes: BayesAccuracy | None  # None: the game cannot be solved exactly


class PlayValues(NamedTuple):
    """Exact mean returns a match over both seats, with types met equally often, in the game's units."""

    itself: float
    equilibrium: float | None  # None: none is computed, as in a game that is not zero-sum
    by_probe: float | None  # None: there is no probe
    by_belief: float
    knowing: float  # the best response to the type, known before the match


class OpponentModels(NamedTuple):
    """How well the other player can be modelled."""

    type: Prediction
    action: Prediction | None  # None: the other never chooses from a list after one of the player's turns
    play: PlayValues | None  # None: the game cannot be solved exactly
    why_not: str  # why it cannot; "" if it can


class _Played(NamedTuple):
    """The player's turns in all its matches."""

    asked: Mapping[Question, Sequence[AskedTurn]]
    prompts: Mapping[Seen, tuple[int, ...]]


def measure_opponents(
    player: Player,
    types: Sequence[Player],
    matches: int,
    seed: int,
    on_episode: Callable[[Episode], None] | None = None,
    reader: Player | None = None,
) -> OpponentModels:
    """Play at least ``matches`` matches with each type, and return how well the types can be modelled.

    ``reader``, another snapshot of the player's run, reads what the player reads: then its hidden states are probed.
    Raises UsageError unless the game has two seats, for players that do not fit, and for too few matches.
    """
    _check(player, types)
    played = _play(player, types, matches, seed, on_episode)
    reader = reader or player
    engine = readable(reader)
    states = None if engine is None else hidden_states(reader, engine, played.prompts)
    tables, why_not = _tables(player, types)
    bayes = bayes_accuracies(tables[0], tables[1:]) if tables else None
    kind, probe = _predict(played.asked[Question.TYPE], states, bayes.type if bayes else None)
    action, _ = _predict(played.asked[Question.ACTION], states, bayes.action if bayes else None)
    if kind is None:
        raise UsageError(f"{player.label} acted in too few matches to learn anything from. Raise --matches.")
    play = None
    if tables:
        believed = probed_beliefs(reader, engine, probe, types) if engine and probe else None
        play = play_values(tables[0], tables[1:], believed)
    return OpponentModels(kind, action, play, why_not)


def play_values(
    policy: PolicyTable, types: Sequence[PolicyTable], believed: Mapping[Key, Sequence[float]] | None
) -> PlayValues:
    """Return the value of play by a belief; ``believed`` is a probe's belief in both seats, None if there is none."""
    prior = [1.0 / len(types)] * len(types)
    equilibrium = nash_equilibrium(make_game(policy.game).spec)

    def responding(beliefs_of: Callable[[int], Beliefs]) -> float:
        return fmean([value for seat in (0, 1) for value in best_response_to(types, seat, beliefs_of(seat)).values])

    return PlayValues(
        itself=_mean_return(policy, types),
        equilibrium=None if equilibrium is None else _mean_return(equilibrium, types),
        by_probe=None if believed is None else responding(lambda _: believed),
        by_belief=responding(lambda seat: exact_beliefs(types, seat, prior)),
        knowing=fmean([value for table in types for value in best_response_values(table)]),
    )


def probed_beliefs(
    reader: Player, engine: HoldsModels, probe: AnswerProbe, types: Sequence[Player]
) -> dict[Key, tuple[float, ...]]:
    """Return the probe's belief at every information state, over types in the order of ``types``."""
    states = hidden_states(reader, engine, prompts_everywhere(reader, engine))
    order = [probe.answers.index(kind.label) for kind in types]
    beliefs = probe.beliefs(np.stack([*states.values()]))[:, order]
    return {key: tuple(row) for key, row in zip(states, beliefs.tolist(), strict=True)}


def _play(
    player: Player,
    types: Sequence[Player],
    matches: int,
    seed: int,
    on_episode: Callable[[Episode], None] | None,
) -> _Played:
    """Play the same deals with each type, in both seats. Raises UsageError for too few."""
    turns: dict[Question, list[AskedTurn]] = {question: [] for question in Question}
    prompts: dict[Seen, tuple[int, ...]] = {}
    for kind in types:
        scheduled = schedule((player, kind), matches, seed)
        if scheduled[-1].deal + 1 < HELD_OUT:
            raise UsageError(
                f"--matches {matches}: one deal in {HELD_OUT}, played in both seats, is held out, so at "
                f"least {2 * HELD_OUT} matches are needed."
            )
        for match, episode in zip(scheduled, play_scheduled((player, kind), scheduled, on_episode), strict=True):
            seat = match.seating.index(A)
            prompts |= prompts_in(episode, seat)
            for question, turn in asked_in(episode, seat, match.deal, kind.label):
                turns[question].append(turn)
    return _Played(turns, prompts)


def _predict(
    turns: Sequence[AskedTurn], states: States | None, bayes: BayesAccuracy | None
) -> tuple[Prediction | None, AnswerProbe | None]:
    """Return how often the predictors of a question are right, and the probe; None where nothing was asked."""
    learned, tried = split(turns)
    if not learned or not tried:
        return None, None
    probe = None if states is None else train_probe(learned, states)
    prediction = Prediction(
        turns=(len(learned), len(tried)),
        answers=len({turn.answer for turn in learned}),
        probe=None if probe is None or states is None else accuracy(by_probe(probe, tried, states), tried),
        table=accuracy(by_table(learned, tried), tried),
        majority=accuracy(by_majority(learned, tried), tried),
        bayes=bayes,
    )
    return prediction, probe


def _tables(player: Player, types: Sequence[Player]) -> tuple[list[PolicyTable], str]:
    """Return the policies of the player and of each type; none, and the reason, where they cannot be tabulated."""
    try:
        two_seat_form(player.spec.name)
        return [each.tabulate().table for each in (player, *types)], ""
    except UsageError as error:
        return [], str(error)


def _mean_return(table: PolicyTable, types: Sequence[PolicyTable]) -> float:
    """Return a policy's mean return with the types, over both seats."""
    return fmean(
        [value for kind in types for value in (head_to_head([table, kind])[0], head_to_head([kind, table])[1])]
    )


def _check(player: Player, types: Sequence[Player]) -> None:
    """Raise UsageError unless two types or more, of different names, can be met in a game of two seats."""
    spec, labels = player.spec, [kind.label for kind in types]
    if spec.seats != 2:
        raise UsageError(f"Opponent models are for games of two seats; {spec.alias} has {spec.seats}.")
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise UsageError(
            f"--against {' '.join(labels)}: name two or more different players for {player.label} to tell apart."
        )
    if any(len(members) > 1 for members in player.members):
        raise UsageError(
            f"{player.label} is a mixture, drawn again for each match, so it has no hidden states. Name one "
            "player, for example a snapshot of it."
        )
