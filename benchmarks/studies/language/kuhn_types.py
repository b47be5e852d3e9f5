"""Six types of players of repeated Kuhn poker, and the Bayesian who knows them all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from arena.records import Reply, ReplyRequest
from games.native.repeated_kuhn import BET, PASS, RANKS, Hand, RepeatedKuhn

# By type, the probability of a bet by the cards J, Q and K: as the first move, after a pass, after a bet.
TYPES: dict[str, tuple[tuple[float, float, float], ...]] = {
    "scripted:good": ((0.0, 0.0, 0.0), (1 / 3, 0.0, 1.0), (0.0, 1 / 3, 1.0)),
    "scripted:poor": ((1.0, 1.0, 1.0),) * 3,
    "scripted:timid": ((0.0, 0.0, 0.0),) * 3,
    "scripted:tight": ((0.0, 0.0, 1.0),) * 3,
    "scripted:bluffer": ((1.0, 0.0, 1.0), (1.0, 0.0, 1.0), (0.0, 0.0, 1.0)),
    "random": ((0.5, 0.5, 0.5),) * 3,
}
Belief = tuple[tuple[str, str, float], ...]  # (type, the other's card, weight)


def chance_of(kind: str, card: str, moves: Sequence[str], move: str) -> float:
    """Return the probability of a type's move."""
    situation = 0 if not moves else 2 if moves[-1] == BET else 1
    bets = TYPES[kind][situation][RANKS.index(card)]
    return bets if move == BET else 1.0 - bets


class TypePlayer:
    """Plays one type."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request."""
        return [Reply(self._move(request)) for request in requests]

    def _move(self, request: ReplyRequest) -> str:
        hand = _hands(request)[-1]
        chance = chance_of(self._kind, hand.cards[len(hand.moves) % 2], hand.moves, BET)
        return BET if request.rng.random() < chance else PASS


class Bayesian:
    """Plays each hand's best response to its exact belief about the other's type and card.

    It does not give up chips of one hand to learn for the next. With a ``known`` type it is the best response to that.
    """

    def __init__(self, known: str = "") -> None:
        self._known = known

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request."""
        return [Reply(self._move(request)) for request in requests]

    def _move(self, request: ReplyRequest) -> str:
        hands, seat = _hands(request), request.role.seat
        weights = {self._known: 1.0} if self._known else dict.fromkeys(TYPES, 1.0)
        for number, hand in enumerate(hands[:-1]):
            place = (seat + number) % 2
            cards = _possible(hand, place, shown=hand.shown)
            weights = {k: w * sum(_likelihood(k, c, hand.moves, place) for c in cards) for k, w in weights.items()}
            total = sum(weights.values())
            weights = {kind: weight / total for kind, weight in weights.items()}
        hand, place = hands[-1], (seat + len(hands) - 1) % 2
        belief = tuple(
            (kind, card, weight * _likelihood(kind, card, hand.moves, place))
            for kind, weight in weights.items()
            for card in _possible(hand, place, shown=False)
        )
        worth = {move: _worth(hand.cards[place], place, (*hand.moves, move), belief) for move in (PASS, BET)}
        return max(worth, key=lambda move: worth[move])


def _hands(request: ReplyRequest) -> tuple[Hand, ...]:
    assert isinstance(request.game, RepeatedKuhn)
    return request.game.hands


def _possible(hand: Hand, place: int, *, shown: bool) -> list[str]:
    """Return the cards that the other may hold, as a seat knows it."""
    return [hand.cards[1 - place]] if shown else [card for card in RANKS if card != hand.cards[place]]


def _likelihood(kind: str, card: str, moves: Sequence[str], place: int) -> float:
    """Return the probability of the other's moves of a hand."""
    product = 1.0
    for number, move in enumerate(moves):
        if number % 2 != place:
            product *= chance_of(kind, card, moves[:number], move)
    return product


@cache
def _won(cards: tuple[str, str], moves: tuple[str, ...], place: int) -> int:
    won = Hand(cards, moves).won()
    return won if place == 0 else -won


def _worth(card: str, place: int, moves: tuple[str, ...], belief: Belief) -> float:
    """Return the chips that a seat expects, times the belief's weight, if it plays on as well as it can."""
    if Hand((), moves).over:
        return sum(w * _won((card, c) if place == 0 else (c, card), moves, place) for _, c, w in belief)
    if len(moves) % 2 == place:
        return max(_worth(card, place, (*moves, move), belief) for move in (PASS, BET))
    total = 0.0
    for move in (PASS, BET):
        after = tuple((kind, c, w * chance_of(kind, c, moves, move)) for kind, c, w in belief)
        total += _worth(card, place, (*moves, move), after)
    return total
