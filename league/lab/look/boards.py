"""Boards drawn from what the seats see: grids, cards, dice and tables, as data that the page draws.

A drawing is read from the observations alone, so what a seat's drawing shows is what that seat saw; ``god``'s joins all
seats'. A game that is not here has none, and its observations are shown as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Drawing = dict[str, Any]
_GRID_WORD = re.compile(r"[XO.\-]|\d+|[a-z]\d+")


def drawings(game: str, views: Sequence[str] | None, roles: Sequence[str]) -> dict[str, Any] | None:
    """Return a drawing of what each seat sees, and of what all see together; None for a game without one.

    ``views`` [seats] are the observations of all seats, None where they are not known.
    """
    draw = _DRAWN.get(game.partition("(")[0])
    if draw is None or views is None:
        return None
    try:
        return {
            "seats": [draw([view], [role]) for view, role in zip(views, roles, strict=True)],
            "god": draw(views, roles),
        }
    except (ValueError, IndexError, KeyError):  # the text is of another version of the game
        return None


def _grid(views: Sequence[str], _: Sequence[str]) -> Drawing:
    rows = [line.split() for line in views[0].splitlines() if line.strip()]
    return {"kind": "grid", "rows": [[_mark(word) for word in row] for row in rows]}


def _hex(views: Sequence[str], roles: Sequence[str]) -> Drawing:
    return {**_grid(views, roles), "kind": "hex"}


def _four(views: Sequence[str], _: Sequence[str]) -> Drawing:
    """Connect four: rows that are empty are not shown, so they are added above."""
    *filled, columns = [line.split() for line in views[0].splitlines()]
    empty = [["."] * len(columns)] * max(6 - len(filled), 0)
    return {"kind": "discs", "rows": [[_mark(word) for word in row] for row in [*empty, *filled]], "labels": columns}


def _dark(kind: str) -> Callable[[Sequence[str], Sequence[str]], Drawing]:
    """Boards of which each seat sees its own stones and those that it ran into; all seats' together are the board."""

    def draw(views: Sequence[str], _: Sequence[str]) -> Drawing:
        boards = [[line for line in view.splitlines() if re.fullmatch(r"[.xoXOpqyzPQYZ]+", line)] for view in views]
        rows = [list(zip(*lines, strict=True)) for lines in zip(*boards, strict=True)]
        return {"kind": kind, "rows": [[_stone(next(filter(str.isalpha, cell), ".")) for cell in row] for row in rows]}

    return draw


def _mark(word: str) -> dict[str, str]:
    """Return a cell: its stone, or the name by which it is played."""
    return {"stone": word} if word in ("X", "O") else {"label": "" if word in (".", "-") else word}


def _stone(sign: str) -> dict[str, str]:
    if sign == ".":
        return {"label": ""}
    return {"stone": "X" if sign.lower() in "xyz" else "O"}


def _facts(view: str) -> dict[str, str]:
    """Return the lines "Name: what" of an observation."""
    return {
        name.strip(): what.strip() for name, sign, what in (line.partition(":") for line in view.splitlines()) if sign
    }


def _cards(private: str, kind: str, *moves: str) -> Callable[[Sequence[str], Sequence[str]], Drawing]:
    """Cards or dice in the hand of each seat, a board in the middle, and the moves so far."""

    def draw(views: Sequence[str], roles: Sequence[str]) -> Drawing:
        facts = [_facts(view) for view in views]
        hands = [{"label": role, "cards": own[private].split()} for role, own in zip(roles, facts, strict=True)]
        board = [{"label": "board", "cards": facts[0]["Board"].split()}] if "Board" in facts[0] else []
        said = [[name, facts[0][name]] for name in moves if name in facts[0]]
        return {"kind": kind, "hands": [*hands, *board], "lines": said}

    return draw


def _goofspiel(views: Sequence[str], roles: Sequence[str]) -> Drawing:
    facts = {name: what for view in views for name, what in _facts(view).items()}
    hands = [
        {"label": f"{_seat_name(roles, len(views), int(match[1]))} holds", "cards": what.split()}
        for name, what in sorted(facts.items())
        if (match := re.fullmatch(r"P(\d+) hand", name))
    ]
    prizes = {"label": "prizes", "cards": facts["Point card sequence"].split()}
    return {
        "kind": "cards",
        "hands": [prizes, *hands],
        "lines": [["Won by", facts.get("Win sequence", "")], ["Points", facts.get("Points", "")]],
    }


def _seat_name(roles: Sequence[str], seen: int, seat: int) -> str:
    return roles[seat] if seen > 1 else f"seat {seat}"


def _hanabi(views: Sequence[str], roles: Sequence[str]) -> Drawing:
    facts = [_facts(view) for view in views]
    hands = []
    for distance in range(
        len(views) if len(views) > 1 else 0
    ):  # a hand is known to the others: god sees it by the next
        shown = facts[distance - 1].get("+1", "")
        hands.append({"label": roles[distance], "cards": [card.partition(":")[0] for card in shown.split()]})
    if not hands:
        own = {"label": f"{roles[0]} may hold", "cards": facts[0]["You"].split()}
        others = [{"label": name, "cards": what.split()} for name, what in facts[0].items() if name.startswith("+")]
        hands = [own, *others]
    fireworks = {"label": "fireworks", "cards": facts[0]["Fireworks"].split()}
    counts = re.findall(r"(\w+): (\d+)", next(line for line in views[0].splitlines() if line.startswith("Tells")))
    lines = [*([name, number] for name, number in counts), ["Discards", facts[0].get("Discards", "")]]
    return {"kind": "cards", "hands": [fireworks, *hands], "lines": lines}


def _worths(views: Sequence[str], roles: Sequence[str]) -> Drawing:
    """Return what the goods are worth, by seat: "Worth to you, each: apple 4, pear 9"."""
    rows, goods = [], list[str]()
    for view, role in zip(views, roles, strict=True):
        line = next(line for line in view.splitlines() if line.startswith("Worth to you"))
        pairs = [word.rsplit(" ", 1) for word in line.partition(":")[2].strip(" .").split(", ")]
        goods = [name for name, _ in pairs]
        rows.append([role, *(worth for _, worth in pairs)])
    stock = next(line for line in views[0].splitlines() if line.strip())
    return {"kind": "table", "head": ["worth to", *goods], "rows": rows, "lines": [["Goods", stock]]}


_DRAWN: dict[str, Callable[[Sequence[str], Sequence[str]], Drawing]] = {
    "tic_tac_toe": _grid,
    "connect_four": _four,
    "hex": _hex,
    "dark_hex": _dark("hex"),
    "phantom_ttt": _dark("grid"),
    "kuhn_poker": _cards("Your card", "cards", "Moves"),
    "leduc_poker": _cards("Your card", "cards", "Round 1", "Round 2"),
    "tiny_hanabi": _cards("Your card", "cards", "Moves"),
    "liars_dice": _cards("Your dice", "dice", "Bids"),
    "goofspiel": _goofspiel,
    "hanabi": _hanabi,
    "bargaining": _worths,
    "simple_negotiation": _worths,
}
