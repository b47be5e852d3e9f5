"""What a trained model's hidden states know about its opponents, and what play by such a belief is worth.

    python -m benchmarks.studies.opponents opponents [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

In each game a pocket model is trained by self-play; its newest snapshot then meets known players on the same deals, in
both seats. A linear probe of its hidden states names, at each of its turns, which of them it meets and what that one
does next, tried on deals that it was not fitted to. Beside it stand chance, a table of the answers after exactly what
the seat sees, the exact Bayesian, and a probe of the model before training, which reads the same: probes can find in
random features what no model has made its own (compare Hewitt and Liang 2019, arXiv 1909.03368). In the signalling game
the others are its own newest snapshot, that of the next seed, which has a code of its own, and a script with a third.
Then what play by a belief earns, exactly: the best response to Bayes' belief, to the probe's, and to each of them, told
who it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.studies.runs import Result, load_settings, run_study, sweep, table_lines
from league import RunConfig, make_game
from league.lab.comparisons.opponent_models import OpponentModels, Prediction, measure_opponents
from league.population.players.engines import Engines
from league.population.players.player import resolve

MATCHES = 1_000  # beside each of the known players
COMMON = """
threads = 1
episodes_kept = 0
snapshot_every = 20
board.time = 0.0
matchmaking = { self_play = 0.8, fictitious = 0.2, opponents = 1 }
evaluation = { matches = 0, anchors = [], exact = false }
"""
CARDS = """
objective = { name = "ppo", clip_low = 0.9, clip_high = 9.0, kl_old = 2.0 }
optimizer = { learning_rate = 1e-3, learning_rate_end = 2e-4, inner_steps = 4, minibatch_prompts = 128 }
"""
SIGNALS = """
objective = { name = "ppo", clip_low = 0.9, clip_high = 9.0, kl_old = 0.5 }
optimizer = { learning_rate = 2e-3, learning_rate_end = 2e-4, inner_steps = 4, minibatch_prompts = 128 }
"""


class Setting(NamedTuple):
    """How a game's model is trained, and whom it meets then."""

    game: str
    toml: str
    types: tuple[str, ...]  # {own} is the model's run, {next} that of the next seed


SETTINGS = {
    "kuhn": Setting(
        "kuhn_poker",
        CARDS + "iterations = 60\ngames.kuhn_poker = { matches = 512, entropy = 0.15, entropy_end = 0.04 }",
        ("random", "always:bet", "always:pass", "equilibrium", "{own}@main-000020"),
    ),
    "leduc": Setting(
        "leduc_poker",
        CARDS + "iterations = 40\ngames.leduc_poker = { matches = 256, entropy = 0.15, entropy_end = 0.04 }",
        ("random", "always:call", "equilibrium", "{own}@main-000020"),
    ),
    "signals": Setting(
        "signalling(rounds=2,form=1)",
        SIGNALS + 'iterations = 80\ngames."signalling(rounds=2,form=1)" = '
        "{ matches = 512, entropy = 0.3, entropy_end = 0.05 }",
        ("{own}", "{next}", "scripted:good"),
    ),
}
PROBE, UNTRAINED = "linear probe of its hidden states", "linear probe before training"
COLUMNS = {"first": "at its first turn", "second": "at its second", "action": "right about the next action"}
PLAYED = {
    "equilibrium": "an equilibrium, whoever it is",
    "itself": "the model as it plays",
    "by_probe": "best response to the probe's belief",
    "untrained": "best response to the probe's before training",
    "by_belief": "best response to Bayes' belief",
    "knowing": "best response to each, told who it is",
}


def configs() -> dict[str, RunConfig]:
    """Return the configuration of the runs by setting."""
    return {name: load_settings(COMMON + setting.toml) for name, setting in SETTINGS.items()}


class Measured(NamedTuple):
    """What is known of whom a model plays with."""

    trained: OpponentModels
    untrained: OpponentModels  # the same matches, read by the model before training


def measure(setting: Setting, own: Path, following: Path, seed: int) -> Measured:
    """Return what the newest snapshot of a run knows about its opponents."""
    spec, names = make_game(setting.game).spec, [text.format(own=own, next=following) for text in setting.types]
    with Engines() as engines:
        player, before, *types = (resolve(text, spec, engines) for text in (str(own), f"{own}@main-000000", *names))
        return Measured(
            measure_opponents(player, types, MATCHES, seed),
            measure_opponents(player, types, MATCHES, seed, reader=before),
        )


def predicted(found: Sequence[Measured]) -> list[dict[str, Any]]:
    """Return a condition for each predictor, with a run for each seed."""
    rows: dict[str, list[dict[str, float]]] = {}
    for measured in found:
        kinds, actions = (_all_shares(measured, question) for question in ("type", "action"))
        for name, shares in kinds.items():
            action = {"action": actions[name][0]} if name in actions else {}
            figures = dict(zip(("figure", "first", "second"), shares, strict=True))
            rows.setdefault(name, []).append(figures | action)
    return [{"name": name, "runs": runs} for name, runs in rows.items()]


def _all_shares(measured: Measured, question: str) -> dict[str, tuple[float, float, float]]:
    """Return ``_shares`` of a question, with those of the probe before training; {} where it was never asked."""
    trained, untrained = (getattr(models, question) for models in measured)
    if trained is None:
        return {}
    shares = _shares(trained)
    if untrained.probe is not None:
        shares[UNTRAINED] = _shares(untrained)[PROBE]
    return shares


def _shares(prediction: Prediction) -> dict[str, tuple[float, float, float]]:
    """Return by predictor how often it is right: over all, at its first turn, and at its second where there is one."""
    last = min(1, max(prediction.table.by_turn))
    shares = {
        name: (found.overall.mean, found.by_turn[0].mean, found.by_turn[last].mean)
        for name, found in (
            ("the most frequent answer", prediction.majority),
            (PROBE, prediction.probe),
            ("table of what it sees", prediction.table),
        )
        if found is not None
    }
    shares["a uniform guess"] = (1.0 / prediction.answers,) * 3
    if prediction.bayes is not None:
        shares["exact Bayesian"] = (
            prediction.bayes.overall,
            prediction.bayes.by_turn[0],
            prediction.bayes.by_turn[last],
        )
    return shares


def played(found: Sequence[Measured]) -> list[dict[str, Any]]:
    """Return a condition for each way of playing, with a run for each seed; what knows nothing comes first."""
    values = []
    for trained, untrained in found:
        if trained.play is not None and untrained.play is not None:
            values.append(trained.play._asdict() | {"untrained": untrained.play.by_probe})
    names = [name for name in PLAYED if all(value[name] is not None for value in values)]
    return [{"name": PLAYED[name], "runs": [{"figure": value[name]} for value in values]} for name in names]


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Train all runs that are not in ``keep`` yet and measure them; return two tables a game."""
    runs, tables = sweep(configs(), seeds, keep, workers=workers), []
    for name, setting in SETTINGS.items():
        paths = [Path(runs[name, seed].run.path) for seed in seeds]
        following = [*paths[1:], paths[0]]
        found = [measure(setting, *who) for who in zip(paths, following, seeds, strict=True)]
        beside = ", ".join(text.format(own="its run", next="the next seed's run") for text in setting.types)
        told: dict[str, Any] = {"game": f"{setting.game} beside {beside}", "less_is_better": False, "places": 3}
        right = {"figure": "share of turns at which it is right who that is", "columns": COLUMNS}
        earned = {"figure": "mean return a match", "columns": {}}
        tables += [told | right | {"conditions": predicted(found)}, told | earned | {"conditions": played(found)}]
    return {"study": "opponents", "seeds_used": list(seeds), "tables": tables}


def main() -> None:
    """Train, measure and print."""
    run_study(__doc__, ["opponents"], measure_study, table_lines)


if __name__ == "__main__":
    main()
