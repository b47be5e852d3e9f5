"""Who meets whom, and in which games.

The tables ``[matchmaking]``, ``[branching]``, ``[starts]``, ``[curriculum]``, ``[exploiters]`` and ``[descent]``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from games.common import plugins
from games.common.section import LARGEST_COUNT, Count, NonNegative, Positive, Section, Share
from league.config.names import BranchingRuleName, BreedingRuleName, JointSolverName, MetaSolverName, StartRuleName

SELF_PLAY = "self_play"  # the weight that is no opponent rule's


class SharesConfig(Section):
    """A weight per matchmaking rule: its share of the main policies' matches."""

    self_play: NonNegative = Field(0.7, description="weight of the learner against itself")
    fictitious: NonNegative = Field(0.3, description="weight of uniformly drawn past players")
    pfsp: NonNegative = Field(0.0, description="weight of prioritised fictitious self-play")
    even: NonNegative = Field(
        0.0, description="weight of past players and guests, such that half the matches are won: a curriculum"
    )
    verification: NonNegative = Field(0.0, description="weight of past mains that win again, and of main exploiters")
    uncertain: NonNegative = Field(0.0, description="weight of the past players least is known about")
    partners: NonNegative = Field(0.0, description="weight of partners' snapshots, all partners equally often: co-play")
    psro: NonNegative = Field(
        0.0, description="weight of the population's meta-strategy: policy-space response oracles"
    )
    jpsro: NonNegative = Field(0.0, description="weight of a correlated equilibrium of the population: joint PSRO")


class MatchmakingConfig(SharesConfig):
    """Shares of the matches by rule, and how the rules weigh opponents."""

    psro_solver: MetaSolverName = Field("nash", description="psro: the meta-strategy to train against")
    jpsro_solver: JointSolverName = Field(
        "mgcce", description="jpsro: the coarse correlated (cce) or correlated (ce) equilibrium to train against"
    )
    response_from: Literal["newest", "best", "first"] = Field(
        "newest",
        description="psro, jpsro: the snapshot from which a best response starts after a freeze; best: the one that "
        "earns most against the new meta-strategy",
    )
    opponents: Positive = Field(4, description="how many different opponents one iteration draws from the population")
    forgetting: Share = Field(
        0.9, description="share of the live learner's payoff counts kept from one iteration to the next"
    )
    group_size: Positive = Field(
        1, description="matches from the same start with the same players; rules that compare within groups need 2"
    )
    explore: Share = Field(
        0.0,
        description="self_play: one seat, by turns, draws this share of its replies evenly",
    )
    tree: int | None = Field(
        None,
        ge=2,
        le=LARGEST_COUNT,
        description="replies to the same prompt at every turn; a start is played tree ** (the game's turns) times",
    )
    swap_every: Positive | None = Field(
        None, description="iterations after which live policies move by one seat in self-play; None: never"
    )
    guests: tuple[str, ...] = Field(
        (),
        description="players from outside in the population: random, mcts:100, best_response:DIR, openai:MODEL, … "
        "(no run)",
    )
    keep: Positive | None = Field(
        None,
        description="how many of a policy's snapshots stay opponents; older ones retire unless the meta-strategy uses "
        "them",
    )

    @model_validator(mode="after")
    def _some_rule_has_weight(self) -> MatchmakingConfig:
        if not any(self.shares.values()):
            rules = ", ".join(f"matchmaking.{rule}" for rule in self.shares)
            raise ValueError(f"{rules} are all 0, so no match can be drawn. Give at least one of them a weight.")
        if self.tree and self.group_size > 1:
            raise ValueError("matchmaking.tree sets how often a start is played; leave matchmaking.group_size at 1.")
        past_rules = [rule for rule, weight in self.opponent_shares.items() if weight]
        if self.swap_every and past_rules:
            raise ValueError(
                f"matchmaking.swap_every moves live policies to other seats, where matchmaking.{past_rules[0]} has no "
                "snapshots of them. Give self_play all the weight."
            )
        if self.psro and self.jpsro:
            raise ValueError("matchmaking.psro and matchmaking.jpsro cannot both have a weight: choose one of them.")
        return self

    @property
    def shares(self) -> dict[str, float]:
        """The weight of every rule, including plugins'; rules that the run does not name have weight 0."""
        rules = (*SharesConfig.model_fields, *plugins.loaded("matchmaking"))
        return {rule: float(getattr(self, rule, None) or 0.0) for rule in rules}

    @property
    def opponent_shares(self) -> dict[str, float]:
        """The weight of every rule by which main policies meet past players."""
        return {rule: weight for rule, weight in self.shares.items() if rule != SELF_PLAY}

    def matches_of_start(self, turns: int) -> int:
        """Return the number of matches from the same start, in a game of at most ``turns`` turns."""
        return self.tree**turns if self.tree else self.group_size


class BranchingConfig(Section):
    """Matches that fork at chosen turns, within a budget of replies."""

    rule: BranchingRuleName | None = Field(
        None,
        description="where matches branch: where the policy is least certain, or where outcomes after a turn differ "
        "most; None: nowhere",
    )
    replies: Positive = Field(
        4096, description="most replies of one game in an iteration, whole matches and forks together"
    )
    width: Positive = Field(1, description="forks from one branch point, besides the match that led there")


class StartsConfig(Section):
    """A pool of starts, and the rule by which an iteration's deals are drawn from it."""

    rule: StartRuleName | None = Field(
        None, description="how starts are chosen; None: every deal is new, and there is no pool"
    )
    size: Positive = Field(256, description="starts of each game in the initial pool")
    floor: Share = Field(0.1, description="share of the deals drawn uniformly from all starts, whatever the rule says")
    unplayed: Share = Field(0.5, description="share of the deals given to starts never played, while there are any")
    forgetting: Share = Field(
        0.9, description="how much weight a start's earlier matches keep each time an iteration plays it again"
    )
    middles: Count = Field(
        0,
        description="how many matches of each game and iteration leave a start from their middle: their deal, played "
        "up to a random turn",
    )
    failures: Count = Field(
        0,
        description="how many failed attempts of each game and iteration leave a new task, in games where they can, "
        "such as repair: a failed repair leaves a new bug",
    )
    alike: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        1.0,
        description="a written task is dropped if its text shares this part of its character pairs with one in the "
        "pool; 1: only if the text is the same",
    )
    score: Literal["value_loss", "regret"] = Field(
        "value_loss",
        description="plr: mean distance of a match's return from the mean of earlier ones, or distance of the best "
        "match from the mean",
    )
    temperature: Annotated[float, Field(gt=0.0)] = Field(
        0.1, description="plr: a start of rank r by its score has the weight (1 / r) ** (1 / temperature)"
    )
    staleness: Share = Field(0.1, description="plr: share drawn by how long ago a start was played")
    power: NonNegative = Field(1.0, description="hard: a start that was ever solved has (1 - solve rate) ** power")
    keep: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        0.25, description="variance: share of the starts that are played, those with the largest spread"
    )
    ramp: Share = Field(0.5, description="staged: share of the iterations after which starts of all sizes are played")
    expert: str = Field(
        "scripted:optimal", min_length=1, description="backward: the scripted player whose matches are shortened"
    )
    mastered: Share = Field(
        0.5, description="backward: solve rate at which a start is followed by one that is one action shorter"
    )


PREVIOUS = "previous"  # curriculum.control: the value that is not a player from outside


class CurriculumConfig(Section):
    """Games that are neither trivial nor impossible, after XLand (Open-Ended Learning Team 2021, arXiv 2107.12808).

    Scores are returns scaled to a game's range, from 0 to 1.
    """

    matches: Count = Field(
        0,
        description="matches of the newest snapshots in each game whenever main policies are frozen, with as many "
        "each for the control and for the best snapshots so far; 0: games are not judged",
    )
    filter: bool = Field(
        True,
        description="games that pass get the matches of the others until they are judged again; false: only measure",
    )
    control: Annotated[str, Field(min_length=1)] = Field(
        "random",
        description="what the newest snapshots are compared with: a scripted player, or previous, the snapshots before",
    )
    high: Share = Field(0.9, description="a score above this is high")
    solved: Share = Field(0.9, description="a game is trivial if at least this share of the scores is high")
    margin: Share = Field(0.0, description="a score is better if it exceeds the control's by more than this")
    better: Share | None = Field(
        None, description="a game is impossible if at most this share of the scores is better; None: no game is"
    )
    sufficient: Share = Field(0.75, description="a game is also trivial if the control's mean score is at least this")
    kept: Share = Field(
        0.25, description="share of its matches that a game keeps while it is not drawn, so that it is not forgotten"
    )
    active: Positive | None = Field(None, description="most games to train on at a time, drawn from those that pass")
    most_matches: Count = Field(
        0, description="most matches for all judging together; 0: as many as snapshots and games need"
    )

    @property
    def controls(self) -> tuple[str, ...]:
        """The outside player that is the control, if there is one."""
        return (self.control,) if self.matches and self.control != PREVIOUS else ()


class ExploitersConfig(Section):
    """How exploiters (``policies.NAME.league_role``) train, freeze and reset. In rates a draw counts 1/2."""

    share: Share = Field(0.25, description="share of every game's matches that each exploiter or partner trains in")
    together: Share = Field(
        0.0,
        description="partner: share of its matches in which it meets other partners' snapshots, so that partners come "
        "to agree; 0: each plays alone",
    )
    hopeless: Share = Field(
        0.2,
        description="main exploiter: below this win rate against the live main it meets main snapshots of its own "
        "level",
    )
    freeze_at: Share = Field(
        0.7, description="win rate at which an exploiter is frozen: against the live main, or against every past player"
    )
    freeze_after: Positive = Field(40, description="iterations after which it is frozen regardless of its win rate")
    freeze_from: Positive = Field(
        10, description="iterations before which it is not frozen, regardless of its win rate"
    )
    league_reset: Share = Field(0.25, description="league exploiter: probability of a reset once it is frozen")


class DescentConfig(Section):
    """Where a policy comes from, in a population of runs that is bred."""

    rule: BreedingRuleName = Field(
        "mutate",
        description="how a member continues; go_on: from itself; go_back: from its earlier state, if it got worse; "
        "distil: from its mixture; mutate: population-based training; merge, cross: from several parents' weights; "
        "generations: from the last generation's play",
    )
    between: BreedingRuleName | None = Field(
        None,
        description="the rule that replaces descent.rule after every descent.every generations, as XLand breeds "
        "within its generations and distils between them",
    )
    every: Positive = Field(4, description="between: generations by descent.rule between two uses of it")
    members: Annotated[int, Field(ge=2, le=64)] = Field(4, description="runs of a generation")
    generations: Positive = Field(5, description="generations, over which iterations are spread evenly")
    confidence: float = Field(
        0.95, ge=0.5, lt=1.0, description="confidence at which one run counts as better than another"
    )
    matches: Positive = Field(400, description="matches to compare two runs where no exact value is known")
    mutate: dict[str, tuple[float, float]] = Field(
        {"optimizer.learning_rate": (1e-6, 1e-1)},
        description='mutate: settings that change, with their least and greatest values: "objective.entropy" = [a, b]',
    )
    factor: float = Field(5.0, gt=1.0, description="mutate: a setting is multiplied by this, or divided by it")
    resample: Share = Field(
        0.25, description="mutate: probability that a setting is drawn from its whole range instead"
    )
    merge: Literal["weighted", "ties"] = Field("weighted", description="merge: mean of weights, or TIES-Merging")
    parents: Positive = Field(2, description="merge: how many of the best runs are merged")
    access: Share = Field(
        0.5, description="generations: initial weight of imitating the last generation's play, which falls to 0"
    )

    @field_validator("mutate")
    @classmethod
    def _ranges_rise(cls, ranges: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        for name, (low, high) in ranges.items():
            if not 0.0 < low < high:
                raise ValueError(
                    f"descent.mutate: the range of {name} is [{low:g}, {high:g}]; it should rise and be above 0."
                )
        return ranges
