"""``repeated_kuhn_poker``: several hands of Kuhn poker, whose chips add up.

Each hand is Kuhn poker (Kuhn 1950): a deck of J, Q and K, a chip from each seat, a card each; then pass and bet by
turns until a bet is called or given up, or both pass. Seats take turns to begin, the first seat in the first hand. What
is won is kept: a match returns the chips won over all hands, so it is zero-sum. Its value is that of one hand,
−1/18 for the seat that begins, if the number of hands is odd, and 0 if it is even. Cards that were shown at the end of
a hand, by a call or by two passes, are known from then on; folded ones never are. It is SPIRAL's
training game (arXiv 2506.24119), of five hands, where who has more chips wins 1; here the chips themselves are paid.

``repeated_kuhn_poker(hands=1)`` is Kuhn poker; it and two hands are small enough for exact values.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

from games.common.errors import UsageError
from games.native.dealt import DealtGame
from games.native.names import game_name
from games.spec import GameSpec, Utility

RANKS = "JQK"
PASS, BET = MOVES = ("pass", "bet")
_ENDS = (("pass", "pass"), ("pass", "bet", "pass"), ("pass", "bet", "bet"), ("bet", "pass"), ("bet", "bet"))


class Hand(NamedTuple):
    """One hand: the cards, those of the seat that begins first, and the moves by turns."""

    cards: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        """Whether nobody has a move left."""
        return self.moves in _ENDS

    @property
    def shown(self) -> bool:
        """Whether the cards were compared at its end, for both to see."""
        return self.over and self.moves[-2:] != (BET, PASS)

    def won(self) -> int:
        """Return the chips that the seat that begins has won, once it is over."""
        if not self.shown:  # the seat that was to move last has folded
            return 1 if len(self.moves) == 2 else -1
        stake = 2 if BET in self.moves else 1
        return stake if RANKS.index(self.cards[0]) > RANKS.index(self.cards[1]) else -stake


class RepeatedKuhn(DealtGame):
    """One match of ``repeated_kuhn_poker``."""

    _hands: tuple[Hand, ...]  # the last one is being played

    def __init__(self, hands: int = 5) -> None:
        name = game_name("repeated_kuhn_poker", RepeatedKuhn, hands=hands)
        if not 1 <= hands <= 100:
            raise UsageError(f"There is no game {name!r}: hands is 1 to 100.")
        self._number = hands
        self.spec = GameSpec(
            name=name,
            seats=2,
            num_actions=2,
            max_turns=3 * hands,
            min_return=-2.0 * hands,
            max_return=2.0 * hands,
            utility=Utility.ZERO_SUM,
            perfect_information=False,
            has_chance=True,
        )
        self.reset(0)

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return the cards that the next seat may get: first the seat that begins the hand."""
        cards = self._hands[-1].cards
        if len(cards) == 2 or self._over:
            return ()
        left = [rank for rank in RANKS if rank not in cards]
        return tuple([(rank, 1.0 / len(left)) for rank in left])

    def apply_chance(self, outcome: str) -> None:
        """Deal a card."""
        *past, hand = self._hands
        self._hands = (*past, hand._replace(cards=(*hand.cards, outcome)))

    def to_act(self) -> int | None:
        """Return the seats by turns; the other one begins in every other hand."""
        if self._over or len(self._hands[-1].cards) < 2:
            return None
        return (len(self._hands) - 1 + len(self._hands[-1].moves)) % 2

    def observe(self, seat: int) -> str:
        """Return the hands that are over, the chips won so far, and the seat's card and the moves of this hand."""
        lines = [*self.past(seat)]
        chips = int(self.returns()[seat])
        if self._over:
            return "\n".join([*lines, f"Your chips: {chips:+d}"])
        hand, place = self._hands[-1], self._place(len(self._hands) - 1, seat)
        card = hand.cards[place] if len(hand.cards) > place else "none yet"
        begins = "you begin" if place == 0 else "the other begins"
        lines.append(f"Hand {len(self._hands)} of {self._number}, {begins}. Your chips: {chips:+d}")
        return "\n".join([*lines, f"Your card: {card}", f"Moves: {' '.join(hand.moves) or 'none'}"])

    @property
    def hands(self) -> tuple[Hand, ...]:
        """The hands so far; the last one is being played."""
        return self._hands

    def won_by_hand(self, seat: int) -> tuple[int, ...]:
        """Return the chips that a seat has won in each hand that is over."""
        over = [hand for hand in self._hands if hand.over]
        return tuple([hand.won() if self._place(n, seat) == 0 else -hand.won() for n, hand in enumerate(over)])

    def past(self, seat: int) -> tuple[str, ...]:
        """Return the hands that are over; at the end of the match all of them."""
        return tuple([self._line(number, seat) for number in range(len(self._hands) - (not self._over))])

    def is_public(self, line: str) -> bool:
        """Return whether a line says the same to both: the moves of this hand."""
        return line.startswith("Moves:")

    def information_state(self, seat: int) -> str:
        """Return the seat and all that it sees."""
        return f"{seat} {self.observe(seat)}"

    def eligible(self) -> tuple[bool, ...]:
        """Return that the moves of a hand count if it came to its end: a forfeit may cut the last one short."""
        return tuple([hand.over for hand in self._hands for _ in hand.moves])

    def returns(self) -> tuple[float, ...]:
        """Return the chips that were won in the hands that are over."""
        won = sum(self.won_by_hand(0))
        return (float(won), float(-won))

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, which plays an equilibrium of each hand, and others that can be read and beaten.

        ``poor`` always bets, ``timid`` always passes, ``tight`` bets and calls with K alone, ``bluffer`` bets with J
        and K and calls with K, and ``random`` draws.

        Of Kuhn's equilibria ``good`` has the one that never bluffs or bets first: who begins passes, folds J, calls
        with K and, a third of the time, with Q; the other bets K, bluffs with J a third of the time after a pass, calls
        with K and, a third of the time, with Q.
        """
        return {
            "good": self._good,
            "poor": lambda _rng: BET,
            "timid": lambda _rng: PASS,
            "tight": lambda _rng: BET if self._card() == "K" else PASS,
            "bluffer": lambda _rng: BET if self._card() in ("K" if BET in self._hands[-1].moves else "JK") else PASS,
            "random": self.random_action,
        }

    @property
    def _over(self) -> bool:
        return len(self._hands) == self._number and self._hands[-1].over

    def _begin(self) -> None:
        self._hands = (Hand(),)

    def _options(self) -> list[tuple[str, int]]:
        return [] if self.to_act() is None else [(move, number) for number, move in enumerate(MOVES)]

    def _play(self, action: str) -> None:
        *past, hand = self._hands
        hand = hand._replace(moves=(*hand.moves, action))
        begins = hand.over and len(self._hands) < self._number
        self._hands = (*past, hand, Hand()) if begins else (*past, hand)

    def _place(self, number: int, seat: int) -> int:
        """Return 0 if the seat begins a hand, else 1."""
        return (seat + number) % 2

    def _line(self, number: int, seat: int) -> str:
        """Return a hand that is over, as the seat knows it."""
        hand, place = self._hands[number], self._place(number, seat)
        won = hand.won() if place == 0 else -hand.won()
        theirs = hand.cards[1 - place] if hand.shown else "hidden"
        began = "you began" if place == 0 else "the other began"
        moves = " ".join(hand.moves)
        return f"Hand {number + 1}, {began}: your card {hand.cards[place]}, theirs {theirs}; {moves}; you won {won:+d}"

    def _card(self) -> str:
        """Return the card of the seat to act."""
        hand = self._hands[-1]
        return hand.cards[len(hand.moves) % 2]

    def _good(self, rng: random.Random) -> str:
        hand = self._hands[-1]
        first = len(hand.moves) != 1
        card = hand.cards[0 if first else 1]
        rare = BET if rng.random() < 1 / 3 else PASS
        if not hand.moves:
            return PASS
        if hand.moves[-1] == BET:
            return {"J": PASS, "Q": rare, "K": BET}[card]
        return {"J": rare, "Q": PASS, "K": BET}[card]
