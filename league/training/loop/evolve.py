"""Evolve: continue a run's population in a new run with new settings.

The new run gets a copy of the source's snapshots, matches, ratings and curves, and its policies continue from their
weights. Policies that the new settings add start from snapshots of the first policy on their base model: exploiters
from its oldest, as they would in a new run, and main policies from its newest.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from games.common import plugins
from games.common.errors import UsageError
from games.common.files import atomic_write, link, sync_folder, sync_tree
from league.config import ModelConfig, RunConfig
from league.config.checks.config import check_share_of_matches
from league.config.context import RunContext, run_context
from league.config.load import load_run_config, write_run_config
from league.population.models.base_model import base_name
from league.population.players.fixed import with_lasting_names
from league.population.storage.lock import run_lock
from league.population.storage.population import Origin, Population
from league.population.storage.run_dir import SET_ASIDE
from league.training.checkpoints.checkpoint import (
    LEARNERS_FOLDER,
    RECORDS_FILE,
    check_results,
    checkpoints,
    clear_unfinished,
    finished_iterations,
    has_checkpoint,
    newest_checkpoint,
    verified_record,
    write_record,
)
from league.training.checkpoints.played import PLAYED_FOLDER
from league.training.checkpoints.run_state import Beginning, Checkpoint
from league.training.evidence.teacher_names import with_lasting_judge, with_lasting_teachers
from league.training.learning.imitation import keep_matches, matches_to_imitate
from league.training.learning.policies import new_policy, policies_for_resume
from league.training.loop.failures import telling_of_a_full_disk
from league.training.loop.recovery import telling_what_to_do
from league.training.snapshots.exploiter_cycle import save_initial_weights
from learners import values
from learners.selection import forget_policy
from learners.update.policy import Policy

ORIGIN_FILE = "origin.json"  # of an evolved run: its source
_SHARED = ("population", "base", "base-*", "distilled")  # immutable folders, whose files the two runs may share


class Replacement(NamedTuple):
    """The weights from which a policy continues, in place of its source's newest."""

    beginning: Beginning
    weights: Mapping[str, Tensor] | None  # by parameter name; None: the newest


def evolve(
    source: Path,
    run_dir: Path,
    iterations: int | None,
    overrides: Sequence[str],
    replaced: Mapping[str, Replacement] | None = None,
) -> RunConfig:
    """Create a run in ``run_dir`` that resumes where ``source`` has stopped; return its configuration.

    ``iterations`` is how many more it will train; None: as many as ``source`` has done. ``replaced`` are policies, by
    name, whose next snapshots come from elsewhere. Raises UsageError, and leaves nothing behind, for settings that do
    not fit the weights, a directory that is not empty or cannot be written, and a source that is training now or
    damaged; RunFailed where the disk is full.
    """
    if not has_checkpoint(source):
        raise UsageError(
            f"{source} has no saved state to continue from. Let it train: league train --resume --run-dir {source}"
            f"{plugins.as_options()}"
        )
    if run_dir.exists() and (not run_dir.is_dir() or any(run_dir.iterdir())):
        raise UsageError(f"{run_dir} is {'not empty' if run_dir.is_dir() else 'a file'}. Choose another --run-dir.")
    read_only = not os.access(source, os.W_OK)  # then nobody can be training it
    with telling_of_a_full_disk(run_dir), nullcontext() if read_only else run_lock(source):
        with telling_what_to_do(source):
            check_results(source, verified_record(newest_checkpoint(source)))
        old = run_context(load_run_config(source), source)
        done = finished_iterations(source)
        settings = [*overrides, f"iterations={done + (iterations or max(done, 1))}"]
        named = with_lasting_names(load_run_config(source, settings))
        new = with_lasting_judge(with_lasting_teachers(run_context(named, run_dir)))
        check_share_of_matches(new.config, new.roles)
        _check_weights_fit(old, new)
        changed = new.config.imitation.weight and new.config.imitation != old.config.imitation
        imitated = matches_to_imitate(new) if changed else []
        with _appearing(run_dir) as partial:
            _copy_run(source, partial)
            _adapt_checkpoint(replace(old, run_dir=partial), replace(new, run_dir=partial), replaced or {})
            write_run_config(partial, new.config)
            keep_matches(partial, imitated)
            origin = {"run": str(source), "iteration": done, "settings": list(overrides)}
            atomic_write(partial / ORIGIN_FILE, json.dumps(origin, indent=1))
    return new.config


@contextmanager
def _appearing(run_dir: Path) -> Iterator[Path]:
    """Yield a path to build a folder in; it then appears atomically and durably under its name, or never on error."""
    partial = run_dir.with_name(f".{run_dir.name}.partial")
    try:
        run_dir.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
    except OSError as error:
        raise UsageError(f"{run_dir} cannot be made ({error.strerror}). Choose another --run-dir.") from error
    try:
        yield partial
        sync_tree(partial)
        partial.replace(run_dir)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync_folder(run_dir.parent)


def _copy_run(source: Path, partial: Path) -> None:
    """Copy what a run continues from: the newest of its checkpoints, and nothing of its learner processes."""
    older = [folder.name for folder in checkpoints(source)[:-1]]
    unfinished = (
        ".*",
        "episodes",
        SET_ASIDE,
        f"{RECORDS_FILE}*",
        LEARNERS_FOLDER,
        PLAYED_FOLDER,
    )  # the first: the lock too
    _copy_below(source, partial, (*unfinished, *older), may_share=False)


def _copy_below(source: Path, target: Path, left_out: Sequence[str], may_share: bool) -> None:
    """Copy a folder's content except some names; with ``may_share``, hard-link files where possible."""
    for path in source.iterdir():
        if any(path.match(pattern) for pattern in left_out):
            continue
        copy = target / path.name
        if path.is_dir():
            copy.mkdir()
            _copy_below(path, copy, left_out, may_share or any(map(path.match, _SHARED)))
        elif may_share:
            link(path, copy)
        else:
            shutil.copy2(path, copy)


def _check_weights_fit(old: RunContext, new: RunContext) -> None:
    """Raise UsageError for settings that do not fit the weights of the source."""
    models = {"model": (old.config.model, new.config.model)}
    for name in old.policies:
        models[f"policies.{name}.model"] = old.config.model_of(name), new.config.model_of(name)
    for table, (before, after) in models.items():
        if changed := _changed(before, after):
            raise UsageError(
                f"{table}.{changed[0]} cannot be changed: the snapshots of the population were made with the present "
                "model. Leave it out, or start a new run with league train."
            )
    _check_policies_fit(old, new)


def _changed(before: ModelConfig, after: ModelConfig) -> list[str]:
    """Return the model settings that differ, except the device and type of the weights."""
    names = (name for name in ModelConfig.model_fields if getattr(before, name) != getattr(after, name))
    return [name for name in names if name not in ("device", "dtype")]


def _check_policies_fit(old: RunContext, new: RunContext) -> None:
    for name in old.policies:
        if name not in new.policies and new.config.roles.player != old.config.roles.player:
            raise UsageError(
                f"roles.player gives away every role of {name}, whose snapshots stay in the population. Leave it a "
                "role, or do that in a new run."
            )
        after, before = new.config.policy(name), old.config.policy(name)
        if after.adapted and before.adapted and base_name(new.config, name) != base_name(old.config, name):
            raise UsageError(
                f"policies.{name}.model shares its base, {base_name(old.config, name)}/, with others, and cannot "
                "change it alone. Set the device or type of all of them."
            )
        if any(getattr(after, key) != getattr(before, key) for key in ("weights", "rank", "alpha", "targets")):
            raise UsageError(
                f"policies.{name} cannot change its weights, rank, alpha or targets: its saved weights depend on them. "
                "Leave these settings out, or start a new run with league train."
            )


def _adapt_checkpoint(old: RunContext, new: RunContext, replaced: Mapping[str, Replacement]) -> None:
    """Rewrite the checkpoint in their common folder for the policies and objectives of the new run."""
    config, run_dir = new.config, new.run_dir
    folder = newest_checkpoint(run_dir)
    record = verified_record(folder)
    population = Population(run_dir / "population")
    old_policies = policies_for_resume(old)
    for name, policy in old_policies.items():
        policy.restore(folder / f"{name}.safetensors")
        _remove(folder / f"{name}.safetensors")
    policies = {name: _evolved_policy(new, name, old_policies, population) for name in new.policies}
    _replace(policies, record, replaced)
    for name, policy in policies.items():
        policy.save(folder / f"{name}.safetensors")
    new_exploiters = [policies[name] for name in config.league_roles if name not in old_policies]
    save_initial_weights(run_dir, new_exploiters)
    clear_unfinished(folder, policies.keys() - {name for name, (_, weights) in replaced.items() if weights is not None})
    record.origins |= {
        name: Beginning(Origin.TRAINED, population.newest(_first_like(config, name, old_policies).name).id)
        for name in policies
        if name not in old_policies and name not in config.league_roles
    }
    record.frozen_at |= {policy.name: record.iteration for policy in new_exploiters}
    for name in policies.keys() - old_policies.keys():  # an earlier run may have had another policy of that name
        record.credit = forget_policy(record.credit, name)
        record.values = values.forget_policy(record.values, name)
    if config.model_copy(update={"iterations": old.config.iterations}) != old.config:
        record.alarms = {}  # the alarms' baselines were learned under the old settings
    write_record(folder, record)


def _remove(state: Path) -> None:
    """Remove a policy's state: a file, or a folder of parts."""
    if state.is_dir():
        shutil.rmtree(state)
    else:
        state.unlink()


def _replace(policies: Mapping[str, Policy], record: Checkpoint, replaced: Mapping[str, Replacement]) -> None:
    """Continue policies from other weights, and forget what credit rules know about the weights that are gone."""
    for name, (beginning, weights) in replaced.items():
        record.origins[name] = beginning
        if weights is not None:
            policies[name].reset(weights)
            record.credit = forget_policy(record.credit, name)
            record.judged = record.judged._replace(active=())  # games were judged by weights that are gone


def _evolved_policy(
    context: RunContext, name: str, old_policies: Mapping[str, Policy], population: Population
) -> Policy:
    """Return a policy of the new configuration, which continues the old policy of the same name if there is one."""
    config = context.config
    if name in old_policies:
        policy = new_policy(context, name, old_policies[name].lm)
        policy.copy_from(old_policies[name])
        return policy
    first = _first_like(config, name, old_policies)
    if config.policy(name).adapted or first.lm.adapters is not None:
        raise UsageError(
            f"policies.{name} is new, and an evolved run can only add policies that train all weights "
            "(weights = 'full') to policies that do so too. Start a new run with league train."
        )
    snapshots = population.all(first.name)
    initial = snapshots[0 if name in config.league_roles else -1]
    return new_policy(context, name, first.lm.with_weights(population.verify(initial).path))


def _first_like(config: RunConfig, name: str, old_policies: Mapping[str, Policy]) -> Policy:
    """Return the first policy of the source that has a new one's base model. Raises UsageError if there is none."""
    for policy in old_policies.values():
        if not _changed(config.model_of(policy.name), config.model_of(name)):
            return policy
    raise UsageError(
        f"policies.{name} is new, and no policy of the run to evolve has its base model: it would start from nothing "
        "among trained ones. Leave out its policies.NAME.model, or start a new run with league train."
    )
