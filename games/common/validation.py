"""Turns what a user wrote into a pydantic model, or into one sentence for each mistake."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from games.common.errors import UsageError, unknown_name

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], data: Mapping[str, Any], where: str = "") -> Model:
    """Return ``data`` as a ``model``.

    Raises UsageError with one sentence for each mistake: where, which key, what was given, what is expected, and what
    the key means. A table in a list is called by its name if it has one.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        known = dict(_fields(model, data))
        begin = f"{where}: " if where else ""
        sentences = [begin + _sentence(mistake, _key(data, mistake["loc"]), known) for mistake in error.errors()]
    raise UsageError("\n".join(sentences))


def _sentence(mistake: ErrorDetails, key: str, known: Mapping[str, FieldInfo]) -> str:
    """Return one of pydantic's errors as a sentence for the person who wrote the table."""
    match mistake["type"]:
        case "extra_forbidden":
            key = _first_key(key, mistake["input"])
            return str(unknown_name("key", key, _misspelt(key, known) or _same_last_word(key, known) or known))
        case "missing":
            return f"The key {key!r} is missing.{_meaning(key, known)}"
        case "value_error":  # from a validator of ours, which says why
            return str(mistake["ctx"]["error"])
        case "too_short":
            expected = "at least one item is needed"
        case "model_type" | "model_attributes_type":
            inner = ", ".join(name for name in known if name.startswith(f"{key}."))
            expected = f"it should be a table of keys ({inner})"
        case _:
            expected = re.sub(r"^\w+ should", "it should", mistake["msg"])
            expected = expected.replace("valid tuple", 'list such as ["a", "b"]').replace("valid dictionary", "table")
    return f"{key} = {mistake['input']!r}: {expected}.{_meaning(key, known)}"


def _misspelt(key: str, known: Iterable[str]) -> list[str]:
    """Return the keys of the same table of which an unknown one is a slip of the pen."""
    table, dot, word = key.rpartition(".")
    words = [last for begin, _, last in (name.rpartition(".") for name in known) if begin == table]
    return [table + dot + near for near in difflib.get_close_matches(word, words, cutoff=0.75)]


def _first_key(key: str, value: Any) -> str:
    """Return the first key that was given a value in a table that there is not; the table's own if it is empty."""
    while isinstance(value, Mapping) and value:
        inner, value = next(iter(value.items()))
        key = f"{key}.{inner}"
    return key


def _same_last_word(key: str, known: Iterable[str]) -> list[str]:
    """Return the keys of other tables that an unknown one may be meant to be."""
    return [name for name in known if name.rpartition(".")[2] == key.rpartition(".")[2]]


def _meaning(key: str, known: Mapping[str, FieldInfo]) -> str:
    field = known.get(key)
    return f" ({field.description})" if field and field.description else ""


def _key(data: Any, path: tuple[int | str, ...]) -> str:
    """Return the dotted key of a place in nested tables and lists."""
    parts = []
    for part in path:
        try:
            data = data[part]
        except (LookupError, TypeError):  # a key that is missing, or pydantic's own word
            data = None
        parts.append(_called(part, data))
    return ".".join(parts)


def _called(part: int | str, entry: Any) -> str:
    """Return a part of a key; the name of a table in a list, if it has one."""
    name = entry.get("name") if isinstance(part, int) and isinstance(entry, Mapping) else None
    return name if isinstance(name, str) else str(part)


def _fields(model: type[BaseModel], data: Any, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every dotted key below ``model`` with its field; ``data`` has the keys that the user chooses."""
    for name, field in model.model_fields.items():
        key = prefix + name
        yield key, field
        given = data.get(name) if isinstance(data, Mapping) else None
        kinds = (field.annotation, *get_args(field.annotation))
        table = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        if table is not None and get_origin(field.annotation) in (dict, tuple):
            for part, entry in _entries(given):
                yield from _fields(table, entry, f"{key}.{_called(part, entry)}.")
        elif table is not None:
            yield from _fields(table, given, f"{key}.")


def _entries(given: Any) -> Iterable[tuple[int | str, Any]]:
    """Return what a table or a list holds, each with its key; nothing of what is neither."""
    if isinstance(given, Mapping):
        return given.items()
    return enumerate(given) if isinstance(given, list | tuple) else ()
