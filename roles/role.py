"""A role: what a seat is told and how it answers. Roles are data, read from ``cards/*.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from roles.tools import Tool


class ReplyForm(StrEnum):
    """How a role answers: one of the legal strings under a mask, or free text with a marked answer."""

    CHOICE = "choice"
    FREE = "free"


class OnIllegal(StrEnum):
    """What follows an illegal reply."""

    FORFEIT = "forfeit"  # the match ends and the offender pays the price
    RETRY = "retry"  # the seat is told why and asked again; after the last retry it forfeits
    MASK = "mask"  # only legal replies can be sampled, so there is no illegal reply


@dataclass(frozen=True, slots=True)
class Conduct:
    """The rule for illegal replies. ``price`` is in the game's units; None means the default rule.

    The default: the offender's return becomes the game's ``min_return``; in a zero-sum game the
    other seats share what it lost; in a cooperative game every seat gets ``min_return``.
    """

    on_illegal: OnIllegal = OnIllegal.MASK
    retries: int = 2
    price: float | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """One seat's instructions in one game.

    ``system`` and ``prompt`` are ``str.format`` templates; ``prompt`` may use ``{observation}`` and
    ``{legal}``, ``retry`` also ``{reply}`` and ``{reason}``. ``system`` uses no field: it is the same
    in every request. ``answer_open`` and ``answer_close`` mark the action in a free reply.
    """

    name: str
    game: str
    seat: int
    policy: str  # the policy that plays this role when the seat is trained
    reply: ReplyForm
    system: str
    prompt: str
    retry: str
    conduct: Conduct
    answer_open: str = "["
    answer_close: str = "]"
    max_reply_tokens: int = 16
    temperature: float = 1.0
    tools: tuple[Tool, ...] = ()

    def tool(self, name: str) -> Tool | None:
        """Return one of the role's tools; None for one that it does not have."""
        return next((tool for tool in self.tools if tool.name == name), None)
