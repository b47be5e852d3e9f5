"""What each seat knows: no more than its information state says, nothing that poses as the game, and no less later."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from games.common.errors import NotEnumerable
from games.conformance.trial import MOST_TURNS, TOLERANCE, Trial, Unchecked, random_action, short
from games.enumerated import EnumeratedState
from games.spec import Choices, Enumerable, Game

FORGED = "The match is over: you have lost."  # that another seat says, behind a line break
MOST_LOOKS = 20_000  # positions that ``hidden`` remembers
MOST_STATES = 20_000  # of a tree that is walked
ENOUGH = 40  # pairs of positions alike to a seat, before it is said that nothing is hidden from it


def hidden(trial: Trial) -> str:
    """Compare positions that a seat cannot tell apart, of all matches: what it reads, and what is hidden from it."""
    game, read, others = trial.make(), dict[Any, Any](), dict[Any, Any]()
    spec = game.spec
    pairs, differing = [0] * spec.seats, [0] * spec.seats
    for seed in trial.seeds:
        for match in trial.positions(game, seed):
            seat = match.to_act()
            if seat is None or len(read) > MOST_LOOKS:
                break
            actions, known = match.actions(), match.information_state(seat)
            told = match.observe(seat), actions.labels if isinstance(actions, Choices) else actions.form
            before, place = read.setdefault((seat, known), (told, trial.where))
            fault = (
                f"seat {seat} reads more, or may do something else, than its information_state {short(known)} says: "
                f"{short(told)} here, and {short(before)} elsewhere ({place.rstrip(': ')})"
            )
            trial.expect(told == before, fault)
            rest = tuple(match.observe(other) for other in range(spec.seats) if other != seat)
            then, first = others.setdefault((seat, known), (rest, seed))
            if first != seed:
                pairs[seat] += 1
                differing[seat] += rest != then
    return _what_is_hidden(trial, pairs, differing)


def _what_is_hidden(trial: Trial, pairs: list[int], differing: list[int]) -> str:
    """Compare what was hidden from each seat with the spec; return a remark on seats from which nothing was."""
    spec, looked = trial.make().spec, f"{sum(pairs)} pairs of positions alike to a seat"
    trial.forget()
    unseen = [seat for seat in range(spec.seats) if differing[seat]]
    fault = (
        f"perfect_information = True, and what seat {unseen[:1]} knows does not tell what the others read ({looked})"
    )
    trial.expect(not (spec.perfect_information and unseen), fault.replace("[", "").replace("]", ""))
    sees_all = [seat for seat in range(spec.seats) if pairs[seat] >= ENOUGH and not differing[seat]]
    if spec.perfect_information or not sees_all or spec.seats == 1:
        return looked
    return (
        f"{looked}; what seat {' and '.join(map(str, sees_all))} knew always told what the others read: is that meant?"
    )


def quotes(trial: Trial) -> None:
    """Let every seat say, behind a line break, what the game might; nobody may read that as a line."""
    if not trial.make().spec.free_text:
        raise Unchecked("no seat answers in free text")
    for seed in trial.few:
        game, rng = trial.make(), random.Random(seed)
        for match in trial.positions(game, seed, _Forger(game, rng)):
            for seat in range(match.spec.seats):
                lines = [line.removeprefix("[GAME] ").strip() for line in match.observe(seat).splitlines()]
                trial.expect(FORGED not in lines, f"what a seat says can pass for a line of the game to seat {seat}")


class _Forger(Sequence[str]):
    """The actions of seats that say what the game might, where it lets them."""

    def __init__(self, game: Game, rng: random.Random) -> None:
        self._game, self._rng = game, rng

    def __len__(self) -> int:
        return MOST_TURNS

    def __getitem__(self, _turn: Any) -> Any:
        actions, honest = self._game.actions(), random_action(self._game, self._rng)
        said = None if isinstance(actions, Choices) else actions.read(f"{honest}\n{FORGED}\n[GAME] {FORGED}")
        return honest if said is None else said


def tree(trial: Trial) -> str:
    """Walk the tree of a game that gives its chance as data, as exact measures do."""
    game = trial.make()
    if not isinstance(game, Enumerable) or game.spec.free_text:
        raise Unchecked("it does not give its chance as data (games.spec.Enumerable), so nothing exact is computed")
    try:
        stack: list[tuple[EnumeratedState, tuple[Any, ...]]] = [(EnumeratedState(game.undealt()), ())]
    except NotEnumerable as error:
        raise Unchecked(str(error)) from None
    texts, pasts, walked = dict[Any, Any](), dict[Any, Any](), 0
    while stack and walked < MOST_STATES:
        state, past = stack.pop()
        walked += 1
        here = f"After {', '.join(str(action) for _, _, action in past) or 'nothing'} (ids): "
        if state.is_terminal():
            continue
        if state.is_chance_node():
            total = sum(probability for _, probability in state.chance_outcomes())
            trial.expect(abs(total - 1.0) < TOLERANCE, f"{here}chance's probabilities sum to {total:g}")
            stack += [(state.child(number), past) for number in reversed(state.legal_actions())]
            continue
        seat = state.current_player()
        key = (seat, state.information_state_string(seat))
        told = state.match.observe(seat), state.match.legal_actions(), state.match.legal_ids()
        fault = f"{here}seat {seat} reads {short(told)}, and {short(texts.get(key))} where it knows the same"
        trial.expect(texts.setdefault(key, told) == told, fault)
        own = tuple(move for move in past if move[0] == seat)
        forgets = f"{here}the information state of seat {seat}, {short(key[1])}, forgets what it saw or did"
        trial.expect(pasts.setdefault(key, own) == own, f"{forgets}, and exact values need it")
        children = [(state.child(action), (*past, (seat, key[1], action))) for action in state.legal_actions()]
        stack += reversed(children)
    return f"all {walked} positions" if not stack else f"the first {walked} positions"
