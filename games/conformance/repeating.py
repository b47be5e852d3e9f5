"""A position stays what it is: looked at twice, played again, copied, and sent to another process."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Iterator, Sequence

import numpy as np

from games.conformance.trial import Fault, Position, Trial, difference, position_of, raised, random_action
from games.spec import Game


def steady(trial: Trial) -> None:
    """Look at each position twice."""
    game = trial.make()
    for seed in trial.few:
        for match in trial.positions(game, seed):
            first = position_of(match)
            second = position_of(match)
            trial.expect(first == second, f"two looks at the same position differ in {difference(first, second)}")


def seeds(trial: Trial) -> None:
    """Play each match three times: again, and in a new object, while others draw from the process's generators."""
    for seed in trial.few:
        game = trial.make()
        random.seed(5)
        np.random.seed(5)
        before = random.getstate(), repr(np.random.get_state(legacy=False))
        first = [position_of(match) for match in trial.positions(game, seed)]
        played, after = trial.played, (random.getstate(), repr(np.random.get_state(legacy=False)))
        trial.expect(before == after, "it draws from, or seeds, the process's own generators")
        for again, how in ((game, "after a reset"), (trial.make(), "in a new object")):
            for number, position in enumerate(_followed(trial, again, seed, played)):
                same = number < len(first) and position == first[number]
                trial.expect(
                    same, f"the same seed and actions give another match {how}: {_changed(first, number, position)}"
                )


def _followed(trial: Trial, game: Game, seed: int, played: list[str]) -> Iterator[Position]:
    """Yield the positions of a match that is played again, while the process's generators are disturbed."""
    for turn, match in enumerate(trial.positions(game, seed, played)):
        random.seed(turn)
        np.random.seed(turn)
        position = position_of(match)
        yield position
        if turn == len(played):
            return


def _changed(first: Sequence[Position], number: int, position: Position) -> str:
    if number >= len(first):
        return "it continues where the first was over"
    return difference(first[number], position)


def _copy_moves_apart(trial: Trial) -> None:
    """Copy each position, then move the match and its copy one after the other."""
    for seed in trial.few:
        game, rng = trial.make(), random.Random(seed)
        for match in trial.positions(game, seed):
            if match.to_act() is None:
                continue
            here, twin, third = position_of(match), match.copy(), match.copy()
            action = random_action(match, rng)
            seen = position_of(twin)
            trial.expect(seen == here, f"a copy does not have the position of its match: {difference(here, seen)}")
            twin.apply(action)
            trial.answer(twin)
            seen = position_of(match)
            trial.expect(seen == here, f"a match changes with its copy: {difference(here, seen)} after {action!r}")
            moved = position_of(twin)
            third.apply(action)
            trial.answer(third)
            seen = position_of(third)
            same = f"two copies diverge on the same action {action!r}: {difference(moved, seen)}"
            trial.expect(seen == moved, same)


def _copies_stay(trial: Trial) -> None:
    """Keep copies of all positions of a match, and look at them when it is over."""
    for seed in trial.few:
        kept = list[tuple[Game, Position, int]]()
        for match in trial.positions(trial.make(), seed):
            kept.append((match.copy(), position_of(match), len(trial.played)))
        for twin, then, turn in kept[:-1]:
            now = position_of(twin)
            fault = f"a copy made at turn {turn} changes with its match: {difference(then, now)}"
            trial.expect(now == then, fault)


def copies(trial: Trial) -> None:
    """Check copies that are moved at once, and copies that are kept until the match is over."""
    _copy_moves_apart(trial)
    _copies_stay(trial)


def stored(trial: Trial) -> None:
    """Send each match through pickle, at its start and in its middle."""
    for seed in trial.seeds[:3]:
        for match in trial.positions(trial.make(), seed):
            if len(trial.played) > 2:
                break
            try:
                twin = pickle.loads(pickle.dumps(match))  # noqa: S301  # what was written here
                deep = copy.deepcopy(match)
            except Exception as error:  # noqa: BLE001  # of code from outside
                raise Fault(f"{trial.where}a match cannot be pickled or deep-copied: {raised(error)}") from None
            for other in (twin, deep):
                here, seen = position_of(match), position_of(other)
                fault = f"a match that was pickled or deep-copied has another position: {difference(here, seen)}"
                trial.expect(here == seen, fault)
