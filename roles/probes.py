"""Probes: questions to a seat about the present position that are not moves. Data of role cards, under ``[[probe]]``::

    [[probe]]
    name = "wolf"
    question = "Who is a wolf? Answer with a name."
    answers = ["Ann", "Bob", "Cleo"]        # left out: as the game says
    asked = ["villager_1", "villager_2"]    # left out: every role
    when = "turns"                          # or "ends"
    speech = ["I suspect "]

A probe is asked beside the match: it costs no turn, nobody hears it, and nothing that is played depends on it. Its
answer is the whole distribution over the finite list of answers.
"""

from __future__ import annotations

import string
from enum import StrEnum

from pydantic import Field, field_validator

from games.common.section import Section


class AskedWhen(StrEnum):
    """At which positions of a match a probe is asked."""

    TURNS = "turns"  # before the first turn, and after every turn
    ENDS = "ends"  # before the first turn, and when the match is over


class Probe(Section, strict=True):
    """A ``[[probe]]`` table of a card."""

    name: str = Field(min_length=1, description="what the question is called; the game knows the truth by this name")
    question: str = Field(min_length=1, description="what is asked, after what the seat sees; {answers} lists them")
    answers: tuple[str, ...] = Field((), strict=False, description="what may be answered; none: what the game says")
    asked: tuple[str, ...] = Field((), strict=False, description="names of the roles that are asked; none: all")
    when: AskedWhen = Field(AskedWhen.TURNS, strict=False, description="turns: after every turn; ends: first and last")
    speech: tuple[str, ...] = Field(
        (),
        strict=False,
        description="beginnings of actions of a list that are said to others, such as 'I suspect '; words that free "
        "text asks for are said anyway",
    )

    @field_validator("question")
    @classmethod
    def _plain_template(cls, question: str) -> str:
        try:
            fields = {field for _, field, _, _ in string.Formatter().parse(question) if field is not None}
        except ValueError as error:
            raise ValueError(
                f"question is not a valid template ({error}). Write a literal brace twice: {{{{."
            ) from error
        if fields - {"answers"}:
            raise ValueError(f"question uses the field {{{min(fields - {'answers'})}}}; it may use {{answers}} only.")
        return question

    @field_validator("answers")
    @classmethod
    def _answers_differ(cls, answers: tuple[str, ...]) -> tuple[str, ...]:
        if len(answers) == 1 or len(set(answers)) < len(answers):
            raise ValueError("answers must be two different ones or more; leave them out to take the game's.")
        return answers

    def asks(self, role: str) -> bool:
        """Return whether a role is asked."""
        return not self.asked or role in self.asked

    def is_speech(self, form: str, action: str | None) -> bool:
        """Return whether a turn says something: words of a ``form``, or a listed action that counts as speech."""
        if action is None:
            return False
        return bool(form) or any(action.startswith(beginning) for beginning in self.speech)
