"""How quickly a player's weights fall in with a stranger: what it earns after 0, 1, 2, … updates against it.

For each seating of the player (A) and the stranger (B), a run of its own in a temporary folder begins at the player's
snapshots and trains them in A's seats, while the stranger keeps B's (``roles.player``). Its settings are those of the
player's run as they are when a run begins, but that exact credit, which needs every seat trained, gives way to returns;
its iterations are the updates. After k updates the snapshots of each seating play the matches of that seating, so that
after none the player itself is measured, on equal deals.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from arena.remote.usage import Usage, usage_of_both
from games.common.errors import UsageError
from games.spec import GameSpec
from league.config import RunConfig
from league.config.engine import AsyncLearnersConfig, ProgramsConfig
from league.config.evaluation import BoardConfig, EvaluationConfig
from league.config.learning import DEFAULT_LEAGUE_ROLE
from league.config.load import load, seat_roles, to_toml
from league.config.matchmaking import SELF_PLAY, CurriculumConfig, StartsConfig
from league.config.run import GameConfig, ModelConfig
from league.lab.comparisons.adaptation import Adaptation, AdaptationMatches, check_seats, rows_of, seats_played
from league.population.evaluation.head_to_head import A, seatings
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.population.players.scripted import scripted_player
from league.population.storage.population import Snapshot, snapshot_id
from league.population.storage.run_dir import Run, find_run
from league.training.evidence.teacher_names import AVERAGES
from league.training.evidence.turn_values import computed_by
from learners.advantages import DEFAULT_RULE
from learners.values.estimator import How
from roles.role import Role

UPDATES = (0, 1, 2, 4, 8)  # after which a player is measured
CONFIG = "further.toml"  # in the temporary folder: the settings of the next run


class Trainee(NamedTuple):
    """A player that can be trained further: the run that it is from, and the snapshot that sits in each seat."""

    run: Run
    snapshots: tuple[Snapshot, ...]  # [seats]


class Further(NamedTuple):
    """How a player is trained further."""

    updates: Sequence[int] = UPDATES  # after which it is measured
    seed: int = 0
    changes: Sequence[str] = ()  # of its run's settings, as key=value


class FurtherRuns(NamedTuple):
    """A player that was trained further: a run for each seating."""

    learner: Trainee
    runs: Mapping[tuple[int, ...], Path]  # by seating
    usage: dict[str, Usage]  # of players behind servers


def train_further(learner: Trainee, stranger: str, spec: GameSpec, how: Further, folder: Path) -> FurtherRuns:
    """Train a player against a stranger in every seating, each in a run in ``folder``, which is empty.

    Raises UsageError for settings or a stranger that no run can have, KeyboardInterrupt when training is stopped.
    """
    from league.training.loop.session import train  # torch is slow to import

    runs, usage = dict[tuple[int, ...], Path](), dict[str, Usage]()
    for seating in seatings(spec):
        runs[seating] = folder / "".join("ab"[side] for side in seating)
        config = further_config(learner, stranger, spec, seating, how, folder)
        outcome = train(config, runs[seating])
        if not outcome.finished:
            raise KeyboardInterrupt("Stopped. Nothing is kept of the updates.")
        usage = usage_of_both(usage, outcome.usage)
    return FurtherRuns(learner, runs, usage)


def after_updates(
    trained: FurtherRuns, updates: int, player: Player, stranger: Player, engines: Engines, measure: AdaptationMatches
) -> list[Adaptation]:
    """Return what a player, which is resolved, earns with a stranger after so many updates, as ``adaptation`` does."""
    played = [
        earned
        for seating in seatings(player.spec)
        for earned in seats_played(_updated(player, trained, seating, updates, engines), stranger, measure, seating)
    ]
    return rows_of(player, played, measure, updates)


def learner_of(text: str, spec: GameSpec) -> Trainee:
    """Return the player of that name as it can be trained in a game.

    Raises UsageError for a player without weights or settings of a run, and for a game where it could not learn.
    """
    check_seats(spec)
    name, _, which = text.partition("@")
    others = "hf:", "openai:", "bayes:", "best_response:"
    path = None if name.startswith(others) or scripted_player(text) else find_run(name)
    if path is None:
        raise UsageError(
            f"{text} is no snapshot of a run, so that it has no weights, or no settings by which they could be "
            "updated. Name a run or one of its snapshots, RUN@SNAPSHOT, or leave out --updates."
        )
    if which in AVERAGES:
        raise UsageError(f"{text} is made of several snapshots. Name the one to update: {name}@SNAPSHOT.")
    run, roles = Run(path), seat_roles(Run(path).config.roles, spec)
    if fixed := [role.name for role in roles if role.fixed]:
        raise UsageError(
            f"In {name} {fixed[0]} of {spec.alias} is a fixed player's, not the run's to update. Name a snapshot, "
            f"{name}@SNAPSHOT, which takes every seat, of a run without roles.player."
        )
    if len({role.name for role in roles}) < len(roles):
        raise UsageError(
            f"Several seats of {spec.alias} have a role of the same name, so that none can be kept for the stranger. "
            "Name them apart in the role cards (roles.cards), or leave out --updates."
        )
    found = tuple(run.members(which, role.policy, spec.name, role.seat)[0][0] for role in roles)
    return Trainee(run, found)


def _updated(player: Player, trained: FurtherRuns, seating: tuple[int, ...], updates: int, engines: Engines) -> Player:
    """Return the player with the snapshots of a further run in its seats of a seating."""
    members, others, kept = list(player.members), player.engines(), dict(player.kept)
    for seat in (seat for seat, side in enumerate(seating) if side == A):
        snapshot = snapshot_id(trained.learner.snapshots[seat].policy, updates)
        after = resolve(f"{trained.runs[seating]}@{snapshot}", player.spec, engines)
        members[seat] = after.members[seat]
        others |= after.engines()
        kept |= dict(after.kept)
    return replace(player, members=tuple(members), others=tuple(others.items()), kept=tuple(kept.items()))


def further_config(
    learner: Trainee, stranger: str, spec: GameSpec, seating: tuple[int, ...], how: Further, folder: Path
) -> RunConfig:
    """Return the settings of a run that begins at a player's snapshots and trains them in its seats with a stranger.

    All that is no part of an update is left out: exploiters, past opponents, starts, evaluation, services. Adapters are
    merged into their base, in ``folder``, and adapters of the same shape are trained on it.
    """
    run, game = learner.run, spec.name
    roles = seat_roles(run.config.roles, spec)
    names = [f"{game}/{role.name}" for role in roles]
    own = {name: learner.snapshots[seat] for seat, name in enumerate(names) if seating[seat] == A}
    models = {its.policy: _begins_at(run, its, folder) for its in own.values()}
    base = _beside_a_stranger(run.config, game, roles).model_copy(
        update={
            "seed": how.seed,
            "distil_every": 0,
            "episodes_kept": 0,
            "games": {game: run.config.games.get(game, GameConfig()).model_copy(update={"every": 1})},
            "curriculum": CurriculumConfig(),
            "roles": run.config.roles.model_copy(
                update={
                    "policy": {name: its.policy for name, its in own.items()},
                    "player": {name: stranger for name in names if name not in own},
                    "wording": run.config.roles.wording or "brief",
                }
            ),
            "model": next(iter(models.values())),
            "cold_start": run.config.cold_start.model_copy(update={"steps": 0, "matches": 1, "own_replies": 0}),
            "policies": {
                name: run.config.policy(name).model_copy(
                    update={
                        "league_role": DEFAULT_LEAGUE_ROLE,
                        "held_out": False,
                        "frozen": False,
                        "every": 1,
                        "tokens": 0,
                        "matches": None,
                        "model": model.model_dump(),
                    }
                )
                for name, model in models.items()
            },
            "alternate": 0,
            "programs": ProgramsConfig(),
            "async_learners": AsyncLearnersConfig(),
            "matchmaking": run.config.matchmaking.model_copy(
                update={**dict.fromkeys(run.config.matchmaking.shares, 0.0), SELF_PLAY: 1.0}
                | {"guests": (), "swap_every": None, "keep": None}
            ),
            "starts": StartsConfig(),
            "evaluation": EvaluationConfig(matches=0, anchors=(), exact=False, language=False),
            "board": BoardConfig(time=0.0),
        }
    )
    path = folder / CONFIG
    path.write_text(tomli_w.dumps(_as_it_begins(tomllib.loads(to_toml(base)), [game, *names])), encoding="utf-8")
    lengths = f"iterations={max(how.updates)}", f"snapshot_every={math.gcd(*how.updates)}"
    return load(str(path), [*how.changes, *lengths], wording="brief")


def _beside_a_stranger(config: RunConfig, game: str, roles: Sequence[Role]) -> RunConfig:
    """Return a run's settings; returns decide in place of an estimator that needs every seat trained."""
    if not any(computed_by(config, game, role.name, How.EXACT, How.REMEMBERED) for role in roles):
        return config
    credit = config.credit.model_copy(update={"rule": DEFAULT_RULE, "rules": {}})
    return config.model_copy(update={"credit": credit})


def _as_it_begins(table: Any, names: Sequence[str]) -> Any:
    """Return a configuration's data without values at a run's end, and without games and roles other than ``names``.

    Then no update depends on how many follow it.
    """
    if not isinstance(table, dict):
        return table
    ends = {f"{key}_end{more}" for key in table for more in ("", "s")}
    return {
        key: _as_it_begins(value, names)
        for key, value in table.items()
        if key not in ends and ("/" not in key or key in names)
    }


def _begins_at(run: Run, snapshot: Snapshot, folder: Path) -> ModelConfig:
    """Return a snapshot as the base model of a run."""
    source = run.population.verify(snapshot).path.absolute()
    if run.config.policy(snapshot.policy).adapted:
        from league.population.models.base_model import verified_base  # torch is slow to import
        from league.population.models.merged import save_merged

        source, adapter = folder.absolute() / f"merged-{snapshot.id}", source
        if not source.exists():
            source.mkdir()
            save_merged(verified_base(run.config, run.path, snapshot.policy), adapter, source)
    return run.config.model_of(snapshot.policy).model_copy(update={"source": str(source)})
