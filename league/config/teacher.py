"""Who teaches a run's policies while they play (``[teacher]``), and how they learn the latent game (``[latent]``).

``objective.distill`` is a teacher's weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from games.common.registry import name_of
from games.common.section import Positive, Section, Share

SELF = "self"  # the teacher that is the policy in training itself

if TYPE_CHECKING:  # a type checker cannot follow types that are made at run time
    PrivilegedName = str
    DivergenceName = str
else:
    PrivilegedName, DivergenceName = name_of("privileged"), name_of("divergences")
PlayerName = Annotated[str, Field(min_length=1)]


class TeacherConfig(Section):
    """On-policy distillation: the policies' own replies are compared with a teacher's distribution over them."""

    player: str = Field(
        "",
        description="who teaches every role: a player as in `league match`, including RUN@mixture; self: the policy "
        "in training, which must then be shown more (sees)",
    )
    players: dict[str, PlayerName] = Field(
        {}, description='teachers of single roles or games, as "game/role" = player or "game" = player'
    )
    sees: tuple[PrivilegedName, ...] = Field(
        (),
        description="what teachers are shown beyond the student's observation: hidden, what the game hides from the "
        "seat, such as the others' cards or the answer; teammates, what its teammates are shown; seats, what every "
        "other seat is shown",
    )
    divergence: DivergenceName = Field(
        "reverse",
        description="divergence to minimise: reverse, KL(policy | teacher); forward, KL(teacher | policy); or "
        "jensen_shannon. Exact for choice replies, by the sampled tokens of free ones",
    )
    uniform: Share = Field(
        0.01,
        description="share of the uniform policy mixed into the teacher's choice replies, so that every KL is finite",
    )


class LatentConfig(Section):
    """How `league lab latent` clusters utterances; it teaches with the steps and the rate of ``[distil]``."""

    rounds: Positive = Field(1, description="rounds of clustering, solving and teaching")
    clusters: Positive = Field(4, description="most clusters of a role's utterances")
    embedding: Literal["ngrams", "states"] = Field(
        "ngrams",
        description="what utterances are clustered by: ngrams, their words and letters; states, the model's last "
        "hidden state at their end",
    )
    matches: Positive = Field(256, description="matches of the player with itself, whose utterances are clustered")
    samples: Positive = Field(64, description="replies drawn in each situation where replies are free")
    members: Positive = Field(
        8,
        description="how many of a cluster's likeliest actions represent it in a situation; fewer make a smaller game",
    )
