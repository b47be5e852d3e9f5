"""A population that goes on under new settings: a new run begins where another one stands.

The new run has the other's snapshots, matches, ratings and curves, and its policies go on from their weights.
Policies that the new settings add begin anew: exploiters from the oldest weights of the first policy, as in a
run of their own, and main policies from its newest.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from games.errors import UsageError
from games.files import atomic_write
from league.config import RunConfig
from league.freezing import keep_beginnings
from league.lock import LOCK_FILE, run_lock
from league.population import Population
from league.run_state import LEARNERS_FOLDER, RECORDS_FILE, STATE_FILE, finished_iterations, has_state, newest_state
from league.settings import CONFIG_FILE, load, run_roles, to_toml
from league.start import new_policy, policy_names, reopened_policies
from learners.policy import Policy

ORIGIN_FILE = "origin.json"  # of an evolved run: where it came from
_SHARED = ("population", "base")  # immutable: the two runs may have the same files


def evolve(source: Path, run_dir: Path, iterations: int | None, overrides: Sequence[str]) -> RunConfig:
    """Make ``run_dir`` a run that stands where ``source`` stands, to be resumed; return its configuration.

    ``iterations`` is how many more it will train; None: as many as ``source`` has done. Raises UsageError
    for settings that its weights do not fit, a directory that is taken, and a source that trains at this moment.
    """
    if not has_state(source):
        raise UsageError(
            f"{source} has no saved state to go on from. Let it train: league train --resume --run-dir {source}"
        )
    if run_dir.exists() and any(run_dir.iterdir()):
        raise UsageError(f"{run_dir} is not empty. Choose another --run-dir.")
    with run_lock(source):
        old = load(str(source / CONFIG_FILE))
        done = finished_iterations(source)
        config = load(str(source / CONFIG_FILE), [*overrides, f"iterations={done + (iterations or max(done, 1))}"])
        _check(old, config)
        partial = run_dir.with_name(f".{run_dir.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        run_dir.parent.mkdir(parents=True, exist_ok=True)
        left = shutil.ignore_patterns(LOCK_FILE, "episodes", f"{RECORDS_FILE}*", LEARNERS_FOLDER)
        shutil.copytree(source, partial, copy_function=_copy, ignore=left)
        _adapt(old, config, partial)
        atomic_write(partial / CONFIG_FILE, to_toml(config))
        origin = {"run": str(source), "iteration": done, "settings": list(overrides)}
        atomic_write(partial / ORIGIN_FILE, json.dumps(origin, indent=1))
        partial.replace(run_dir)
    return config


def _check(old: RunConfig, new: RunConfig) -> None:
    """Raise UsageError for settings that the weights which are there cannot follow."""
    changed = [name for name in type(old.model).model_fields if getattr(old.model, name) != getattr(new.model, name)]
    changed = [name for name in changed if name not in ("device", "dtype")]
    if changed:
        raise UsageError(
            f"model.{changed[0]} cannot be changed: the snapshots of the population have the model that they have. "
            "Leave it out, or begin a new run with league train."
        )
    for name in policy_names(old, run_roles(old)):
        mine, theirs = new.policy(name), old.policy(name)
        if (mine.kind, mine.rank, mine.alpha, mine.targets) != (theirs.kind, theirs.rank, theirs.alpha, theirs.targets):
            raise UsageError(f"policies.{name} cannot change its kind, rank, alpha or targets: its weights have them.")


def _adapt(old: RunConfig, new: RunConfig, run_dir: Path) -> None:
    """Rewrite the saved state in ``run_dir`` for the policies and objectives of the new configuration."""
    folder = newest_state(run_dir)
    numbers: dict[str, Any] = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
    population = Population(run_dir / "population")
    before = reopened_policies(old, run_roles(old), run_dir, population)
    for name, policy in before.items():
        policy.restore(folder / f"{name}.safetensors")
        (folder / f"{name}.safetensors").unlink()
    first = before[policy_names(old, run_roles(old))[0]]
    policies = {name: _go_on(new, name, before, first, population) for name in policy_names(new, run_roles(new))}
    for name, policy in policies.items():
        policy.save(folder / f"{name}.safetensors")
    new_exploiters = [policies[name] for name in new.exploiter_kinds if name not in before]
    keep_beginnings(run_dir, new_exploiters)
    numbers["policies"] = sorted(policies)
    numbers["ahead"] = []  # was played by the old settings, and is played anew by the new ones
    numbers["pending"] = [name for name in numbers["pending"] if name in policies]
    numbers["frozen_at"] |= {policy.name: numbers["iteration"] for policy in new_exploiters}
    if new.model_copy(update={"iterations": old.iterations}) != old:
        numbers["alarms"] = {}  # what was normal under the old settings need not be normal now
    atomic_write(folder / STATE_FILE, json.dumps(numbers))


def _go_on(config: RunConfig, name: str, before: dict[str, Policy], first: Policy, population: Population) -> Policy:
    """Return a policy as the new configuration wants it, with what it has learned, if it was there before."""
    if name in before:
        policy = new_policy(config, name, before[name].lm, run_roles(config))
        policy.adopt(before[name])
        return policy
    if config.policy(name).kind == "lora" or first.lm.adapters is not None:
        raise UsageError(
            f"policies.{name} would be new, which an evolved run can only give to policies that train all weights "
            "(kind = 'full'). Begin a new run with league train."
        )
    snapshots = population.all(first.name)
    begins = snapshots[0 if name in config.exploiter_kinds else -1]
    return new_policy(config, name, first.lm.with_weights(population.verify(begins).path), run_roles(config))


def _copy(source: str, target: str) -> str:
    """Copy a file, or give an immutable one a second name where the file system can."""
    if any(f"{os.sep}{folder}{os.sep}" in source for folder in _SHARED):
        try:
            os.link(source, target)
        except OSError:
            return str(shutil.copy2(source, target))
        return target
    return str(shutil.copy2(source, target))
