"""A run's configuration, read from a preset or a TOML file, changed by ``--set``, and written back.

Every mistake in it is a ``UsageError`` that names the key, what was given, and what is expected.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from games.errors import UsageError, unknown_name
from games.registry import make_game, with_opened
from games.spec import GameSpec
from league.checks import check
from league.config import GameConfig, RolesConfig, RunConfig
from league.config_learning import PolicyConfig
from league.sections import Section
from roles.cards import load_roles, with_overrides
from roles.role import Role

CONFIG_FILE = "config.toml"  # in a run directory
PRESETS = Path(__file__).parent / "presets"
_TABLES: Mapping[str, type[Section]] = {"games": GameConfig, "policies": PolicyConfig}  # whose keys the user chooses


def preset_names() -> list[str]:
    """Return the names of the presets that come with the project."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def load(source: str, overrides: Sequence[str] = ()) -> RunConfig:
    """Return the configuration of a preset or a ``.toml`` file, with ``key=value`` overrides applied in order.

    Raises UsageError for an unknown preset, key, game or role, for TOML that cannot be read, and for
    values or combinations that the configuration refuses.
    """
    data = _read(_find(source))
    for override in overrides:
        keys, value = parse_override(override)
        _put(data, keys, value)
    config = validate(data)
    check(config, run_roles(config))
    return config


def validate(data: Mapping[str, Any]) -> RunConfig:
    """Return ``data`` as a configuration. Raises UsageError with one sentence for each mistake."""
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        given = {name: data.get(name) for name in _TABLES}
        tables = {name: list(table) if isinstance(table, Mapping) else [] for name, table in given.items()}
        known = dict(_fields(RunConfig, tables))
        raise UsageError("\n".join(sentence(mistake, known) for mistake in error.errors())) from None


def to_toml(config: RunConfig) -> str:
    """Return the configuration as TOML text that loads back equal. Keys without a value are left out."""
    return tomli_w.dumps(config.model_dump(exclude_none=True))


def parse_override(text: str) -> tuple[list[str], Any]:
    """Return the path of keys and the value of one ``a.b.c=value``.

    A key may be quoted; dots and equal signs within parentheses belong to a game's name. The value
    is TOML, and what is not TOML is a string, so that words need no quotes.
    """
    keys: list[str] = []
    word, depth, quote = "", 0, ""
    for at, letter in enumerate(text):
        if letter == "=" and not depth and not quote:
            return [*keys, word.strip()], _value(text[at + 1 :].strip())
        if letter in (quote or "\"'"):
            quote = "" if quote else letter
        elif letter == "." and not depth and not quote:
            keys.append(word.strip())
            word = ""
        else:
            depth += (letter == "(") - (letter == ")")
            word += letter
    raise UsageError(f"--set {text}: there is no '=' in it. Write --set key=value, for example --set iterations=50.")


def run_roles(config: RunConfig) -> dict[str, tuple[Role, ...]]:
    """Return the roles of a run by game and seat: its games, and then those that their matches may open."""
    return {game: seat_roles(config.roles, make_game(game).spec) for game in with_opened(config.games)}


def seat_roles(config: RolesConfig, spec: GameSpec) -> tuple[Role, ...]:
    """Return a game's roles by seat, as the cards say and the configuration overrides.  # [seats]

    Raises UsageError for a card or an override that breaks a rule.
    """
    cards = Path(config.cards).expanduser() if config.cards else None
    return tuple(
        with_overrides(
            role,
            reply=config.reply,
            on_illegal=config.on_illegal,
            retries=config.retries,
            price=config.price,
            max_reply_tokens=config.max_reply_tokens,
            temperature=config.temperature,
            policy=config.policy.get(f"{spec.name}/{role.name}"),
        )
        for role in load_roles(spec, cards)
    )


def _find(source: str) -> Path:
    if source in preset_names():
        return PRESETS / f"{source}.toml"
    path = Path(source).expanduser()
    if path.is_file():
        return path
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise UsageError(f"There is no file {source}. Presets are written without a path: {', '.join(preset_names())}.")
    raise unknown_name("preset", source, preset_names(), "A file of your own ends in .toml.")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}.") from None


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _put(data: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    """Set one value in nested tables, making tables on the way."""
    for depth, key in enumerate(keys[:-1], 1):
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            path = ".".join(keys[:depth])
            raise UsageError(f"--set {'.'.join(keys)}: {path} is a single value, so it has no keys below it.")
    data[keys[-1]] = value


def _fields(
    section: type[Section], tables: Mapping[str, Iterable[str]], prefix: str = ""
) -> Iterator[tuple[str, FieldInfo]]:
    """Yield every dotted key below ``section`` with its field; ``tables`` names those of ``games`` and ``policies``."""
    for name, field in section.model_fields.items():
        key = prefix + name
        yield key, field
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from _fields(kind, tables, f"{key}.")
        elif section is RunConfig and name in _TABLES:
            for table in tables[name]:
                yield from _fields(_TABLES[name], tables, f"{key}.{table}.")


def sentence(mistake: ErrorDetails, known: Mapping[str, FieldInfo]) -> str:
    """Return one of pydantic's errors as a sentence for the person who wrote the configuration."""
    key = ".".join(map(str, mistake["loc"]))
    match mistake["type"]:
        case "extra_forbidden":
            return str(unknown_name("key", key, known))
        case "value_error":  # from a validator of ours, which says why
            return str(mistake["ctx"]["error"])
        case "missing":
            expected = "the key is missing"
        case "too_short":
            expected = "at least one is needed"
        case "model_type" | "model_attributes_type":
            inner = ", ".join(name for name in known if name.startswith(f"{key}.")) or "see league/config.py"
            expected = f"it is a table of keys ({inner})"
        case _:
            expected = mistake["msg"].replace("Input should be", "it should be")
            expected = expected.replace("valid tuple", 'list such as ["a", "b"]').replace("valid dictionary", "table")
    given = "" if mistake["type"] == "missing" else f" = {mistake['input']!r}"
    field = known.get(key)
    meaning = f" ({field.description})" if field and field.description else ""
    return f"{key}{given}: {expected}.{meaning}"
