"""Observations and action labels as text, for OpenSpiel games.

A renderer turns a ``pyspiel.State`` into three texts: the label of an action, a seat's observation,
and its information-state key. A language model replies with labels and has observations as its prompt,
so both are short, and the rules of the game are left to the role card. In every game rendered here two
positions have the same observation exactly when they have the same key, except in repeated games, where
a seat is shown the last rounds only.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from games.openspiel import bargaining, colored_trails, hanabi, sheriff

RANKS = ("J", "Q", "K", "A")
KUHN_MOVES = {"p": "pass", "b": "bet"}
LEDUC_MOVES = {"0": "fold", "1": "call", "2": "raise"}


@dataclass(frozen=True, slots=True)
class Renderer:
    """Three pure functions of a turn-based ``pyspiel.State``.

    ``label(state, action)`` names an action of the seat to act; labels need not be unique, the position
    tree makes them so. ``observe(state, seat)`` is the prompt, ``key(state, seat)`` the information
    state. ``key_is_position``: equal keys mean equal continuations, so a walk over the game need enter
    each key only once (a board, rather than the order of its moves). ``scripts`` are players by name, who return the id
    of an action of the seat to act.
    """

    label: Callable[[Any, int], str]
    observe: Callable[[Any, int], str]
    key: Callable[[Any, int], str]
    key_is_position: bool = False
    scripts: Mapping[str, Callable[[Any, random.Random], int]] = field(default_factory=dict)
    hidden: Callable[[Any, int], str] | None = None  # ``games.privileged.HasHidden``; None: not known
    is_public: Callable[[str], bool] | None = None  # ``games.abilities.MarksPublic``; None: all lines on boards
    # Which of the seats' moves, oldest first, bear on something that came about, given their labels and whether the
    # match is over (``games.abilities.MarksEligible``); None: all
    eligible: Callable[[tuple[str, ...], bool], tuple[bool, ...]] | None = None


def _unless(*beginnings: str) -> Callable[[str], bool]:
    """Return the rule by which lines are public, except those that begin so."""
    return lambda line: not line.startswith(beginnings)


def renderer_for(game: Any) -> Renderer:
    """Return the renderer of a loaded, turn-based ``pyspiel.Game``: its own, or the plain one."""
    make = RENDERERS.get(_rules_name(game))
    return make(game) if make else _plain(game)


def _rules_name(game: Any) -> str:
    """Return the short name of the rules, also where OpenSpiel has made a simultaneous game turn-based."""
    name = game.get_type().short_name
    return str(game.get_parameters()["game"]["name"] if name == "turn_based_simultaneous_game" else name)


def rank_name(rank: int, ranks: int) -> str:
    """Return a card's name, lowest rank first: J Q K A, or 1, 2, … in a deck of more ranks."""
    return RANKS[rank] if ranks <= len(RANKS) else str(rank + 1)


def _information_state(state: Any, seat: int) -> str:
    return str(state.information_state_string(seat))


def _first_lines(observe: Callable[[Any, int], str]) -> Callable[[Any, int], str]:
    """Return what is hidden where the first line of an observation, "Your card: K", is all that a seat alone knows."""

    def hidden(state: Any, seat: int) -> str:
        seats = state.num_players()
        lines = []
        for other in (other for other in range(seats) if other != seat):
            label, _, known = observe(state, other).split("\n")[0].removeprefix("Your ").partition(": ")
            lines.append(f"Other {label}{f' (seat {other + 1})' if seats > 2 else ''}: {known}")
        return "\n".join(lines)

    return hidden


def _played_out(moves: tuple[str, ...], over: bool) -> tuple[bool, ...]:
    """Return that moves of a hand of poker count if it came to its end: a bet that was answered, cards compared."""
    return (over,) * len(moves)


def _challenged(moves: tuple[str, ...], over: bool) -> tuple[bool, ...]:
    """Return that of liar's dice the bid that was challenged counts, and the challenge: only they met the dice."""
    return tuple([over and number >= len(moves) - 2 for number in range(len(moves))])


def _taken_up(moves: tuple[str, ...], over: bool) -> tuple[bool, ...]:
    """Return that of bargaining the offer that was agreed to counts, and the agreement: others lapsed."""
    agreed = over and moves[-1:] == ("Agree",)
    return tuple([agreed and number >= len(moves) - 2 for number in range(len(moves))])


def _join(words: list[str]) -> str:
    """Join moves in the order they were made; seats act in turn, so the order shows whose they are."""
    return " ".join(words) or "none"


def _kuhn(game: Any) -> Renderer:
    ranks = game.num_players() + 1

    def observe(state: Any, seat: int) -> str:
        card, moves = re.fullmatch(r"(\d+)([pb]*)", _information_state(state, seat)).groups()  # type: ignore[union-attr]
        return f"Your card: {rank_name(int(card), ranks)}\nMoves: {_join([KUHN_MOVES[move] for move in moves])}"

    hidden = _first_lines(observe)
    return Renderer(
        lambda _state, action: ("pass", "bet")[action],
        observe,
        _information_state,
        hidden=hidden,
        is_public=_unless("Your "),
        eligible=_played_out,
    )


def _leduc(game: Any) -> Renderer:
    ranks = game.num_players() + 1
    ranks_only = bool(game.get_parameters().get("suit_isomorphism"))

    def card_name(card: str) -> str:
        if ranks_only:
            return rank_name(int(card), ranks)
        return rank_name(int(card) // 2, ranks) + "sh"[int(card) % 2]

    def observe(state: Any, seat: int) -> str:
        facts = dict(re.findall(r"\[(\w+): ([^]]*)\]", _information_state(state, seat)))
        lines = [f"Your card: {card_name(facts['Private'])}", f"Round 1: {_bets(facts['Round1'])}"]
        if "Public" in facts:
            lines += [f"Board: {card_name(facts['Public'])}", f"Round 2: {_bets(facts['Round2'])}"]
        return "\n".join(lines)

    hidden = _first_lines(observe)
    return Renderer(
        lambda _state, action: LEDUC_MOVES[str(action)],
        observe,
        _information_state,
        hidden=hidden,
        is_public=_unless("Your "),
        eligible=_played_out,
    )


def _bets(ids: str) -> str:
    return _join([LEDUC_MOVES[move] for move in ids.split()])


def _liars_dice(game: Any) -> Renderer:
    sides = game.get_parameters()["dice_sides"]

    def bid(word: str) -> str:
        return word.lower().replace("-", "x")  # OpenSpiel's "2-5" means two dice that show five

    start = game.new_initial_state()
    words = [start.action_to_string(0, action) for action in range(game.num_distinct_actions())]
    labels = [bid(word) for word in words]
    shown = dict(zip(words, labels, strict=True))

    def observe(state: Any, seat: int) -> str:
        dice, *bids = _information_state(state, seat).split(" ")
        faces = " ".join(dice) if sides < 10 else dice
        return f"Your dice: {faces}\nBids: {_join([shown[word] for word in bids])}"

    hidden = _first_lines(observe)
    return Renderer(
        lambda _state, action: labels[action],
        observe,
        _information_state,
        hidden=hidden,
        is_public=_unless("Your "),
        eligible=_challenged,
    )


def _tiny_hanabi(_game: Any) -> Renderer:
    def observe(state: Any, seat: int) -> str:
        card, *moves = (word.split(":")[1] for word in _information_state(state, seat).split())
        return f"Your card: {card}\nMoves: {_join(moves)}"

    hidden = _first_lines(observe)
    return Renderer(
        lambda _state, action: f"a{action}", observe, _information_state, hidden=hidden, is_public=_unless("Your ")
    )


def _board(observe: Callable[[Any, int], str]) -> Renderer:
    """Return the renderer of a board game whose actions are numbered squares or columns.

    The key is the board. OpenSpiel's is the order of the moves, which no rule of these games needs:
    tic-tac-toe has 4,520 boards with a decision, and 294,778 orders of moves that lead to them.
    """
    return Renderer(lambda _state, action: str(action + 1), observe, observe, key_is_position=True)


def _tic_tac_toe(_game: Any) -> Renderer:
    def observe(state: Any, _seat: int) -> str:
        marks = state.observation_string(0).replace("\n", "").upper()
        squares = [str(i + 1) if mark == "." else mark for i, mark in enumerate(marks)]
        return "\n".join(" ".join(squares[row : row + 3]) for row in (0, 3, 6))

    return _board(observe)


def _hex(game: Any) -> Renderer:
    rows, columns = game.get_parameters()["num_rows"], game.get_parameters()["num_cols"]

    def observe(state: Any, _seat: int) -> str:
        marks = re.sub("[opq]", "O", re.sub("[xyz]", "X", re.sub(r"\s", "", state.observation_string(0))), flags=re.I)
        names = [f"{chr(ord('a') + i % columns)}{i // columns + 1}" for i in range(rows * columns)]
        cells = [name if mark == "." else mark for name, mark in zip(names, marks, strict=True)]
        return "\n".join(" ".join(cells[row : row + columns]) for row in range(0, rows * columns, columns))

    return Renderer(_plain_label, observe, observe, key_is_position=True)


def _hanabi(_game: Any) -> Renderer:
    is_public = _unless("You:", "+", "Moves:")  # these name seats by their distance from the one that is shown them
    return Renderer(  # OpenSpiel has no key of its own
        hanabi.move_label, hanabi.observation, hanabi.observation, is_public=is_public
    )


def _sheriff(_game: Any) -> Renderer:
    return Renderer(sheriff.move_label, sheriff.observation, _information_state, is_public=_unless("Items:"))


def _bargaining(_game: Any) -> Renderer:
    scripts = {"good": bargaining.good, "poor": bargaining.poor}
    is_public = _unless("Worth to you", "you:", "the other:")
    return Renderer(
        bargaining.move_label,
        bargaining.observation,
        _information_state,
        scripts=scripts,
        is_public=is_public,
        eligible=_taken_up,
    )


def _colored_trails(_game: Any) -> Renderer:
    scripts = {"good": colored_trails.good, "poor": colored_trails.poor}
    is_public = _unless("Places:", "Chips:")
    return Renderer(
        colored_trails.move_label, colored_trails.observation, _information_state, scripts=scripts, is_public=is_public
    )


def _connect_four(_game: Any) -> Renderer:
    def observe(state: Any, _seat: int) -> str:
        rows = state.observation_string(0).upper().split()
        columns = ["-" if top != "." else str(i + 1) for i, top in enumerate(rows[0])]
        filled = [" ".join(row) for row in rows if set(row) != {"."}]
        return "\n".join([*filled, " ".join(columns)])

    return _board(observe)


def _repeated_game(game: Any) -> Renderer:
    """Return the renderer of a repeated matrix game, whose seats are shown the last ``recall`` rounds.

    The key is all rounds before this one, so a seat that is shown fewer has one prompt for many keys.
    """
    seats, recall = game.num_players(), game.get_parameters()["game"]["recall"]

    def name(state: Any, seat: int, action: int) -> str:
        return str(state.action_to_string(seat, action)).lower()

    def finished_rounds(state: Any) -> list[list[str]]:
        moves = state.history()
        ends = range(seats, len(moves) + 1, seats)  # an unfinished round has no end yet
        return [[name(state, seat, moves[end - seats + seat]) for seat in range(seats)] for end in ends]

    def render(rounds: list[list[str]], seat: int) -> str:
        if not rounds:
            return "Last round: none"
        lines = [" ".join(moves[player] for moves in rounds) for player in range(seats)]
        opponents = [line for player, line in enumerate(lines) if player != seat]
        return "\n".join([f"You: {lines[seat]}", *(f"Other: {line}" for line in opponents)])

    return Renderer(
        lambda state, action: name(state, state.current_player(), action),
        lambda state, seat: render(finished_rounds(state)[-recall:], seat),
        lambda state, seat: render(finished_rounds(state), seat),
        is_public=_unless("You:", "Other:"),
    )


def _plain(game: Any) -> Renderer:
    """Return the renderer that uses OpenSpiel's own strings.

    The key is the information-state string; where a game has none, the observation string; where it has
    neither, the history. With perfect information the observation string, where there is one, is the
    prompt: it shows the board, while the information state is often the list of moves.
    """
    game_type = game.get_type()
    if game_type.provides_information_state_string:
        key: Callable[[Any, int], str] = _information_state
    elif game_type.provides_observation_string:
        key = _observation
    else:
        key = _history
    is_perfect = game_type.information == type(game_type.information).PERFECT_INFORMATION
    shows_board = is_perfect and game_type.provides_observation_string
    return Renderer(_plain_label, _observation if shows_board else key, key)


def _observation(state: Any, seat: int) -> str:
    return str(state.observation_string(seat))


def _history(state: Any, _seat: int) -> str:
    """Return the moves so far, except in an unfinished round, where they would reveal the others' choices."""
    finished = state.simultaneous_game_state() if hasattr(state, "simultaneous_game_state") else state
    return f"Moves: {finished.history_str() or 'none'}\nSeat to act: {state.current_player()}"


def _plain_label(state: Any, action: int) -> str:
    """Return OpenSpiel's action string without seat prefix or leading comma, spaces collapsed; never empty."""
    words = re.sub(r"^(\[P\d+\]|[, ]+)", "", str(state.action_to_string(state.current_player(), action)))
    return " ".join(words.split()) or f"action {action}"


RENDERERS: dict[str, Callable[[Any], Renderer]] = {
    "kuhn_poker": _kuhn,
    "leduc_poker": _leduc,
    "liars_dice": _liars_dice,
    "tiny_hanabi": _tiny_hanabi,
    "tic_tac_toe": _tic_tac_toe,
    "connect_four": _connect_four,
    "repeated_game": _repeated_game,
    "hex": _hex,
    "hanabi": _hanabi,
    "sheriff": _sheriff,
    "bargaining": _bargaining,
    "colored_trails": _colored_trails,
}
