"""What can go wrong in play that is not the user's doing."""

from __future__ import annotations


class EngineError(RuntimeError):
    """An engine failed, or broke the rule of one reply for each request."""
