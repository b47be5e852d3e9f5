"""The tables ``[matchmaking]`` and ``[exploiters]``: which players meet, and how exploiters train."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from games.common import plugins
from games.common.section import LARGEST_COUNT, NonNegative, Positive, Section, Share
from league.config.evaluation import MetaSolver


class SharesConfig(Section):
    """A weight per matchmaking rule: its share of the main policies' matches."""

    self_play: NonNegative = Field(0.7, description="weight of the learner against itself")
    fictitious: NonNegative = Field(0.3, description="weight of uniformly drawn past players")
    pfsp: NonNegative = Field(0.0, description="weight of prioritised fictitious self-play")
    verification: NonNegative = Field(0.0, description="weight of past mains that win again, and of main exploiters")
    uncertain: NonNegative = Field(0.0, description="weight of the past players against whom least is known")
    psro: NonNegative = Field(
        0.0, description="weight of the population's meta-strategy: policy-space response oracles"
    )
    jpsro: NonNegative = Field(0.0, description="weight of a correlated equilibrium of the population: joint PSRO")


class MatchmakingConfig(SharesConfig):
    """Shares of the matches by rule, and how the rules weigh opponents."""

    pfsp_weighting: Literal["hard", "variance", "even"] = Field("hard", description="f(x) of PFSP")
    pfsp_power: NonNegative = Field(2.0, description="p of f_hard(x) = (1 - x)^p")
    beaten: Share = Field(
        0.3, description="verification: main exploiters' snapshots that win more than 1 - this come back"
    )
    forgotten: Share = Field(0.7, description="verification: past mains against whom less than this is won come back")
    psro_solver: MetaSolver = Field("nash", description="psro: the meta-strategy that is trained against")
    jpsro_solver: Literal["mgcce", "mgce", "mecce", "mece"] = Field(
        "mgcce", description="jpsro: the coarse correlated (cce) or correlated (ce) equilibrium that is trained against"
    )
    response_from: Literal["newest", "best", "first"] = Field(
        "newest",
        description="psro, jpsro: the snapshot that a best response starts from after a freeze; best: the one that "
        "earns most against the new meta-strategy",
    )
    opponents: Positive = Field(4, description="different opponents that one iteration draws from the population")
    forgetting: Share = Field(
        0.9, description="share of the live learner's payoff counts kept from one iteration to the next"
    )
    group_size: Positive = Field(
        1, description="matches from the same start with the same players; rules that compare within groups need 2"
    )
    tree: int | None = Field(
        None,
        ge=2,
        le=LARGEST_COUNT,
        description="replies to the same at every turn: a start is played tree ** (the game's turns) times",
    )
    swap_every: Positive | None = Field(
        None, description="iterations after which live policies move on by one seat, in self-play; None: they stay"
    )
    guests: tuple[str, ...] = Field(
        (),
        description="players from outside in the population: random, mcts:100, best_response:DIR, openai:MODEL, … "
        "(no run's)",
    )
    keep: Positive | None = Field(
        None, description="snapshots of a policy that stay opponents; others retire unless the meta-strategy uses them"
    )

    @model_validator(mode="after")
    def _some_rule_has_weight(self) -> MatchmakingConfig:
        if not any(self.shares.values()):
            rules = ", ".join(f"matchmaking.{rule}" for rule in self.shares)
            raise ValueError(f"{rules} are all 0, so no match can be drawn. Give at least one of them a weight.")
        if self.tree and self.group_size > 1:
            raise ValueError("matchmaking.tree sets how often a start is played; leave matchmaking.group_size at 1.")
        past_rules = [rule for rule, weight in self.shares.items() if rule != "self_play" and weight]
        if self.swap_every and past_rules:
            raise ValueError(
                f"matchmaking.swap_every moves live policies to other seats, where matchmaking.{past_rules[0]} has no "
                "snapshots of theirs. Give self_play all the weight."
            )
        if self.psro and self.jpsro:
            raise ValueError("matchmaking.psro and matchmaking.jpsro cannot both have a weight: choose one of them.")
        return self

    @property
    def shares(self) -> dict[str, float]:
        """The weight of every rule, plugins' too: those that the run does not name have none."""
        rules = (*SharesConfig.model_fields, *plugins.loaded("matchmaking"))
        return {rule: float(getattr(self, rule, None) or 0.0) for rule in rules}

    def matches_of_start(self, turns: int) -> int:
        """Return the number of matches from the same start, in a game of at most ``turns`` turns."""
        return self.tree**turns if self.tree else self.group_size

    @property
    def meta_solver(self) -> str:
        """The meta-strategy that is trained against, if one is."""
        return self.jpsro_solver if self.jpsro else self.psro_solver


class ExploitersConfig(Section):
    """How exploiters (``policies.NAME.league_role``) train, freeze and reset. In rates a draw counts 1/2."""

    share: Share = Field(0.25, description="share of every game's matches that each exploiter trains in")
    hopeless: Share = Field(
        0.2,
        description="main exploiter: below this rate against the live main it meets main's snapshots at its own level",
    )
    freeze_at: Share = Field(
        0.7, description="rate at which an exploiter is frozen: against the live main, or against every past player"
    )
    freeze_after: Positive = Field(40, description="iterations after which it is frozen whatever its rate")
    freeze_from: Positive = Field(10, description="iterations before which it is not frozen, whatever its rate")
    league_reset: Share = Field(0.25, description="league exploiter: probability of a reset once it is frozen")
