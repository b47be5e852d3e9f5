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

    name: str = Field(min_length=1, description="the question's name, under which the game gives the true answer")
    question: str = Field(
        min_length=1, description="the question, asked after the seat's observation; {answers} lists the answers"
    )
    answers: tuple[str, ...] = Field((), strict=False, description="the possible answers; none: those of the game")
    asked: tuple[str, ...] = Field((), strict=False, description="names of the roles to ask; none: all")
    when: AskedWhen = Field(
        AskedWhen.TURNS, strict=False, description="turns: after every turn; ends: after the first and the last"
    )
    speech: tuple[str, ...] = Field(
        (),
        strict=False,
        description="how listed actions that speak to others begin, such as 'I suspect '; free text always speaks to "
        "others",
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
            raise ValueError("answers must be two or more different ones; leave them out to use the game's.")
        return answers

    def asks(self, role: str) -> bool:
        """Return whether a role is asked."""
        return not self.asked or role in self.asked

    def is_speech(self, form: str, action: str | None) -> bool:
        """Return whether a turn says something: words of a ``form``, or a listed action that counts as speech."""
        if action is None:
            return False
        return bool(form) or any(action.startswith(beginning) for beginning in self.speech)
