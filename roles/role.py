"""A role: a seat's instructions and how it answers. Roles are data, read from ``cards/*.toml``."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator

from games.common.limits import LEAST_TEMPERATURE
from games.common.section import Count, Positive, Section
from roles.probes import Probe
from roles.slots import filling
from roles.slots.rule import NAMES as SLOTS
from roles.slots.rule import Filling, split_prompt
from roles.tools import Tool
from roles.truncation import NO_TRUNCATION, Truncation

DEFAULT_POLICY = "main"
DEFAULT_RETRY = "{reason} Legal: {legal}."

_TEMPLATE_FIELDS = {
    "system": frozenset[str](),
    "prompt": frozenset({"observation", "legal", *SLOTS}),
    "retry": frozenset({"observation", "legal", "reply", "reason"}),
    "ask": frozenset({"legal", "replies"}),
}


class ReplyForm(StrEnum):
    """How a role answers: one of the legal strings under a mask, or free text with a marked answer."""

    CHOICE = "choice"
    FREE = "free"


class Wording(StrEnum):
    """For whom the cards are written: a model that learns a game from nothing, or one that knows a language."""

    BRIEF = "brief"  # as short as can be: a model from scratch has no words to understand rules with
    FULL = "full"  # all rules, and the legal replies in their form at the end of the request


class OnIllegal(StrEnum):
    """What follows an illegal reply."""

    FORFEIT = "forfeit"  # the match ends and the offender pays the price
    RETRY = "retry"  # the seat is told why and asked again; after the last retry it forfeits
    MASK = "mask"  # only legal replies can be sampled, so there is no illegal reply


class Conduct(Section, strict=True):
    """The rule for illegal replies. ``price`` is in the game's units; None means the default rule.

    The default: the offender's return becomes the game's ``min_return``; in a zero-sum game the
    other seats share what it lost; in a cooperative game every seat gets ``min_return``.
    """

    on_illegal: OnIllegal = Field(OnIllegal.MASK, strict=False, description="what happens after an illegal reply")
    retries: Count = Field(2, description="how often a seat is asked again before it forfeits")
    price: float | None = Field(
        None, ge=0.0, description="what a forfeit costs, in the game's units; None: as much as the game can cost"
    )


class RoleCard(Section, strict=True):
    """A ``[[role]]`` table of a card.

    ``system``, ``prompt``, ``ask`` and ``retry`` are ``str.format`` templates. ``system`` uses no field: it is the same
    in every request.
    """

    name: str = Field(min_length=1, description="the role's name")
    seat: int = Field(description="its seat in the game, from 0")
    policy: str = Field(DEFAULT_POLICY, min_length=1, description="the policy that plays this role in trained seats")
    reply: ReplyForm = Field(ReplyForm.CHOICE, strict=False, description="how it answers")
    system: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(description="the instructions")
    prompt: str = Field(description="the request: a template with {observation} and {legal}")
    ask: str = Field(
        "", description="the end of the request: a template with {legal}, and {replies} in the form of the reply"
    )
    terms: tuple[tuple[str, str], ...] = Field(
        (),
        description="(label, words): a line of an observation that begins with the label begins with the words instead",
    )
    demonstrations: Count = Field(0, description="turns of legal play shown before the request")
    demonstration_seed: int = Field(0, description="the seed for drawing them")
    retry: str = Field(DEFAULT_RETRY, description="what it reads before it tries again; may use {reply} and {reason}")
    conduct: Conduct = Field(Conduct(), description="the rule for illegal replies")
    answer_open: str = Field("[", min_length=1, description="the mark before the action in a free reply")
    answer_close: str = Field("]", min_length=1, description="the mark after the action in a free reply")
    max_reply_tokens: Positive = Field(16, description="longest free reply, in tokens")
    temperature: float = Field(1.0, ge=LEAST_TEMPERATURE, description="sampling temperature")
    top_k: Count = Field(0, description="free replies: only the k most likely tokens are sampled; 0: all")
    top_p: float = Field(
        1.0, gt=0.0, le=1.0, description="free replies: only the most likely tokens, up to this sum of probabilities"
    )
    min_p: float = Field(
        0.0, ge=0.0, le=1.0, description="free replies: only tokens at least this likely, as a share of the likeliest"
    )
    tools: tuple[Tool, ...] = Field((), strict=False, description="tools that it may call")
    slots: tuple[Filling, ...] = Field(
        (),
        strict=False,
        description="by slot of the prompt, {earlier}, {notes}, {hint} or {plan}: the rule that fills it",
    )

    @model_validator(mode="before")
    @classmethod
    def _free_replies_forfeit(cls, data: Any) -> Any:
        """Let an illegal free reply forfeit unless the card says otherwise: free text cannot be masked."""
        if isinstance(data, Mapping) and data.get("reply") == ReplyForm.FREE:
            conduct = data.get("conduct", {})
            if isinstance(conduct, Mapping):
                return {**data, "conduct": {"on_illegal": OnIllegal.FORFEIT, **conduct}}
        return data

    @field_validator("terms", mode="before")
    @classmethod
    def _by_label(cls, table: Any) -> Any:
        return tuple(table.items()) if isinstance(table, Mapping) else table

    @field_validator("slots", mode="before")
    @classmethod
    def _filled_by_rules(cls, table: Any) -> Any:
        return tuple([filling(*one) for one in table.items()]) if isinstance(table, Mapping) else table

    @model_validator(mode="after")
    def _every_slot_is_filled(self) -> RoleCard:
        used = {name for name in SLOTS if f"{{{name}}}" in self.prompt}
        ruled = {one.slot for one in self.slots}
        if missing := sorted(used - ruled):
            raise ValueError(
                f"its prompt has the slot {{{missing[0]}}}, which nothing fills: write "
                f'slots = {{{missing[0]} = {{rule = "window"}}}}, or another rule.'
            )
        if unused := sorted(ruled - used):
            raise ValueError(f"a rule fills the slot {unused[0]}, but its prompt has no {{{unused[0]}}}.")
        if used:
            split_prompt(self.prompt)
        if used and self.tools:
            raise ValueError("it has slots and tools, but a card may have only one of them: leave slots or tools out.")
        return self

    @field_validator("system", "prompt", "retry", "ask")
    @classmethod
    def _plain_template(cls, template: str, info: ValidationInfo) -> str:
        name = info.field_name or ""
        _check_template(name, template, _TEMPLATE_FIELDS[name])
        return template

    @field_validator("tools")
    @classmethod
    def _tools_differ_by_name(cls, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        names = [tool.name for tool in tools]
        if len(set(names)) < len(names):
            raise ValueError(f"two tools have the same name; give each its own ({', '.join(names)}).")
        return tools

    @model_validator(mode="after")
    def _free_replies_cannot_be_masked(self) -> RoleCard:
        if self.reply is ReplyForm.FREE and self.conduct.on_illegal is OnIllegal.MASK:
            raise ValueError("a free reply cannot be masked. Use on_illegal = 'forfeit' or 'retry'.")
        return self

    @property
    def truncation(self) -> Truncation:
        """How its free replies are truncated."""
        return Truncation(self.top_k, self.top_p, self.min_p)

    @model_validator(mode="after")
    def _only_free_replies_are_truncated(self) -> RoleCard:
        if self.reply is ReplyForm.CHOICE and self.truncation != NO_TRUNCATION:
            raise ValueError(
                "top_k, top_p and min_p cut off unlikely tokens of free replies, but a choice is drawn from all legal "
                "replies, and each of them must stay possible. Leave them out, lower the temperature, or use reply = "
                "'free'."
            )
        return self


class Role(RoleCard):
    """One seat's instructions in one game."""

    game: str
    probes: tuple[Probe, ...] = ()  # what it is asked outside its turns; () where nobody asks
    fixed: bool = False  # a player that the run does not train has it (``roles.player``); ``policy`` is its name

    def tool(self, name: str) -> Tool | None:
        """Return one of the role's tools; None for one that it does not have."""
        return next((tool for tool in self.tools if tool.name == name), None)


def _check_template(name: str, template: str, allowed: frozenset[str]) -> None:
    """Refuse fields that are not allowed, and any that reach into an object or convert it. Raises ValueError."""
    try:
        fields = [part[1:] for part in string.Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        raise ValueError(f"{name} is not a valid template ({error}). Write a literal brace twice: {{{{.") from error
    for field, format_spec, conversion in fields:
        if field not in allowed or format_spec or conversion:
            offer = ", ".join(f"{{{one}}}" for one in sorted(allowed)) or "none"
            raise ValueError(f"{name} uses the field {{{field}}}; the fields it may use: {offer}.")


Roles = Mapping[str, tuple[Role, ...]]  # by game, then seat


def bound_policies(roles: Roles) -> list[str]:
    """Return the policies that roles bind to, each once; players that are given a role are none."""
    return list(dict.fromkeys(role.policy for seats in roles.values() for role in seats if not role.fixed))


def bystanders(roles: Sequence[Role]) -> set[str]:
    """Return the given players of a game with whom nobody is compared, because two seats or more are left without."""
    two_left = sum(not role.fixed for role in roles) > 1
    return {role.policy for role in roles if role.fixed and two_left}


def fixed_names(roles: Roles) -> list[str]:
    """Return the players that are given roles, each once."""
    return list(dict.fromkeys(role.policy for seats in roles.values() for role in seats if role.fixed))
