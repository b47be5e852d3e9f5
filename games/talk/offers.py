"""Offers in words: a trade of goods as one canonical line, and how a sentence is read as one. Pure.

A trade is what the speaker gives and what it gets, by good; no good is on both sides. Its line is "offer 2 apples for 1
pear". A sentence is read if it names exactly one trade, or is exactly one of the other words; nothing is guessed.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import NamedTuple

GOODS = ("apple", "pear", "plum")
ACCEPT, LEAVE = "accept", "leave"

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_COUNT = rf"(?<![\w./-])(?<!half )(?:\d{{1,2}}|an?|{'|'.join(_NUMBERS[1:])})"
_ITEM = rf"(?:(?:my|your|the)\s+)?{_COUNT}\s+(?:of\s+)?(?:(?:my|your|the)\s+)?(?:{'|'.join(GOODS)})s?\b"
_BUNDLE = rf"(?:(?:(?:my|your|the)\s+)?nothing|{_ITEM}(?:(?:\s*,\s*|\s*\+\s*|\s*&\s*|\s+)(?:and\s+)?{_ITEM})*)"
_FOR = r"(?:\s*(?:->|→)\s*|\s*,?\s+(?:in\s+(?:exchange|return)\s+)?for\s+)"
_TRADE = re.compile(rf"(?P<first>{_BUNDLE}){_FOR}(?P<second>{_BUNDLE})")
_PAIR = re.compile(rf"(?P<count>{_COUNT})\s+(?:of\s+)?(?:(?:my|your|the)\s+)?(?P<good>{'|'.join(GOODS)})s?\b")
_GETS = re.compile(
    r"\b(?:want|wants|take|takes|get|gets|need|like|receive|buy|ask|give\s+me|send\s+me|your)\s*(?:for\s*)?$"
)
_GIVES = re.compile(r"\b(?:offer|give|trade|swap|exchange|pay|sell|send|my)(?:\s+(?:up|you))?\s*$")
_ACCEPTS = re.compile(r"\b(?:accept|accepted|agree|agreed|deal)\b")
_LEAVES = re.compile(r"\b(?:leave|leaving|walk\s+away|i\s+am\s+out|i'm\s+out)\b")
_NO_DEAL = re.compile(r"\bno\s+deal\b")  # refuses an offer, or ends the match: which one is not said
_DENIES = re.compile(r"\b(?:not|never|cannot|refuse|reject|unless|if)\b|n't\b")
_PERHAPS = re.compile(r"\b(?:would|could|might|maybe|perhaps)\b|\bi'd\b")  # of "accept" or "leave": it is not said
_NO = re.compile(r"\b(?:no|neither)\b")
_CLAUSE = re.compile(r".*[.;:!?,]\s", re.DOTALL)  # all before the last clause
_YOU = re.compile(r"\byou\b")
_THEIRS = re.compile(r"\byou\b[^.;!?,]*\b(?:accept|agree|deal|leave|walk)")  # "do you agree"
_RANGE = re.compile(rf"{_COUNT}\s+(?:to|or)\s*$")
_MORE = re.compile(rf"\s*,?\s*(?:or|for|and|to)\s+{_ITEM}")


class Trade(NamedTuple):
    """What a speaker gives and gets, by good."""

    give: tuple[int, ...]  # [goods]
    get: tuple[int, ...]  # [goods]

    def __str__(self) -> str:
        """Return the canonical line."""
        return f"offer {bundle_text(self.give)} for {bundle_text(self.get)}"


def bundle_text(amounts: tuple[int, ...]) -> str:
    """Return amounts of goods as "2 apples and 1 pear"; "nothing" for none."""
    parts = [f"{n} {good}{'s' if n > 1 else ''}" for n, good in zip(amounts, GOODS, strict=False) if n]
    return " and ".join(parts) or "nothing"


@lru_cache(maxsize=64)
def all_trades(goods: int, stock: int) -> dict[str, Trade]:
    """Return every trade between two seats that have ``stock`` of each good, except the empty one, by its line."""
    nets = itertools.product(range(-stock, stock + 1), repeat=goods)
    trades = [Trade(tuple([max(-n, 0) for n in net]), tuple([max(n, 0) for n in net])) for net in nets if any(net)]
    return {str(trade): trade for trade in trades}


def named_trades(text: str, goods: int) -> set[Trade | None]:
    """Return the trades that a text names, legal or not, as the speaker means them; None for one that is unclear."""
    folded = _folded(text)
    return {_trade(match, folded, goods) for match in _TRADE.finditer(folded)}


def repeats(text: str, goods: int, standing: Trade) -> bool:
    """Return whether the only amounts in a text are those of the trade that stands, in either order."""
    folded = _folded(text)
    matches = list(_TRADE.finditer(folded))
    sides = {tuple(_amounts(match[side], goods) for side in ("first", "second")) for match in matches}
    outside = _PAIR.search(_TRADE.sub(" ", folded))
    return not outside and bool(sides) and sides <= {(standing.give, standing.get), (standing.get, standing.give)}


def says_no_deal(text: str) -> bool:
    """Return whether a text says "no deal"."""
    return _NO_DEAL.search(_folded(text)) is not None


def _folded(text: str) -> str:
    return " ".join(text.casefold().replace("’", "'").split())


def read_word(text: str) -> str | None:
    """Return "accept" or "leave" if a text says exactly one of them and does not deny it; None otherwise."""
    folded = _NO_DEAL.sub(" ", _folded(text))
    leaves = bool(_LEAVES.search(folded))
    rest = _LEAVES.sub(" ", folded)
    accepts = bool(_ACCEPTS.search(rest))
    if (
        leaves == accepts
        or _THEIRS.search(folded)
        or _PERHAPS.search(folded)
        or _DENIES.search(rest)
        or (accepts and _NO.search(rest))
    ):
        return None
    return LEAVE if leaves else ACCEPT


def names_goods(text: str) -> bool:
    """Return whether a text names amounts of goods, so that it is more than "accept" or "leave"."""
    return _PAIR.search(text.casefold()) is not None


def _trade(match: re.Match[str], text: str, goods: int) -> Trade | None:
    """Return the trade of one match; None if it is denied, contradictory or the other's, or names a good twice."""
    clause = _CLAUSE.sub("", text[: match.start()])
    gets = bool(_GETS.search(clause)) or match["first"].startswith("your")
    gave = _GIVES.search(clause)
    gives = gave is not None or match["first"].startswith("my")
    others = _YOU.search(clause[: gave.start()] if gave else clause)  # "you offer", but not "I offer you"
    bundles = [_amounts(match[side], goods) for side in ("first", "second")]
    several = _PAIR.search(clause) or _RANGE.search(clause)  # "give 1 apple to 2 apples for nothing"
    unclear = (
        (gets and gives)
        or others
        or several
        or _ACCEPTS.search(clause)
        or _DENIES.search(clause)
        or _MORE.match(text[match.end() :])
    )
    if unclear or None in bundles:
        return None
    first, second = (bundle or () for bundle in bundles)
    return Trade(second, first) if gets else Trade(first, second)


def _amounts(bundle: str, goods: int) -> tuple[int, ...] | None:
    """Return a bundle's amounts by good; None for a good that is named twice or is not in the game."""
    amounts = [0] * goods
    for match in _PAIR.finditer(bundle):
        index, count = GOODS.index(match["good"]), match["count"]
        number = int(count) if count.isdecimal() else 1 if count in ("a", "an") else _NUMBERS.index(count)
        if index >= goods or amounts[index] or not number:
            return None
        amounts[index] = number
    return tuple(amounts)
