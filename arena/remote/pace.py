"""How fast a server may be asked, and how long to wait before asking again. Pure: the clock is an argument."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds, where the server does not say


class Pace:
    """Spaces what is sent evenly, so that no minute holds more than its limit.

    The generic cell rate algorithm (ITU-T I.371) without a burst: an amount begins no earlier than the one before it
    has had its share of the minute.
    """

    def __init__(self, per_minute: int | None) -> None:
        """Allow ``per_minute`` of whatever is counted; None: any number."""
        self._seconds_each = 60.0 / per_minute if per_minute else 0.0
        self._free_at = 0.0

    def take(self, amount: float, now: float) -> float:
        """Take a place in the row; return the seconds to wait until it has come. ``now`` never goes back."""
        start = max(now, self._free_at)
        self._free_at = start + amount * self._seconds_each
        return start - now

    def give_back(self, amount: float) -> None:
        """Give back what was taken but not used; less than nothing takes more."""
        self._free_at -= amount * self._seconds_each


def backoff(failures: int, rng: random.Random) -> float:
    """Return the seconds to wait after so many failures in a row: doubled each time, up to a half of it by chance.

    The jitter keeps requests that failed together from coming back together.
    """
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (failures - 1))
    return longest * rng.uniform(0.5, 1.0)


def retry_after(header: str | None, now: datetime) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for (RFC 9110, 10.2.3): a number, or a date.

    None if there is none, or it says neither.
    """
    if header is None:
        return None
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", header.strip()):
        return float(header)
    try:
        then = parsedate_to_datetime(header)
    except ValueError:
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max((then - now).total_seconds(), 0.0)
