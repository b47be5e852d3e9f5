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
    """What TensorBoard gets besides each iteration's metrics."""

    time: Share = Field(
        0.02,
        description="share of the run's time that its end may wait for figures, which are drawn alongside it in a "
        "twentieth of its time, or a few seconds if that is more; 0: no figures, 1: every snapshot's",
    )
    loggers: tuple[LoggerName, ...] = Field(
        (), description="services that also receive each iteration's metrics: wandb, mlflow, trackio"
    )


class EvaluationConfig(Section):
    """What is measured whenever a snapshot is frozen."""

    matches: Count = Field(64, description="rating matches for each pair of players in each game")
    opponents: Positive = Field(2, description="earlier snapshots that a new snapshot is rated against")
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
        "tic-tac-toe), of the newest line-up at every N-th freeze; 0: never",
    )
    mixture: MetaSolverName = Field("linear", description="meta-strategy of RUN@mixture")
    language: bool = Field(
        True,
        description="for a pretrained model: KL to the untrained one on ordinary prompts, and the likelihood of a text",
    )
    language_tasks: Count = Field(
        0,
        description="generated tasks of each kind (arithmetic, reading a table, following an instruction) that a "
        "pretrained model is given at every freeze; 0: none",
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
        description="freeze a main policy only if, on a fixed set of matches, it wins more that its last snapshot "
        "lost than it loses that the snapshot won, and loses at most this share of all; None: always",
    )
    gate_until_decided: bool = Field(
        False,
        description="play the gate's matches only until it is decided, by intervals that hold at any stopping time; "
        "evaluation.matches is then an upper limit",
    )
    suite: str | None = Field(
        None,
        description="suite for evaluating the run, a name or a .toml file: none of its held-out games is trained on",
    )
    suite_matches: Count = Field(
        0,
        description="matches that the first and the last snapshot play with each opponent in each game, trained and "
        "held out, when a run with a suite ends; 0: none",
    )
    suite_opponents: tuple[str, ...] = Field(
        ("random", "mcts:100", "itself"), min_length=1, description="opponents in these matches"
    )
    train_on_held_out: bool = Field(False, description="train on held-out games of evaluation.suite anyway")
