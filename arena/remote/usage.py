"""What was asked of a server, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable


class Usage(NamedTuple):
    """An account. Tokens are as the server counts them; an attempt that failed may cost too, and no server tells."""

    requests: int = 0  # sent, with those repeated
    retries: int = 0  # of them, those that repeated one that had failed
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0  # answers whose tokens the server did not tell
    cost: float | None = None  # in the currency of the prices; None: no prices, or something was not counted


@runtime_checkable
class Metered(Protocol):
    """An engine whose every request may cost money."""

    def usage(self) -> Usage:
        """Return the account so far."""
        ...


def priced(usage: Usage, input_price: float | None, output_price: float | None) -> Usage:
    """Return the account with its cost, by prices of a million tokens."""
    if input_price is None or output_price is None or usage.uncounted:
        return usage._replace(cost=None)
    return usage._replace(cost=(usage.input_tokens * input_price + usage.output_tokens * output_price) / 1e6)


def in_words(accounts: Mapping[str, Usage]) -> list[str]:
    """Return a line on each player's account."""
    return [_line(player, usage) for player, usage in accounts.items()]


def _line(player: str, usage: Usage) -> str:
    line = f"{player}: {usage.requests:,} requests, {usage.retries:,} of them repeated; "
    line += f"{usage.input_tokens:,} tokens read and {usage.output_tokens:,} written"
    if usage.uncounted:
        line += f", not counting {usage.uncounted:,} answers whose tokens the server did not tell"
    return f"{line}." if usage.cost is None else f"{line}; cost {usage.cost:.4f}."
