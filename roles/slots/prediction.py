"""``prediction``: what the seat expects of the other players' next act, written before each act of its own.

As in ProAgent (Zhang et al., arXiv:2308.11339) the act is conditioned on the prediction: it stands in the act's prompt,
in the words of the act that is predicted (``choices``, or free text). ``league.training.evidence.stated`` says which
predictions came true.
"""

from __future__ import annotations

from pydantic import field_validator

from roles.slots.rule import Sight, SlotRule, TextWanted, Writing


class PredictionWriting(Writing):
    """Settings of ``prediction``."""

    @field_validator("by")
    @classmethod
    def _of_its_own(cls, by: str) -> str:
        if by:
            raise ValueError(f"a seat predicts for itself, not by = {by!r}. Leave it out, or take the rule plan.")
        return by


def prediction(sight: Sight, _settings: PredictionWriting) -> str:
    """Show the latest prediction, which was made of what the seat sees now."""
    return sight.written[-1].text if sight.written else ""


def _asks(sight: Sight, _settings: PredictionWriting) -> TextWanted | None:
    return None if sight.over else TextWanted(sight.game.observe(sight.seat))


RULE = SlotRule(prediction, settings=PredictionWriting, asks=_asks, question="What will the other player do next?")
