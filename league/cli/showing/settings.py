"""``league show settings [WORD]``: the settings of a run, read from the tables of its configuration.

Without a word: the settings that any preset sets, by subject. ``--all`` shows the rest.
"""

from __future__ import annotations

import argparse
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

from games.common.errors import unknown_name
from games.common.limits import LARGEST_COUNT
from league.cli.parser import Parser, add_json_option

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

EXAMPLES = ("", "--all", "entropy", "credit.rae", "matchmaking --json")
USER_KEYS = {"games": "GAME", "policies": "NAME"}  # tables whose keys the user chooses
NEEDS = {  # by the beginning of a setting's name: the need of the credit rules that it is for
    "critic.": "values",
    "values.": "values",
    "matchmaking.group_size": "groups",
    "matchmaking.tree": "tree",
    "shaping.preferred.": "preferences",
}


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument(
        "word", nargs="?", metavar="WORD", help="one setting by name, or text to look for in names and meanings"
    )
    parser.add_argument("--all", action="store_true", help="list every setting, not only those that presets set")
    add_json_option(parser)


class Setting(NamedTuple):
    """One setting of a run."""

    name: str  # as --set takes it
    kind: str  # its type, in words
    default: Any  # None: none, or the setting is required (``required``)
    required: bool
    meaning: str
    of: str  # which rule or engine it is for; empty: none in particular


def run(arguments: argparse.Namespace) -> list[Setting]:
    """Return the settings with a word in their names or meanings; without a word and ``--all`` those of presets.

    Raises UsageError where there is none.
    """
    from games.common.registry import listed
    from league.config.plugins import config_model

    listed()  # so that their settings are listed
    settings = list(_settings(config_model(), ""))
    if not arguments.word and not arguments.all:
        return of_presets(settings)
    word = (arguments.word or "").lower()
    exact = [setting for setting in settings if setting.name.lower() == word]
    chosen = exact or [
        setting for setting in settings if word in f"{setting.name} {setting.of} {setting.meaning}".lower()
    ]
    if not chosen:
        raise unknown_name("setting", arguments.word, [setting.name for setting in settings], "Try a shorter word.")
    return chosen


def of_presets(settings: Sequence[Setting]) -> list[Setting]:
    """Return the settings that a preset sets."""
    from league.config.load import preset_names, preset_table

    given = {key for name in preset_names() for key in _keys(preset_table(name), "")}

    def pattern(setting: Setting) -> str:
        return re.escape(setting.name).replace("NAME", "[^.]+").replace("GAME", ".+")

    return [setting for setting in settings if any(re.fullmatch(pattern(setting), key) for key in given)]


def _keys(table: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield the names of everything in a table, nested tables included."""
    for key, value in table.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")


def to_json(report: Sequence[Setting]) -> list[dict[str, Any]]:
    """Return the settings as JSON data."""
    return [setting._asdict() for setting in report]


def print_report(report: Sequence[Setting], console: Console) -> None:
    """Print each setting with its type, its default, its family and its meaning, by table."""
    tables = [setting.name.rpartition(".")[0].partition(".")[0] for setting in report]
    for setting, table, before in zip(report, tables, [tables[0], *tables], strict=False):
        if table != before:
            console.print()
        default = "required" if setting.required else f"default {_written(setting.default)}"
        of = f"; {setting.of}" if setting.of else ""
        console.print(f"{setting.name}  ({setting.kind}; {default}{of})", markup=False)
        console.print(f"    {setting.meaning}", markup=False)
    console.print(
        f"\n{len(report)} settings. Change one with `league train PRESET --set NAME=VALUE`, or in a TOML file. To "
        "list them all: league show settings --all",
        markup=False,
    )


def _settings(model: type[BaseModel], prefix: str) -> Iterator[Setting]:
    """Yield the settings of a table and of the tables in it."""
    for name, field in model.model_fields.items():
        key = prefix + name
        table = _table(field.annotation)
        if table is not None:
            inner = f"{key}.{USER_KEYS.get(name, 'NAME')}." if get_origin(field.annotation) is dict else f"{key}."
            yield from _settings(table, inner)
        else:
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            kind = _kind(field.annotation, field.metadata)
            yield Setting(key, kind, default, field.is_required(), field.description or "", _of(key))


def _table(annotation: Any) -> type[BaseModel] | None:
    """Return the type of the table or tables that a field holds; None for a field that holds none."""
    from pydantic import BaseModel

    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _of(key: str) -> str:
    """Return which entry of a family, or which credit rules, a setting is for."""
    from games.common.registry import family
    from league.config.plugins import own_tables
    from learners.advantages import RULES
    from learners.advantages.rule import Need

    for group, table in own_tables().items():
        prefix = f"{table}."
        name = key.removeprefix(prefix).partition(".")[0]
        if key.startswith(f"{prefix}{name}.") and name in (registry := family(group)).loaded():
            return f"for {registry.chosen_by(name)}"
    for prefix, need in NEEDS.items():
        if key.startswith(prefix):
            rules = RULES.loaded()
            return f"for credit.rule = {', '.join(name for name, rule in rules.items() if Need(need) in rule.needs)}"
    return ""


def _kind(annotation: Any, metadata: Sequence[Any]) -> str:
    """Return a setting's type in words."""
    from pydantic.fields import FieldInfo

    from games.common.registry import Named

    origin, parts = get_origin(annotation), get_args(annotation)
    for mark in (*metadata, *(parts[1:] if origin is typing.Annotated else ())):
        if isinstance(mark, Named):
            return " | ".join(mark.names())
    if origin is typing.Annotated:
        inner = [
            bound for entry in parts[1:] for bound in (entry.metadata if isinstance(entry, FieldInfo) else [entry])
        ]
        return _kind(parts[0], [*metadata, *inner])
    if origin in (typing.Union, types.UnionType):
        return " or ".join("none" if part is type(None) else _kind(part, metadata) for part in parts)
    if origin is Literal:
        return " | ".join(map(str, parts))
    if origin is tuple:
        return _of_each("list", parts[0])
    if origin is dict:
        return "table" if parts[1] is Any else _of_each("table", parts[1])
    names = {bool: "true | false", int: "whole number", float: "number", str: "word"}
    return f"{names.get(annotation, str(annotation))}{_bounds(metadata)}"


def _of_each(collection: str, values: Any) -> str:
    """Return in words a list or a table whose values have one type."""
    kind = _kind(values, [])
    plural = kind in ("word", "number", "whole number", "table")
    return f"{collection} of {kind}s" if plural else f"{collection}, each {kind}"


def _bounds(metadata: Sequence[Any]) -> str:
    """Return the bounds of a number in words, without bounds that are never met in practice."""
    words = []
    for attribute, word in (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below")):
        for entry in metadata:
            bound = getattr(entry, attribute, None)
            if bound is not None and bound < LARGEST_COUNT:
                words.append(f"{word} {bound:g}")
    return f", {' and '.join(words)}" if words else ""


def _written(value: Any) -> str:
    """Return a default as TOML has it, a table in one line."""
    import tomli_w

    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{tomli_w.dumps({key: 0})[:-5]} = {_written(item)}' for key, item in value.items())}}}"
    return "none" if value is None else tomli_w.dumps({"x": value}).removeprefix("x = ").strip().replace("\n", " ")
