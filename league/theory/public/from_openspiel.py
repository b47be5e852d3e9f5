"""OpenSpiel games as arrays: the large ones that are written here, and trees found by playing every deal."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from games.common.errors import UsageError
from games.openspiel.game import load_pyspiel
from league.theory.public import dark_boards, liars_dice
from league.theory.public.dark_boards import DarkBoard, dark_board, shape_of
from league.theory.public.goofspiel import Goofspiel, goofspiel_of
from league.theory.public.tree import CHANCE, MOST_STATES, NOWHERE, PublicTree

LargeGame = PublicTree | Goofspiel | DarkBoard
MANY_CELLS = 7  # of a dark board, from which tables of the usual kind are too large
MOST_ABRUPT = 8  # cells of an abrupt one, whose walk with nine takes hours
Deals = dict[tuple[int, int], Any]  # by hands: the state that this deal has come to


def states_of(game: str) -> int | None:
    """Return how many information states a game has that is written here; None for any other."""
    if (bids := goofspiel_of(game)) is not None:
        return bids.information_states
    if (board := _large_board(game)) is not None:
        return board.information_states
    return liars_dice.states_of(game)


def obstacle(game: str) -> str | None:
    """Return why a game that looks like one of these is none, and what to play instead; None for any other."""
    shape = shape_of(game)
    if shape is None or shape.cells < MANY_CELLS:
        return None
    if not dark_boards.is_compiled():
        return dark_boards.NO_NUMBA.format(game)
    instead = "Take phantom_ttt, or dark_hex(num_rows=2,num_cols=4,gameversion=adh)."
    if shape.abrupt and shape.cells > MOST_ABRUPT:
        return f"{game} has too many orders of tries to be counted out: a turn ends where a try fails. {instead}"
    if shape.tells_tries:
        return (
            f"OpenSpiel's text of {game} tells a seat how often the other failed, so a model knows more there than the "
            f"published game reveals, and its states are not counted out. {instead}"
        )
    return None


def _large_board(game: str) -> DarkBoard | None:
    shape = shape_of(game)
    return None if shape is None or shape.cells < MANY_CELLS or obstacle(game) else dark_board(game)


def large_game(game: str, most: int = MOST_STATES) -> LargeGame | None:
    """Return a game implemented here; None for any other, and for one that has more than ``most`` states."""
    states = states_of(game)
    if states is None or states > most:
        return None
    return goofspiel_of(game) or _large_board(game) or liars_dice.tree_of(game)


def public_tree(game: str, limit: int = 1_000_000) -> PublicTree:
    """Return the tree of a two-seat zero-sum game that first deals each seat a hand and then has only public moves.

    Raises UsageError for any other game: one in which a seat can tell apart what this tree calls one position, or
    cannot tell apart what it calls two, or with more than ``limit`` positions times deals.
    """
    hands, deals, chances = dealt(game)
    parents, actions, seats, endings, levels = [NOWHERE], [NOWHERE], list[int](), list[int](), [0, 1]
    paid: list[tuple[Any, Any]] = []
    level, visited, seen = [(deals, chances)], 0, set[tuple[int, str]]()
    while level:
        below = []
        for offset, (states, weights) in enumerate(level):
            visited += len(states)
            if visited > limit:
                raise UsageError(f"{game} has more than {limit:,} public positions times deals.")
            seat, children = _moves(game, states, weights)
            if seat != CHANCE and children:
                shown = {(seat, _state_of(state, seat)) for state in states.values()}
                if not seen.isdisjoint(shown):
                    raise UsageError(f"{game} does not have public moves only: a seat does not see every move.")
                seen |= shown
            seats.append(seat)
            endings.append(NOWHERE if children else len(paid))
            if not children:
                paid.append(_ending(states, weights, (len(hands[0]), len(hands[1]))))
            for action, child in sorted(children.items()):
                parents.append(levels[-2] + offset)
                actions.append(action)
                below.append(child)
        levels.append(levels[-1] + len(below))
        level = below
    numbered = [np.array(part, dtype=np.intp) for part in (parents, actions, seats, endings, levels[:-1])]
    return PublicTree(
        game,
        hands,
        parent=numbered[0],
        action=numbered[1],
        seat=numbered[2],
        ending=numbered[3],
        levels=numbered[4],
        chances=np.array([chances for chances, _ in paid]),
        returns=np.array([returned for _, returned in paid]),
    )


def dealt(game: str) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], Deals, dict[tuple[int, int], float]]:
    """Return the hands of each seat, and of each pair of them the state and its chance."""
    loaded = load_pyspiel(game)
    if loaded.num_players() != 2 or str(loaded.get_type().utility) != "Utility.ZERO_SUM":
        raise UsageError(f"{game}: a public tree needs a zero-sum game of two seats.")
    found: dict[tuple[str, str], list[tuple[Any, float]]] = defaultdict(list)
    waiting = [(loaded.new_initial_state(), 1.0)]
    while waiting:
        state, chance = waiting.pop()
        if state.is_chance_node():
            waiting += [(state.child(outcome), chance * p) for outcome, p in state.chance_outcomes()]
        else:
            found[_state_of(state, 0), _state_of(state, 1)].append((state, chance))
    names = tuple(tuple(sorted({key[seat] for key in found})) for seat in (0, 1))
    places = {key: (names[0].index(key[0]), names[1].index(key[1])) for key in found}
    deals = {places[key]: states[0][0] for key, states in found.items()}
    return (names[0], names[1]), deals, {places[key]: sum(p for _, p in states) for key, states in found.items()}


def _moves(game: str, states: Deals, weights: dict[tuple[int, int], float]) -> tuple[int, dict[int, Any]]:
    """Return who moves in a public position, and by move the deals and chances that it leads to."""
    facts = {(state.current_player(), tuple(state.legal_actions())) for state in states.values()}
    if any(state.is_chance_node() for state in states.values()):
        children: dict[int, Any] = defaultdict(lambda: ({}, {}))
        for hands, state in states.items():
            for outcome, chance in state.chance_outcomes():
                children[outcome][0][hands] = state.child(outcome)
                children[outcome][1][hands] = weights[hands] * chance
        return CHANCE, dict(children)
    if len(facts) != 1:
        raise UsageError(f"{game} does not have public moves only: who moves, or what is legal, depends on the hands.")
    [(seat, legal)] = facts
    if seat < 0:
        return 0, {}
    for known in (0, 1):  # what a seat is shown depends on its own hand and on the position alone
        shown = {(hands[known], _state_of(state, known)) for hands, state in states.items()}
        if len(shown) != len({hand for hand, _ in shown}) or len({text for _, text in shown}) != len(shown):
            raise UsageError(f"{game} does not have public moves only: a seat sees more than its hand and the moves.")
    return seat, {action: ({h: s.child(action) for h, s in states.items()}, weights) for action in legal}


def _ending(states: Deals, weights: dict[tuple[int, int], float], shape: tuple[int, int]) -> tuple[Any, Any]:
    """Return the chance of each pair of hands in a position where the match is over, and seat 0's return."""
    chances, returns = np.zeros(shape), np.zeros(shape)
    for hands, state in states.items():
        chances[hands], returns[hands] = weights[hands], state.returns()[0]
    return chances, returns


def _state_of(state: Any, seat: int) -> str:
    return str(state.information_state_string(seat))
