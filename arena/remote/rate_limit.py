"""Rate limit and backoff of requests to a server. Pure: the clock is an argument."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds, where the server does not say


class RateLimit:
    """Spaces amounts evenly, so that no minute has more than its limit.

    The generic cell rate algorithm (ITU-T I.371) without a burst: an amount begins no earlier than the amount before
    it has had its share of the minute.
    """

    def __init__(self, per_minute: int | None) -> None:
        """Allow ``per_minute`` units of an amount, such as requests or tokens; None: no limit."""
        self._seconds_per_unit = 60.0 / per_minute if per_minute else 0.0
        self._free_at = 0.0

    def take(self, amount: float, now: float) -> float:
        """Reserve an amount; return the seconds to wait before using it. ``now`` never decreases."""
        start = max(now, self._free_at)
        self._free_at = start + amount * self._seconds_per_unit
        return start - now

    def give_back(self, amount: float) -> None:
        """Return an unused part of a reserved amount; a negative one reserves more, but no more than a minute holds.

        The limit is of a minute, so what was used beyond it is past when that minute is; and a server that counts
        wrongly must not stop play.
        """
        self._free_at -= max(amount * self._seconds_per_unit, -60.0)


def backoff(failures: int, rng: random.Random) -> float:
    """Return the seconds to wait after this many failures in a row: doubled each time, with jitter.

    The jitter, up to half of the time, keeps requests that failed together from being retried together.
    """
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (failures - 1))
    return longest * rng.uniform(0.5, 1.0)


def retry_after(header: str | None, now: datetime) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for (RFC 9110, 10.2.3): a number, or a date.

    None for no header, or one that is neither.
    """
    if header is None:
        return None
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", header.strip()):
        return float(header)
    try:
        date = parsedate_to_datetime(header)
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max((date - now).total_seconds(), 0.0)
    except (ValueError, OverflowError):
        return None
