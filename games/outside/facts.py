"""Facts about a game that its library does not provide, from a table or from the game's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from games.common.errors import UsageError
from games.outside.names import OutsideName, Value
from games.spec import Utility


class Facts(NamedTuple):
    """What the libraries leave open. A match that breaks them is an error, so a guess is never silently wrong."""

    least: float = -1.0  # return of a seat in a match, at least
    most: float = 1.0
    longest: int = 200  # turns; a match that is not over by then is cut off there
    motive: Utility = Utility.GENERAL_SUM
    perfect: bool = False  # whether one observation shows all: then no seat is shown what it saw before


def with_named(facts: Facts, name: OutsideName) -> tuple[Facts, dict[str, Value]]:
    """Return the facts with those in a name put in, and the parameters of the name that are the library's own.

    Raises UsageError for facts that make no sense.
    """
    given: dict[str, Any] = {key: value for key, value in name.parameters.items() if key in Facts._fields}
    own = {key: value for key, value in name.parameters.items() if key not in given}
    numbers = [given.get("least", 0.0), given.get("most", 0.0)]
    longest, motive = given.get("longest", 1), given.get("motive", "zero_sum")
    if not (
        all(type(value) in (int, float) for value in numbers)
        and type(longest) is int
        and longest > 0
        and motive in list(Utility)
        and isinstance(given.get("perfect", True), bool)
    ):
        raise UsageError(
            f"The game name {str(name)!r} cannot be read: least and most are numbers, longest is a number of turns, "
            f"motive is {', '.join(Utility)}, and perfect is true or false."
        )
    if "motive" in given:
        given["motive"] = Utility(str(motive))
    changed = facts._replace(**given)
    if changed.least >= changed.most:
        raise UsageError(f"{name}: least={changed.least:g} should be below most={changed.most:g}.")
    return changed, own


def check_returns(name: str, facts: Facts, returns: Sequence[float]) -> None:
    """Raise UsageError for the returns of a match that are not as the facts say, and say what to write."""
    low, high = min(returns), max(returns)
    if low < facts.least - 1e-9 or high > facts.most + 1e-9:
        raise UsageError(
            f"A match of {name} paid from {low:g} to {high:g}, and a seat's return should lie between "
            f"{facts.least:g} and {facts.most:g}. Say in the game's name what a match can pay, as in "
            f"{with_settings(name, {'least': min(low, facts.least), 'most': max(high, facts.most)})}."
        )
    zero = facts.motive is Utility.ZERO_SUM and abs(sum(returns)) > 1e-6
    if zero or (facts.motive is Utility.IDENTICAL and high - low > 1e-6):
        raise UsageError(
            f"A match of {name} paid {', '.join(f'{value:g}' for value in returns)}, which is not {facts.motive}. "
            f"Name it {with_settings(name, {'motive': Utility.GENERAL_SUM.value})}."
        )


def with_settings(name: str, settings: Mapping[str, Value]) -> str:
    """Return a name with other settings."""
    base, _, inside = name.partition("(")
    own = [part for part in inside.removesuffix(")").split(",") if part and part.partition("=")[0] not in settings]
    new = [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in settings.items()]
    return f"{base}({','.join(sorted(own + new))})"
