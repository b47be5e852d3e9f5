"""The tables ``[evaluation]`` and ``[board]``: how snapshots are rated and measured, and what TensorBoard shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from games.common.registry import name_of
from games.common.section import Count, Positive, Section, Share
from league.config.names import MetaSolverName

if TYPE_CHECKING:
    LoggerName = str
else:
    LoggerName = name_of("loggers")


class BoardConfig(Section):
    """What TensorBoard gets beside the metrics of each iteration."""

    time: Share = Field(
        0.02,
        description="most of the run's time that its end waits for figures, which are drawn beside the run, or some "
        "seconds if that is less; 0: no figures, 1: until all are drawn",
    )
    loggers: tuple[LoggerName, ...] = Field(
        (), description="services that also get the metrics of each iteration: wandb, mlflow, trackio"
    )


class EvaluationConfig(Section):
    """What is measured whenever a snapshot is frozen."""

    matches: Count = Field(64, description="rating matches of a pair of players in each game")
    opponents: Positive = Field(2, description="earlier snapshots a new snapshot is rated against")
    pairing: Literal["uniform", "round_robin", "informative"] = Field(
        "uniform",
        description="which pairs are rated: the new snapshot against random opponents, all pairs, or the most "
        "informative pairs",
    )
    anchors: tuple[str, ...] = Field(
        ("random",),
        description="scripted players that every snapshot is rated against; the first one's rating is fixed",
    )
    exact: bool = Field(True, description="compute exact exploitability where the game is small enough")
    exact_limit: Positive = Field(1_000, description="information states of the largest game that is tabulated")
    large_every: Count = Field(
        0,
        description="exact exploitability in large games too (liar's dice, goofspiel with hidden bids, phantom "
        "tic-tac-toe), of the newest line-up of every so many freezes; 0: never",
    )
    mixture: MetaSolverName = Field("linear", description="meta-strategy of RUN@mixture")
    language: bool = Field(
        True,
        description="of a pretrained model, KL to the untrained one on ordinary prompts, and a text's likelihood",
    )
    gate: float | None = Field(
        None,
        ge=0.5,
        lt=1.0,
        description="freeze a main policy only if, with this confidence, it beats its last snapshot; None: always",
    )
    gate_flips: float | None = Field(
        None,
        ge=0.0,
        le=1.0,
        description="freeze a main policy only if, on the same matches every time, it wins more of those that its "
        "last snapshot lost than it loses of those that it won, the latter at most this share of all; None: always",
    )
    gate_until_decided: bool = Field(
        False,
        description="play the gate's matches only until it is decided, by intervals that hold at any stopping time; "
        "evaluation.matches is then the most",
    )
    suite: str | None = Field(
        None,
        description="suite that the run will be evaluated by, a name or a .toml file: none of its held-out games is "
        "trained on",
    )
    suite_matches: Count = Field(
        0,
        description="matches of the first and of the last snapshot with each opponent in each game, trained and "
        "held out, when a run with a suite ends; 0: none",
    )
    suite_opponents: tuple[str, ...] = Field(
        ("random", "mcts:100", "itself"), min_length=1, description="opponents of these matches"
    )
    train_on_held_out: bool = Field(False, description="train on held-out games of evaluation.suite anyway")
