"""Requests and tokens of a server, and their cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable


class Usage(NamedTuple):
    """Counts of requests and tokens. Tokens are as the server counts them; it may also charge for failed attempts."""

    requests: int = 0  # sent, including retries
    retries: int = 0  # requests that repeated a failed one
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0  # responses without token counts
    unusable: int = 0  # replies that count as illegal, because no answer could be used
    cost: float | None = None  # in the currency of the prices; None: no prices, or responses without token counts


@runtime_checkable
class Metered(Protocol):
    """An engine whose requests may cost money."""

    def usage(self) -> Usage:
        """Return the usage so far."""
        ...


def usage_of_both(first: Mapping[str, Usage], second: Mapping[str, Usage]) -> dict[str, Usage]:
    """Return the sums of two usages by player; a cost is known where both are."""
    sums = dict(first)
    for player, its in second.items():
        pairs = zip(sums[player], its, strict=True) if player in sums else ()
        sums[player] = Usage._make(None if a is None or b is None else a + b for a, b in pairs) if pairs else its
    return sums


def with_cost(usage: Usage, input_price: float | None, output_price: float | None) -> Usage:
    """Return the usage with its cost, by prices of a million tokens."""
    if input_price is None or output_price is None or usage.uncounted:
        return usage._replace(cost=None)
    return usage._replace(cost=(usage.input_tokens * input_price + usage.output_tokens * output_price) / 1e6)


def format_usage(usage_by_player: Mapping[str, Usage]) -> list[str]:
    """Return a line on each player's usage."""
    return [_line(player, usage) for player, usage in usage_by_player.items()]


def _line(player: str, usage: Usage) -> str:
    line = f"{player}: {usage.requests:,} requests, {usage.retries:,} of them repeated; "
    line += f"{usage.input_tokens:,} tokens read and {usage.output_tokens:,} written"
    if usage.uncounted:
        line += f", not counting {usage.uncounted:,} answers whose tokens the server did not report"
    if usage.unusable:
        line += f"; {usage.unusable:,} replies count as illegal, because no answer was usable"
    return f"{line}." if usage.cost is None else f"{line}; cost {usage.cost:.4f}."
