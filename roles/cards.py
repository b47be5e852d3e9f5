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
"""

from __future__ import annotations

import math
import string
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from games.errors import UsageError, unknown_name
from games.spec import GameSpec, Utility
from roles.role import Conduct, OnIllegal, ReplyForm, Role
from roles.tools import read_tools

_E = TypeVar("_E", ReplyForm, OnIllegal)

BUILT_IN = Path(__file__).parent / "cards"
DEFAULT_POLICY = "main"
DEFAULT_RETRY = "{reason} Legal: {legal}."
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")

_TEMPLATE_FIELDS = {
    "system": frozenset[str](),
    "prompt": frozenset({"observation", "legal"}),
    "retry": frozenset({"observation", "legal", "reply", "reason"}),
}
_ROLE_TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "seat": (int,),
    "policy": (str,),
    "reply": (str,),
    "system": (str,),
    "prompt": (str,),
    "retry": (str,),
    "conduct": (dict,),
    "answer_open": (str,),
    "answer_close": (str,),
    "max_reply_tokens": (int,),
    "temperature": (int, float),
    "tools": (list,),
}
_REQUIRED = ("name", "seat", "system", "prompt")
_CONDUCT_TYPES: dict[str, tuple[type, ...]] = {"on_illegal": (str,), "retries": (int,), "price": (int, float)}


def load_roles(spec: GameSpec, folder: Path | None = None) -> tuple[Role, ...]:
    """Return the roles of a game, by seat.  # [seats]

    Looked for in this order: ``folder``, the built-in cards, the default roles; in each folder first
    a card for the game's full name, then one for its name without parameters if it has as many
    seats. Raises UsageError, with file and role named, for a card that breaks a rule.
    """
    for place in (folder, BUILT_IN):
        if place is None:
            continue
        roles = _roles_in(place, spec)
        if roles is not None:
            return roles
    return tuple(_default_role(spec, seat) for seat in range(spec.seats))


def with_overrides(
    role: Role,
    *,
    reply: ReplyForm | str | None = None,
    on_illegal: OnIllegal | str | None = None,
    retries: int | None = None,
    price: float | None = None,
    max_reply_tokens: int | None = None,
    temperature: float | None = None,
    policy: str | None = None,
) -> Role:
    """Return the role with the given parts replaced; None keeps a part as it is.

    A masked role that becomes ``free`` forfeits on an illegal reply unless ``on_illegal`` says
    otherwise: free text cannot be masked. Raises UsageError for a bad value or combination.
    """
    where = f"The override of role {role.name!r} of {role.game}"
    form = role.reply if reply is None else _member(ReplyForm, reply, f"{where}: reply")
    rule = role.conduct.on_illegal
    if on_illegal is not None:
        rule = _member(OnIllegal, on_illegal, f"{where}: on_illegal")
    elif form is ReplyForm.FREE and rule is OnIllegal.MASK:
        rule = OnIllegal.FORFEIT
    conduct = Conduct(
        on_illegal=rule,
        retries=role.conduct.retries if retries is None else retries,
        price=role.conduct.price if price is None else float(price),
    )
    changed = replace(
        role,
        reply=form,
        conduct=conduct,
        policy=role.policy if policy is None else policy,
        max_reply_tokens=role.max_reply_tokens if max_reply_tokens is None else max_reply_tokens,
        temperature=role.temperature if temperature is None else float(temperature),
    )
    _check(changed, where)
    return changed


def _roles_in(folder: Path, spec: GameSpec) -> tuple[Role, ...] | None:
    """Return the roles that one folder gives this game, or None."""
    if not folder.is_dir():
        raise UsageError(f"The folder of role cards {folder} does not exist. Give a folder with *.toml cards.")
    cards: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.toml")):
        card = _read(path)
        game = card["game"]
        if game in cards:
            raise UsageError(f"{cards[game][0]} and {path} both hold the roles of {game}. Keep one of them.")
        cards[game] = path, card
    if spec.name in cards:
        return _seated(*cards[spec.name], spec)
    base = spec.name.partition("(")[0]
    if base in cards and len(cards[base][1]["role"]) == spec.seats:
        return _seated(*cards[base], spec)
    return None


def _read(path: Path) -> dict[str, Any]:
    """Return a card file's contents, not to be changed: a ``game`` and a list of ``role`` tables."""
    kept = path.stat()
    return _parsed(path, kept.st_mtime_ns, kept.st_size)


@lru_cache(maxsize=256)  # as long as a file is the same, it reads the same
def _parsed(path: Path, _changed: int, _size: int) -> dict[str, Any]:
    try:
        card = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"The role card {path} is not readable TOML: {error}.") from error
    for key in card:
        if key not in ("game", "role"):
            raise unknown_name(f"key in the role card {path}", key, ("game", "role"))
    if not isinstance(card.get("game"), str):
        raise UsageError(f'The role card {path} must name its game: game = "...".')
    roles = card.get("role")
    if not isinstance(roles, list) or not roles or not all(isinstance(table, dict) for table in roles):
        raise UsageError(f"The role card {path} must hold one [[role]] table for each seat.")
    return card


def _seated(path: Path, card: Mapping[str, Any], spec: GameSpec) -> tuple[Role, ...]:
    """Return the card's roles by seat, refusing seats that are missing, doubled or not in the game."""
    by_seat: dict[int, Role] = {}
    for table in card["role"]:
        role = _role(path, table, spec.name)
        where = f"{path}, role {role.name!r}"
        if not 0 <= role.seat < spec.seats:
            raise UsageError(f"{where}: seat {role.seat} is out of range; {spec.name} has seats 0 to {spec.seats - 1}.")
        if role.seat in by_seat:
            raise UsageError(f"{where}: seat {role.seat} is already taken by role {by_seat[role.seat].name!r}.")
        by_seat[role.seat] = role
    missing = [seat for seat in range(spec.seats) if seat not in by_seat]
    if missing:
        raise UsageError(f"{path}: {spec.name} has {spec.seats} seats, but seat {missing[0]} has no [[role]].")
    return tuple(by_seat[seat] for seat in range(spec.seats))


def _role(path: Path, table: Mapping[str, Any], game: str) -> Role:
    """Return one checked ``[[role]]`` table as a Role."""
    where = f"{path}, role {table.get('name', '?')!r}"
    _check_keys(table, _ROLE_TYPES, where)
    for key in _REQUIRED:
        if key not in table:
            raise UsageError(f"{where}: the key {key!r} is missing.")
    reply = _member(ReplyForm, table.get("reply", ReplyForm.CHOICE), f"{where}: reply")
    parts = dict(table)
    parts.update(game=game, reply=reply, conduct=_conduct(table.get("conduct", {}), reply, where))
    parts["tools"] = read_tools(table.get("tools", []), where)
    parts["temperature"] = float(table.get("temperature", 1.0))
    parts["system"] = table["system"].strip()
    role = Role(**{"policy": DEFAULT_POLICY, "retry": DEFAULT_RETRY, **parts})
    _check(role, where)
    return role


def _conduct(table: Mapping[str, Any], reply: ReplyForm, where: str) -> Conduct:
    """Return a ``conduct`` table as Conduct; choice is masked and free forfeits unless it says otherwise."""
    _check_keys(table, _CONDUCT_TYPES, f"{where}: conduct")
    usual = OnIllegal.MASK if reply is ReplyForm.CHOICE else OnIllegal.FORFEIT
    price = table.get("price")
    return Conduct(
        on_illegal=_member(OnIllegal, table.get("on_illegal", usual), f"{where}: conduct.on_illegal"),
        retries=table.get("retries", Conduct().retries),
        price=None if price is None else float(price),
    )


def _check_keys(table: Mapping[str, Any], types: Mapping[str, tuple[type, ...]], where: str) -> None:
    """Refuse keys that do not exist and values of a wrong type."""
    for key, value in table.items():
        if key not in types:
            raise unknown_name(f"key in {where}", key, types)
        if not isinstance(value, types[key]) or isinstance(value, bool):
            expected = " or ".join(kind.__name__ for kind in types[key])
            raise UsageError(f"{where}: {key} = {value!r} is not of type {expected}.")


def _member(kind: type[_E], value: str, what: str) -> _E:
    """Return the enum member with this value."""
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"{what} = {value!r} is not one of {', '.join(kind)}.") from None


def _check(role: Role, where: str) -> None:
    """Raise UsageError if the role breaks a rule that its types do not express."""
    if role.reply is ReplyForm.FREE and role.conduct.on_illegal is OnIllegal.MASK:
        raise UsageError(f"{where}: a free reply cannot be masked. Use on_illegal = 'forfeit' or 'retry'.")
    for key, allowed in _TEMPLATE_FIELDS.items():
        _check_template(getattr(role, key), allowed, f"{where}: {key}")
    price = role.conduct.price
    rules = (
        (bool(role.name), "name is empty"),
        (bool(role.policy), "policy is empty"),
        (bool(role.answer_open and role.answer_close), "answer_open and answer_close must not be empty"),
        (role.conduct.retries >= 0, f"retries = {role.conduct.retries} is negative"),
        (price is None or (math.isfinite(price) and price >= 0), f"price = {price} is not a number from 0 up"),
        (role.max_reply_tokens >= 1, f"max_reply_tokens = {role.max_reply_tokens} is less than 1"),
        (
            math.isfinite(role.temperature) and role.temperature > 0,
            f"temperature = {role.temperature} is not a number above 0",
        ),
    )
    for holds, problem in rules:
        if not holds:
            raise UsageError(f"{where}: {problem}.")


def _check_template(template: str, allowed: frozenset[str], where: str) -> None:
    """Refuse fields that are not allowed, and any that reach into an object or convert it."""
    try:
        fields = [part[1:] for part in string.Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        raise UsageError(f"{where} is not a valid template ({error}). Write a literal brace twice: {{{{.") from error
    for name, format_spec, conversion in fields:
        if name not in allowed or format_spec or conversion:
            offer = ", ".join(f"{{{field}}}" for field in sorted(allowed)) or "none"
            raise UsageError(f"{where} uses the field {{{name}}}; the fields it may use: {offer}.")


def _default_role(spec: GameSpec, seat: int) -> Role:
    """Return a plain masked role for a game that has no card."""
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
        policy=DEFAULT_POLICY,
        reply=ReplyForm.CHOICE,
        system=f"You are the {name} of {spec.seats} players in the game {about}. Results go from "
        f"{spec.min_return:g} to {spec.max_return:g}, and {aim}. Answer with one legal action.",
        prompt="{observation}\nLegal: {legal}",
        retry=DEFAULT_RETRY,
        conduct=Conduct(),
    )
