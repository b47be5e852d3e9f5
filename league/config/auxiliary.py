"""Rewards and losses in addition to the game's own: the tables ``[beliefs]``, ``[shaping]`` and ``[prediction]``.

``[beliefs]`` says whether seats are asked what they believe, and rewards changes of belief; ``[shaping]`` holds
rewards that need no beliefs; ``[prediction]`` lets policies learn from what others say and do, and from the output of
tools.
"""

from __future__ import annotations

from pydantic import Field

from games.common.section import Section
from learners.losses.prediction import PredictionConfig as PredictionConfig
from learners.losses.term import WeightedTerm


class PotentialTerm(WeightedTerm):
    """A reward for beliefs, paid directly or as a potential."""

    potential: bool = Field(
        False,
        description="pay the difference of a potential that ends at 0 instead, so that optimal play stays optimal",
    )


class BeliefsConfig(Section):
    """Probes of role cards: questions about the present position, which are not moves."""

    ask: bool = Field(False, description="ask the probes of the role cards; done anyway if one of the weights is set")
    speaking: PotentialTerm = Field(
        PotentialTerm(), description="pays a message for the change in the other seats' mean belief in the truth"
    )
    gain: PotentialTerm = Field(
        PotentialTerm(), description="pays for what a seat has learned about the truth since its last turn, in bits"
    )

    listening: WeightedTerm = Field(
        WeightedTerm(), description="adds minus the mean log-probability of the truth at probes to the loss, in nats"
    )

    @property
    def terms(self) -> dict[str, WeightedTerm]:
        """All uses of beliefs by name."""
        return {"speaking": self.speaking, "gain": self.gain, "listening": self.listening}

    @property
    def potentials(self) -> dict[str, PotentialTerm]:
        """The uses of beliefs that may be paid as potentials, by name."""
        return {"speaking": self.speaking, "gain": self.gain}

    @property
    def asked(self) -> bool:
        """Whether probes are asked."""
        return self.ask or any(term.on for term in self.terms.values())


class PreferredTerm(WeightedTerm):
    """A reward for matches that a judge prefers, and the judge."""

    judge: str = Field(
        "",
        description="who compares matches of one start: a player as in `league match` that can answer questions, such "
        "as a run or hf:NAME; empty: the game, if it judges its own matches",
    )
    question: str = Field(
        "Which of the two is better? Answer with first or second.",
        min_length=1,
        description="question to a judging player, after both matches",
    )


class ShapingConfig(Section):
    """Rewards in addition to the game's own that need no beliefs."""

    preferred: PreferredTerm = Field(
        PreferredTerm(),
        description="pays a match the share of the other matches from its start that a judge likes less",
    )
    agreement: WeightedTerm = Field(
        WeightedTerm(),
        description="pays a free reply whose thoughts end on the action it plays, and charges one whose thoughts end "
        "on another",
    )
    prediction: WeightedTerm = Field(
        WeightedTerm(),
        description="credits a prediction that a card's slot has written, and no other turn, for coming true",
    )

    @property
    def terms(self) -> dict[str, WeightedTerm]:
        """All rewards by name."""
        return {"preferred": self.preferred, "agreement": self.agreement, "prediction": self.prediction}
