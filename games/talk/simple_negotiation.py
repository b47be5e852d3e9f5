"""``simple_negotiation``: two seats trade goods that are worth something else to each of them.

Each has ``stock`` of each of ``goods`` goods and is told what one of each is worth to itself: whole numbers from 1 to
``most``, drawn for each seat. In turn they offer a trade, accept the other's last offer, or leave; after ``turns``
turns without a trade both keep what they have. A seat earns what it gets less what it gives, by its own values. Nothing
is lost or made: what one gives the other gets. The game is SPIRAL's (arXiv 2506.24119), where who gained more won 1;
here the gains themselves are paid, so that agreeing can be good for both.

With ``form=0`` a seat speaks in its own words, which the other reads as a quotation; with ``form=1`` it chooses from a
list. ``simple_negotiation(goods=2,stock=1,most=2,turns=3,form=1)`` is small enough for exact values.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Self

from games.common.errors import UsageError
from games.native.names import game_name
from games.spec import Choices, FreeText, GameSpec, Reading, Utility
from games.talk.conversation import THINK_ALOUD, addresses_all, quoted, unquoted, utterance
from games.talk.offers import (
    ACCEPT,
    GOODS,
    LEAVE,
    Trade,
    all_trades,
    bundle_text,
    named_trades,
    names_goods,
    read_word,
    repeats,
    says_no_deal,
)

SEATS = ("first", "second")
MOST_CHARACTERS = 400  # of what is said in a turn
WORDS = ": "  # between an action and the words in which it was said


class SimpleNegotiation:
    """One match of ``simple_negotiation``."""

    _drawn: tuple[int, ...]  # what each good is worth to the first seat, then to the second
    _said: tuple[str, ...]  # actions by turn, with their words

    def __init__(self, goods: int = 3, stock: int = 3, most: int = 9, turns: int = 8, form: int = 0) -> None:
        name = game_name(
            "simple_negotiation", SimpleNegotiation, goods=goods, stock=stock, most=most, turns=turns, form=form
        )
        if not (
            1 < goods <= len(GOODS) and 1 <= stock <= 9 and 1 <= most <= 99 and 2 <= turns <= 99 and form in (0, 1)
        ):
            raise UsageError(
                f"There is no game {name!r}: goods is 2 or 3, stock 1 to 9, most 1 to 99, turns 2 to 99, and form 0 "
                "(words) or 1 (a list)."
            )
        self._goods, self._stock, self._most, self._turns, self._in_words = goods, stock, most, turns, form == 0
        self._trades = all_trades(goods, stock)
        self._lines = tuple(self._trades)
        self.spec = GameSpec(
            name=name,
            seats=2,
            num_actions=0 if self._in_words else len(self._trades) + 2,
            max_turns=turns,
            min_return=-float(goods * stock * most),
            max_return=float(goods * stock * most),
            utility=Utility.GENERAL_SUM,
            perfect_information=False,
            has_chance=True,
            free_text=self._in_words,
            suite="talk",
        )
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Draw what the goods are worth."""
        rng = random.Random(seed)
        self._begin(tuple([rng.randint(1, self._most) for _ in range(2 * self._goods)]))

    def undealt(self) -> Self:
        """Return a new match before any value is drawn."""
        match = self.copy()
        match._begin(())
        return match

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return what the next good may be worth, until all are drawn."""
        if len(self._drawn) == 2 * self._goods:
            return ()
        return tuple([(str(value), 1.0 / self._most) for value in range(1, self._most + 1)])

    def apply_chance(self, outcome: str) -> None:
        """Draw what one good is worth: the first seat's goods first."""
        self._drawn = (*self._drawn, int(outcome))

    def to_act(self) -> int | None:
        """Return the seats in turn; None after a trade, after a seat has left, and after the last turn."""
        over = len(self._said) == self._turns or self._ending() in (ACCEPT, LEAVE)
        return None if over else len(self._said) % 2

    def actions(self) -> Choices | FreeText:
        """Return the request for words, or the list of trades, "accept" and "leave" as far as they are legal."""
        if not self._in_words:
            return Choices(self.legal_actions(), self.legal_ids())
        if self.to_act() is None:
            return Choices((), ())
        standing = self._trade_of(-1) if self._said else None
        asked = Stand(self._goods, self._stock, not self._is_last(), standing)
        reader, why = partial(read_reply, asked=asked), partial(_why, asked=asked)
        return FreeText(MOST_CHARACTERS, self._form(), reader, why, thinks=True)

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions without words: trades, unless it is the last turn, "accept" and "leave"."""
        if self.to_act() is None:
            return ()
        trades = () if self._is_last() else self._lines
        return (*trades, *((ACCEPT,) if self._said else ()), LEAVE)

    def legal_ids(self) -> tuple[int, ...]:
        """Return the trades' indices; "accept" and "leave" have the last two ids."""
        if self.to_act() is None:
            return ()
        count = len(self._trades)
        return (*(() if self._is_last() else range(count)), *((count,) if self._said else ()), count + 1)

    def observe(self, seat: int) -> str:
        """Return what the seat has, its own values, the offers so far and the turns left."""
        lines = [
            f"Each of you has {bundle_text((self._stock,) * self._goods)}.",
            f"Worth to you, each: {', '.join(f'{g} {v}' for g, v in zip(GOODS, self.values(seat), strict=False))}.",
            *(self._line(turn, seat) for turn in range(len(self._said))),
        ]
        if self.to_act() == seat:
            if self._said:
                lines.append(f"Their offer stands: you would give {self._would_give()} and get {self._would_get()}.")
            left = self._turns - len(self._said)
            lines.append(f"Turns left, yours included: {left}." if left > 1 else "This is the last turn.")
        return "\n".join(lines)

    def is_public(self, line: str) -> bool:
        """Return whether a line says the same to all."""
        return line.startswith("Each of you has") or addresses_all(line)

    def information_state(self, seat: int) -> str:
        """Return the seat, its values and all that was said."""
        return f"{seat} {self.values(seat)} {'; '.join(self._said)}"

    def apply(self, action: str) -> None:
        """Offer, accept or leave; words may follow. Raises ValueError for anything else."""
        plain, mark, words = action.partition(WORDS)
        if plain not in self.legal_actions() or (mark and utterance(words, MOST_CHARACTERS) != words):
            raise ValueError(f"{action!r} is not legal here: offer a trade, or say {ACCEPT!r} or {LEAVE!r}.")
        self._said = (*self._said, action)

    def eligible(self) -> tuple[bool, ...]:
        """Return that an offer counts if it was accepted or refused for good; not if a counter-offer replaced it."""
        over, last = self.to_act() is None, len(self._said) - 1
        answered = last - 1 if over and self._ending() in (ACCEPT, LEAVE) else last + 1
        return tuple([turn >= answered for turn in range(last + 1)])

    def rewards(self) -> tuple[float, ...]:
        """Return what the match paid at its end; zeros before."""
        return self.returns()

    def returns(self) -> tuple[float, ...]:
        """Return each seat's gain by its own values; zeros without a trade."""
        if self._ending() != ACCEPT:
            return (0.0, 0.0)
        proposer, trade = len(self._said) % 2, self._trade_of(-2)
        gains = self._gain(trade.give, trade.get, proposer), self._gain(trade.get, trade.give, 1 - proposer)
        return (float(gains[proposer]), float(gains[1 - proposer]))

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        match = type(self).__new__(type(self))
        match.__dict__.update(self.__dict__)  # all immutable
        return match

    def values(self, seat: int) -> tuple[int, ...]:
        """Return what one of each good is worth to a seat."""  # [goods]
        return self._drawn[seat * self._goods : (seat + 1) * self._goods]

    def possible_returns(self) -> set[tuple[float, ...]]:
        """Return the gains of every trade, and of none."""
        gains = [(self._gain(t.give, t.get, 0), self._gain(t.get, t.give, 1)) for t in self._trades.values()]
        return {(0.0, 0.0), *((float(first), float(second)) for first, second in gains)}

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, ``poor`` and ``random``.

        ``good`` offers what it values least for what it values most, one for one, then for ever less of a gain, and
        accepts what gains it something; ``poor`` accepts anything, and first offers all that it has for nothing.
        """
        return {"good": self._good, "poor": self._poor, "random": lambda rng: rng.choice(self.legal_actions())}

    def _begin(self, drawn: tuple[int, ...]) -> None:
        self._drawn, self._said = drawn, ()

    def _ending(self) -> str:
        return self._said[-1].partition(WORDS)[0] if self._said else ""

    def _is_last(self) -> bool:
        return len(self._said) == self._turns - 1

    def _trade_of(self, turn: int) -> Trade:
        """Return the trade of a turn, as who offered it means it."""
        return self._trades[self._said[turn].partition(WORDS)[0]]

    def _would_give(self) -> str:
        return bundle_text(self._trade_of(-1).get)

    def _would_get(self) -> str:
        return bundle_text(self._trade_of(-1).give)

    def _gain(self, give: tuple[int, ...], get: tuple[int, ...], seat: int) -> int:
        """Return what the gets are worth to a seat beyond the gives."""
        return sum(v * (new - old) for v, old, new in zip(self.values(seat), give, get, strict=True))

    def _line(self, turn: int, seat: int) -> str:
        """Return a turn as a seat sees it; words of the other are a quotation."""
        plain, mark, words = self._said[turn].partition(WORDS)
        speaker = "you" if turn % 2 == seat else SEATS[turn % 2]
        return f"{speaker}: {plain}" + (f" {quoted(words)}" if mark else "")

    def _form(self) -> str:
        offer = '"I offer 2 apples for 1 pear" (one offer, of what you give for what you get)'
        words = ([] if self._is_last() else [offer]) + [f'"{ACCEPT}"'] * bool(self._said) + [f'"{LEAVE}"']
        return f"one of these, in your own words if you like: {', or '.join(words)}{THINK_ALOUD}"

    def _good(self, _rng: random.Random) -> str:
        seat = len(self._said) % 2
        if self._said:
            offered = self._trade_of(-1)
            if self._gain(offered.get, offered.give, seat) > 0:
                return ACCEPT
        if self._is_last():
            return LEAVE
        gains = sorted(
            {(self._gain(t.give, t.get, seat), t) for t in self._trades.values() if sum(t.give) == sum(t.get) == 1}
        )
        better = [trade for gain, trade in gains if gain > 0]
        if not better:
            return LEAVE
        return str(better[-1 - (len(self._said) // 2) % len(better)])

    def _poor(self, _rng: random.Random) -> str:
        if self._said:
            return ACCEPT
        return str(Trade((self._stock,) * self._goods, (0,) * self._goods))


class Stand(NamedTuple):
    """What a reply may be in a position."""

    goods: int
    stock: int
    may_offer: bool
    standing: Trade | None  # the other's offer, as the other means it; None: there is none to accept


def reading(text: str, asked: Stand) -> Reading:
    """Return a text as one canonical action, its words behind it where they say more."""
    words = utterance(text, MOST_CHARACTERS)
    if words is None:
        return Reading(None, f"Say something, in at most {MOST_CHARACTERS} characters.")
    spoken = unquoted(words)
    word, trades = read_word(spoken), named_trades(spoken, asked.goods)
    if word is not None:
        plain = _word(spoken, word, asked)
    elif trades:
        plain = _offer(trades, asked)
    elif says_no_deal(spoken):
        return Reading(
            None, f'"No deal" may refuse the offer or end the match: say "{LEAVE}" to end it, or offer a trade.'
        )
    else:
        more = ", or names goods that are no whole offer" if names_goods(spoken) else ""
        return Reading(None, f'Your reply names no offer, and does not say clearly "{ACCEPT}" or "{LEAVE}"{more}.')
    if plain.action is None or words == plain.action:
        return plain
    return Reading(f"{plain.action}{WORDS}{words}")


def _word(spoken: str, word: str, asked: Stand) -> Reading:
    """Return "accept" or "leave"; a text that accepts may repeat the trade that stands, and no other."""
    if word == ACCEPT and asked.standing is None:
        return Reading(None, "There is no offer to accept yet.")
    if not names_goods(spoken):
        return Reading(word)
    if word == ACCEPT and asked.standing is not None and repeats(spoken, asked.goods, asked.standing):
        return Reading(word)
    return Reading(None, f'Your reply says "{word}" and names goods besides: say "{word}" alone, or one offer.')


def _offer(trades: set[Trade | None], asked: Stand) -> Reading:
    """Return the one trade that is offered."""
    clear = sorted(str(trade) for trade in trades if trade is not None)
    if len(trades) > 1:
        named = f" ({'; '.join(clear)})" if len(clear) > 1 else ""
        return Reading(None, f"Your reply names more than one offer{named}: make one.")
    if not clear:
        return Reading(
            None,
            "It is not clear what you would give and what you would get: say one offer, of fixed amounts and different "
            'goods, such as "I offer 2 apples for 1 pear".',
        )
    if not asked.may_offer:
        return Reading(None, f'This is the last turn: say "{ACCEPT}" or "{LEAVE}".')
    if clear[0] not in all_trades(asked.goods, asked.stock):
        return Reading(
            None,
            f"Your reply is read as {clear[0]!r}, which cannot be traded: each of you has {asked.stock} of each good, "
            "and a good is given or got, not both.",
        )
    return Reading(clear[0])


def read_reply(text: str, asked: Stand) -> str | None:
    """Return a text as one canonical action; None as ``reading``."""
    return reading(text, asked).action


def _why(text: str, asked: Stand) -> str:
    return reading(text, asked).why
