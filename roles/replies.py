"""Parse a reply's text into exactly one legal action, or None. Pure; it never guesses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from games.spec import FreeText
from roles.probes import Probe
from roles.role import Conduct, OnIllegal, ReplyForm, Role

_CHOICE = ReplyForm.CHOICE  # in Python 3.11, looking up an enum's member takes longer than parsing a choice
WHAT_NEXT, WHAT_RETURNS = "What comes next?", "What does it return?"  # asked of what others do, and of a tool
ANSWER = "Answer:"  # what follows is said; what stands before it is thought
# At the beginning of a line or sentence, perhaps in bold type: "Final answer: ", "**Answer:** ".
_ANSWER = re.compile(
    r"(?:^|(?<=[.!?;:]\s))[*_]*(?:my |the )?(?:final )?answer[*_]*:[*_]*", re.IGNORECASE | re.MULTILINE
)
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


def parse_reply(role: Role, text: str, legal: Sequence[str]) -> str | None:
    """Return the one legal action that the reply names, or None.

    ``choice``: the reply, stripped, is a legal action, letter for letter.

    ``free``: thoughts are dropped (see ``strip_thoughts``); of the rest, every marked answer must name the
    same legal action. No mark, two different answers, or one answer that is not legal: None. An
    answer names an action if it equals it, or if it is the only one that it equals when case and
    white space are disregarded.
    """
    if role.reply is _CHOICE:
        stripped = text.strip()
        return stripped if stripped in legal else None
    answers = marked_answers(role, text)
    actions = {_action_of(answer, legal) for answer in answers}
    return actions.pop() if len(actions) == 1 else None


def read_free_text(asked: FreeText, reply: str) -> str | None:
    """Return the one action that a free text is read as, thoughts left out; None if it is too long or says none.

    Where a seat may think aloud (``asked.thinks``), all its marked answers must be read as the same action.
    """
    actions = {asked.read(said) if len(said) <= asked.most_characters else None for said in _said(asked, reply)}
    return actions.pop() if len(actions) == 1 else None


def free_text_reason(asked: FreeText, reply: str) -> str:
    """Return, as a sentence for the seat, why a reply that ``read_free_text`` refused is illegal; it quotes nothing."""
    answers = _said(asked, reply)
    if len(answers) > 1:
        return f'Your reply has more than one answer after "{ANSWER}".'
    if len(answers[0]) > asked.most_characters:
        return f"Your reply is longer than {asked.most_characters} characters."
    return asked.why(answers[0]) if asked.why is not None else "Your reply cannot be read."


def _said(asked: FreeText, reply: str) -> list[str]:
    """Return what a reply says: its marked answers where the seat may think aloud and marks any, else all of it."""
    text = strip_thoughts(reply).strip()
    _, *answers = _ANSWER.split(text) if asked.thinks else (text,)
    return [answer.strip().rstrip("*_") for answer in answers] or [text]


@lru_cache(maxsize=1024)
def speaking(role: Role) -> Role:
    """Return a role as it answers where free text is asked for: unmasked, with neither marks nor tools."""
    return unmasked(role).model_copy(update={"reply": ReplyForm.FREE, "tools": ()})


def unmasked(role: Role) -> Role:
    """Return a role as it is where its reply may be missing or illegal although it is masked: then it forfeits."""
    if role.conduct.on_illegal is not OnIllegal.MASK:
        return role
    return role.model_copy(update={"conduct": role.conduct.model_copy(update={"on_illegal": OnIllegal.FORFEIT})})


@lru_cache(maxsize=1024)
def probed(role: Role, probe: Probe) -> Role:
    """Return a role as it answers a probe: by one of the listed answers, at temperature 1, in a request of its own."""
    return _questioned(role, probe.question.replace("{answers}", "{legal}"))


@lru_cache(maxsize=1024)
def predicting(role: Role) -> Role:
    """Return a role as it is asked what it will be shown next of the others, in a request of its own."""
    return _questioned(role, WHAT_NEXT)


@lru_cache(maxsize=1024)
def writing(role: Role, question: str, choose: bool, most_tokens: int) -> Role:
    """Return a role as it writes what fills a slot: one of a list of texts if it may ``choose``, or words."""
    asked = _questioned(role, question.replace("{", "{{").replace("}", "}}"))
    temperature = {"temperature": role.temperature}
    if choose:
        return asked.model_copy(update={**temperature, "prompt": f"{asked.prompt}\nLegal: {{legal}}"})
    truncated = {"top_k": role.top_k, "top_p": role.top_p, "min_p": role.min_p, "max_reply_tokens": most_tokens}
    return speaking(asked).model_copy(update={**temperature, **truncated})


def _questioned(role: Role, question: str) -> Role:
    changes = {"reply": ReplyForm.CHOICE, "conduct": Conduct(), "temperature": 1.0, "tools": (), "probes": ()}
    plain = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "ask": "", "demonstrations": 0, "slots": ()}
    return role.model_copy(update={**changes, **plain, "prompt": f"{{observation}}\n{question}"})


def format_reply(role: Role, action: str, form: str = "") -> str:
    """Return the shortest reply that names the action: the inverse of ``parse_reply``. A free text has no marks."""
    return action if form or role.reply is _CHOICE else f"{role.answer_open}{action}{role.answer_close}"


def illegal_reason(role: Role, text: str) -> str:
    """Return, as a sentence for the seat, why a reply that ``parse_reply`` refused is illegal.

    It never quotes the reply: what a model wrote must not return as an instruction.
    """
    if role.reply is _CHOICE:
        return "Your reply is not a legal action."
    form = f"in the form {role.answer_open}action{role.answer_close}"
    if role.ask:  # whose model may echo a word that stands for the action
        form = f"between {role.answer_open} and {role.answer_close}"
    answers = marked_answers(role, text)
    if not answers:
        return f"Your reply has no answer {form}."
    if len({_fold(answer) for answer in answers}) > 1:
        return f"Your reply has more than one answer {form}."
    return "Your answer is not a legal action."


def strip_thoughts(text: str) -> str:
    """Return a reply without its thoughts: the text after the last ``</think>``, up to a thought never closed."""
    return text.rpartition(THINK_CLOSE)[2].partition(THINK_OPEN)[0]


def marked_answers(role: Role, text: str) -> list[str]:
    """Return the contents of all marks outside thoughts, stripped; of nested marks the innermost."""
    return [answer.strip() for answer in _marks(role.answer_open, role.answer_close).findall(strip_thoughts(text))]


@lru_cache(maxsize=64)
def _marks(opening: str, closing: str) -> re.Pattern[str]:
    """Return the pattern of a marked answer, which contains neither mark itself."""
    start, end = re.escape(opening), re.escape(closing)
    return re.compile(f"{start}((?:(?!{start}|{end}).)*){end}", re.DOTALL)


def _action_of(answer: str, legal: Sequence[str]) -> str | None:
    """Return the legal action that an answer names, or None."""
    if answer in legal:
        return answer
    folded = _fold(answer)
    matches = [action for action in legal if _fold(action) == folded]
    return matches[0] if len(matches) == 1 else None


def _fold(text: str) -> str:
    """Return the text in lower case, white space collapsed to single blanks."""
    return " ".join(text.split()).casefold()
