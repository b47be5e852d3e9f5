"""Role cards: roles as TOML files, read and checked; a default role for every seat without a card.

A card file belongs to one game::

    game = "kuhn_poker"

    [[role]]
    name = "first"            # required: name, seat, system, prompt
    seat = 0
    system = "..."            # constant text: computed once and shared by all prompts of the role
    prompt = "{observation}"  # may also use {legal}
    reply = "choice"          # or "free"
    conduct = {on_illegal = "mask", retries = 2, price = 1.0}
    tools = [{name = "search", parameters = {words = "str"}, per_match = 4}]

Of a game with any number of seats, ``[each]`` is the role of every seat that no ``[[role]]`` is for; the seat's number,
from 1, follows its name. ``[[probe]]`` is a question that is not a move (``roles.probes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from games.common import plugins
from games.common.errors import UsageError, unknown_name
from games.common.files import read_toml
from games.common.section import Section
from games.common.validation import validated
from games.registry import make_game
from games.spec import GameSpec, Utility
from games.wrappers.wrapper import Wrapper
from roles.probes import Probe
from roles.role import OnIllegal, ReplyForm, Role, RoleCard, Wording

BUILT_IN = Path(__file__).parent / "cards"
FULL = BUILT_IN / "full"  # with all rules, for models that know a language
BOTH = BUILT_IN / "both"  # one card for both wordings: it tells all rules, shortly
ASK = "Legal: {replies}\nYour move:"  # what ends a request in the full wording
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


class CardFile(Section):
    """A file of a game's roles, each still to be validated."""

    game: str = Field(description="the game that the roles are for, such as kuhn_poker")
    seats: tuple[int, ...] = Field((), description="the numbers of seats that the roles are for (default: any)")
    rules: str = Field("", description="text that opens every role's system prompt")
    role: tuple[dict[str, Any], ...] = Field((), description="one [[role]] table for each seat")
    probe: tuple[Probe, ...] = Field((), description="one [[probe]] table for each question that is not a move")
    each: dict[str, Any] | None = Field(None, description="the role of every seat without a [[role]] of its own")

    @model_validator(mode="after")
    def _has_roles(self) -> CardFile:
        if not self.role and self.each is None:
            raise ValueError("there is no role: give each seat a [[role]] table, or all of them one table, [each].")
        return self

    def fits(self, seats: int) -> bool:
        """Return whether it has a role for each of so many seats, and is meant for them."""
        return seats in (self.seats or (seats,)) and len(self.tables(seats)) == seats

    def tables(self, seats: int) -> list[dict[str, Any]]:
        """Return a table for each role of a game with this many seats."""
        taken = {table.get("seat") for table in self.role}
        free = [seat for seat in range(seats) if seat not in taken] if self.each else []
        each = self.each or {}
        return [*self.role, *({**each, "name": f"{each.get('name', '')}_{seat + 1}", "seat": seat} for seat in free)]


plugins.add_group(
    "roles",
    "role card",
    lambda folder: Path(folder) if isinstance(folder, str | Path) else None,
    lambda folder: "" if folder.is_dir() else f"there is no folder {folder}: cards are TOML files in a folder",
)


def register(game: str, folder: Path) -> None:
    """Add a plugin's folder of cards for a game, by its name without parameters.

    The project's own cards go before it. Raises UsageError for a game whose cards another plugin has.
    """
    plugins.register("roles", game, folder)


def load_roles(
    spec: GameSpec, folder: Path | None = None, wording: Wording | str = Wording.BRIEF, *, probes: bool = False
) -> tuple[Role, ...]:
    """Return the roles of a game, by seat; with the probes of its cards only if asked to.  # [seats]

    Looked for in this order: ``folder``, the built-in cards, a plugin's, the default roles; in each folder first
    a card for the game's full name, then one for its name without parameters if it has as many
    seats. Cards of one game may differ in their number of seats. A wrapper's roles are those of the game inside, in the
    words of the wrapper. In the full wording, cards with all rules go before the other built-in ones, and every request
    ends with the legal replies. Raises UsageError, with file and role named, for a card that breaks a rule.
    """
    full = wording == Wording.FULL
    added: Path | None = plugins.lookup("roles", spec.name.partition("(")[0])
    for place in (folder, FULL if full else None, BUILT_IN, BOTH, added):
        if place is None:
            continue
        roles = _roles_in(place, spec)
        if roles is not None:
            break
    else:
        if spec.inner:
            return _wrapped_roles(spec, load_roles(make_game(spec.inner).spec, folder, wording, probes=probes))
        roles = tuple(_default_role(spec, seat, full) for seat in range(spec.seats))
    if not probes:
        roles = tuple(role.model_copy(update={"probes": ()}) if role.probes else role for role in roles)
    return tuple(role if role.ask or not full else role.model_copy(update={"ask": ASK}) for role in roles)


def _wrapped_roles(spec: GameSpec, inner: Sequence[Role]) -> tuple[Role, ...]:
    """Return the roles of a wrapper's seats: names and policies of their own seats, words of their ``card_seats``."""
    game = make_game(spec.name)
    assert isinstance(game, Wrapper), f"{spec.name} names an inner game, which only wrappers have"
    roles = []
    for seat, card_seat in enumerate(spec.card_seats or range(spec.seats)):
        words = inner[card_seat]
        own = inner[seat].name if seat < len(inner) else f"{words.name}_newcomer"
        changes = {"name": own, "game": spec.name, "seat": seat, "system": game.reword(words.system)}
        roles.append(words.model_copy(update=changes))
    return tuple(roles)


def with_overrides(
    role: Role,
    *,
    reply: ReplyForm | str | None = None,
    on_illegal: OnIllegal | str | None = None,
    retries: int | None = None,
    price: float | None = None,
    max_reply_tokens: int | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    policy: str | None = None,
    player: str | None = None,
    demonstrations: int | None = None,
) -> Role:
    """Return the role with the given parts replaced; None keeps a part as it is. A ``player`` takes a policy's place.

    A masked role that becomes ``free`` forfeits on an illegal reply unless ``on_illegal`` says
    otherwise: free text cannot be masked. Raises UsageError for a bad value or combination.
    """
    conduct = _given(on_illegal=on_illegal, retries=retries, price=price)
    if reply == ReplyForm.FREE and role.conduct.on_illegal is OnIllegal.MASK:
        conduct = {"on_illegal": OnIllegal.FORFEIT, **conduct}
    changed = _given(reply=reply, max_reply_tokens=max_reply_tokens, temperature=temperature, policy=player or policy)
    changed |= {"fixed": True} if player else {}
    changed |= _given(demonstrations=demonstrations, top_k=top_k, top_p=top_p, min_p=min_p)
    table = {**dict(role), "conduct": {**dict(role.conduct), **conduct}, **changed}
    return validated(Role, table, f"The override of role {role.name!r} of {role.game}")


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _roles_in(folder: Path, spec: GameSpec) -> tuple[Role, ...] | None:
    """Return the roles that one folder gives this game, or None."""
    if not folder.is_dir():
        raise UsageError(f"The folder of role cards {folder} does not exist. Give a folder with *.toml cards.")
    cards: dict[tuple[str, int], tuple[Path, CardFile]] = {}  # by game and number of [[role]] tables
    for path in sorted(folder.glob("*.toml")):
        card = _read(path)
        key = card.game, len(card.role)
        if key in cards:
            raise UsageError(f"{cards[key][0]} and {path} both hold the roles of {card.game}. Keep one of them.")
        cards[key] = path, card
    fitting = {game: found for (game, _), found in cards.items() if found[1].fits(spec.seats)}
    named = [found for (game, _), found in cards.items() if game == spec.name]
    base = spec.name.partition("(")[0]
    chosen = fitting.get(spec.name) or (named[0] if named else fitting.get(base))
    return None if chosen is None else _seated(*chosen, spec)


def _read(path: Path) -> CardFile:
    """Return a card file's contents."""
    kept = path.stat()
    return _parsed(path, kept.st_mtime_ns, kept.st_size)


@lru_cache(maxsize=256)  # as long as a file is the same, it reads the same
def _parsed(path: Path, _changed: int, _size: int) -> CardFile:
    try:
        tables = read_toml(path)
    except ValueError as error:
        raise UsageError(f"The role card {path} is not readable TOML: {error}.") from error
    return validated(CardFile, tables, f"The role card {path}")


def _seated(path: Path, card: CardFile, spec: GameSpec) -> tuple[Role, ...]:
    """Return the card's roles by seat, refusing seats that are missing, doubled or not in the game."""
    by_seat: dict[int, Role] = {}
    for table in card.tables(spec.seats):
        where = f"{path}, role {table.get('name', '?')!r}"
        card_role = validated(RoleCard, _with_rules(card.rules, table), where)
        probes = tuple([probe for probe in card.probe if probe.asks(card_role.name)])
        role = Role(game=spec.name, probes=probes, **dict(card_role))
        if not 0 <= role.seat < spec.seats:
            raise UsageError(f"{where}: seat {role.seat} is out of range; {spec.name} has seats 0 to {spec.seats - 1}.")
        if role.seat in by_seat:
            raise UsageError(f"{where}: seat {role.seat} is already taken by role {by_seat[role.seat].name!r}.")
        by_seat[role.seat] = role
    missing = [seat for seat in range(spec.seats) if seat not in by_seat]
    if missing:
        raise UsageError(f"{path}: {spec.name} has {spec.seats} seats, but seat {missing[0]} has no [[role]].")
    names = [role.name for role in by_seat.values()]
    for probe in card.probe:
        if strangers := [name for name in probe.asked if name not in names]:
            hint = f"[[probe]] {probe.name!r} of {path} asks it."
            raise unknown_name("role", strangers[0], names, hint)
    return tuple(by_seat[seat] for seat in range(spec.seats))


def _with_rules(rules: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return a role's table with the card's rules before its system text."""
    system = table.get("system")
    return table | {"system": f"{rules.strip()}\n{system.strip()}"} if rules and isinstance(system, str) else table


def _default_role(spec: GameSpec, seat: int, full: bool) -> Role:
    """Return a plain masked role for a game that has no card; in the full wording its request ends with ``ASK``."""
    name = ORDINALS[seat] if seat < len(ORDINALS) else f"seat_{seat}"
    aim = {
        Utility.ZERO_SUM: "what one player wins, the others lose",
        Utility.CONSTANT_SUM: "the players share a fixed total",
        Utility.GENERAL_SUM: "every player has a result of their own",
        Utility.IDENTICAL: "all players get the same result",
    }[spec.utility]
    about = spec.name.replace("{", "{{").replace("}", "}}")
    return Role(
        name=name,
        game=spec.name,
        seat=seat,
        system=f"You are the {name} of {spec.seats} players in the game {about}. Results go from "
        f"{spec.min_return:g} to {spec.max_return:g}, and {aim}. Answer with one legal action.",
        prompt="{observation}" if full else "{observation}\nLegal: {legal}",
    )
