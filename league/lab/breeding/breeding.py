"""Breeding: a population of runs, generation by generation, each made from the last by a breeding rule.

``FOLDER/root`` is a run of one iteration that all members of ``FOLDER/g000`` continue, so that their weights share one
origin. After each generation ``breed.json`` lists its members, what each descends from, and the budget spent; a killed
process resumes from it. A member whose training fails ranks last, and its slot continues the best. The elite is the
best run so far: another replaces it only through the gate, so it never gets worse.
"""

from __future__ import annotations

import json
import random
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from games.common import plugins
from games.common.errors import UsageError
from games.common.files import atomic_write, read_json
from games.common.section import LARGEST_SEED
from games.common.seeds import derive_seed
from league.config import RunConfig
from league.config.load import load, to_toml
from league.config.matchmaking import DescentConfig
from league.lab.breeding.gate import Gain, exact_values, judge, ranked
from league.lab.breeding.operations import StoredRuns
from league.lab.breeding.rules import BREEDING_RULES, explored
from league.lab.breeding.slot import ROOT, Candidate, Descent, Slot
from league.population.storage.lock import run_lock
from league.population.storage.population import Origin
from league.population.storage.run_dir import Run, check_unused
from league.training.checkpoints.checkpoint import finished_iterations, has_checkpoint
from league.training.checkpoints.run_state import Beginning
from league.training.loop.evolve import Replacement, evolve
from league.training.loop.failures import LearningFailed
from league.training.loop.session import Outcome, resume, train
from league.training.snapshots.judged_games import most_matches

BREED_FILE, PLAN_FILE = "breed.json", "breed.toml"
FAILED_FILE = "failed.json"  # of a member whose training failed: why

Tell = Callable[[str], None]


class BreedingBudget(NamedTuple):
    """The most that breeding takes, which is known beforehand."""

    members: int
    generations: int
    iterations: int  # of a member in one generation
    matches: int  # of all members, in training and to judge games, at most

    @property
    def total(self) -> int:
        """Iterations of all members together."""
        return self.members * self.generations * self.iterations

    def __str__(self) -> str:
        return (
            f"{self.generations} generations of {self.members} members, {self.iterations} iterations each: "
            f"{self.total:,} iterations of {self.matches:,} matches at most"
        )


def budget_of(config: RunConfig) -> BreedingBudget:
    """Return the budget of breeding. Raises UsageError for iterations that generations cannot share."""
    settings = config.descent
    each, rest = divmod(config.iterations, settings.generations)
    if rest or each % config.snapshot_every:
        unit = settings.generations * config.snapshot_every
        raise UsageError(
            f"iterations = {config.iterations} are spread over descent.generations = {settings.generations}, each of "
            f"which ends with a snapshot (snapshot_every = {config.snapshot_every}). Set iterations to a multiple of "
            f"{unit}, such as {max(round(config.iterations / unit), 1) * unit}."
        )
    return BreedingBudget(settings.members, settings.generations, each, settings.members * most_matches(config))


class Breeding:
    """One population of runs in a folder."""

    def __init__(self, folder: Path, config: RunConfig, tell: Tell) -> None:
        self.folder, self.config, self._tell = folder, config, tell
        self.budget = budget_of(config)
        self._operations = StoredRuns(config, folder)
        self._verdicts: dict[tuple[Path, Path], Gain] = {}
        self.history: list[dict[str, Any]] = []  # one for each generation, as in ``breed.json``

    def run(self) -> dict[str, Any]:
        """Breed all generations that are not done; return the record, as in ``breed.json``."""
        if (self.folder / BREED_FILE).is_file():
            self.history = read_json(self.folder / BREED_FILE)["history"]
        for generation in range(len(self.history), self.budget.generations):
            descents = self._descents(generation)
            members = [self._train(generation, number, descent) for number, descent in enumerate(descents)]
            self.history.append(self._record(generation, members, descents))
            atomic_write(self.folder / BREED_FILE, json.dumps(self.record(), indent=1))
            self._tell(self._told(generation))
        return self.record()

    def record(self) -> dict[str, Any]:
        """Return the generations so far, and how much of the budget was spent."""
        finished = len(self.history)
        return {
            "rule": self.config.descent.rule,
            "budget": {**self.budget._asdict(), "total": self.budget.total},
            "spent": {"generations": finished, "iterations": finished * self.budget.members * self.budget.iterations},
            "elite": self.history[-1]["elite"] if finished else None,
            "history": self.history,
        }

    def candidates(self, generation: int) -> list[Candidate]:
        """Return the members of a finished generation, by slot, those that failed among them."""
        rows = self.history[generation]["members"]
        return [Candidate(row["name"], self.folder / row["run"], row["settings"]) for row in rows]

    def better(self, first: Candidate, second: Candidate) -> Gain:
        """Return how much better one run is than another; each pair is judged once."""
        pair = first.run, second.run
        if pair not in self._verdicts:
            seed = derive_seed(self.config.seed, "gate", *(str(run.relative_to(self.folder)) for run in pair))
            verdict = judge(self.config, *pair, seed)
            self._verdicts |= {pair: verdict, pair[::-1]: verdict._replace(gain=-verdict.gain)}
        return self._verdicts[pair]

    def _descents(self, generation: int) -> list[Descent]:
        """Return the descents of a generation's members, by slot."""
        if not generation:
            return self._first()
        now = self.candidates(generation - 1)
        before = self.candidates(generation - 2) if generation > 1 else [None] * len(now)
        order = [self.folder / run for run in self.history[-1]["ranking"]]
        ranking = tuple(sorted(filter(_learned, now), key=lambda candidate: order.index(candidate.run)))
        slots = [
            Slot(
                candidate,
                ranking,
                self.better,
                earlier if earlier is not None and _learned(earlier) else None,
                self.config.descent,
                self._rng("descent", generation, number),
                self._operations,
            )
            for number, (candidate, earlier) in enumerate(zip(now, before, strict=True))
        ]
        rule = BREEDING_RULES[rule_of(self.config.descent, generation)]
        return [rule.make(slot) if _learned(slot.candidate) else self._after_failure(slot) for slot in slots]

    def _after_failure(self, slot: Slot) -> Descent:
        """Return the descent of the run that replaces a failed one: it continues the best, in other matches."""
        best = slot.ranking[0]
        settings = explored(best.settings, slot.settings, slot.rng)
        how = f"took over {best.newest}, as {slot.candidate.newest} failed"
        if settings != best.settings:
            how += f"; explores {_written(settings)}"
        return Descent(best, settings, parents=(best.newest,), how=how, reseed=True)

    def _first(self) -> list[Descent]:
        """Return the first generation, all from the root; if settings mutate, only one keeps the root's."""
        root = self.folder / ROOT
        if not has_checkpoint(root):
            shutil.rmtree(root, ignore_errors=True)  # left by a process that was killed during its cold start
            self._check_finished(train(self.config, root, watch=lambda *_: True), 1)  # stops after one iteration
        elif finished_iterations(root) < 1:  # the checkpoint before the first iteration: killed while that ran
            self._check_finished(resume(root, watch=lambda *_: True), 1)
        root_settings = _mutable(self.config)
        descents = []
        for number in range(self.budget.members):
            rng = self._rng("first", 0, number)
            settings = explored(root_settings, self.config.descent, rng) if number else root_settings
            how = "the first generation" + (f", with {_written(settings)}" if settings != root_settings else "")
            descents.append(Descent(Candidate(ROOT, root, root_settings), settings, how=how, reseed=number > 0))
        return descents

    def _train(self, generation: int, number: int, descent: Descent) -> Candidate:
        """Make a member, or resume it, and train it to the end of its generation, or until its training fails."""
        member = Candidate(f"m{number}", self.folder / f"g{generation:03d}" / f"m{number}", descent.settings)
        start = 0 if descent.source.name == ROOT else finished_iterations(descent.source.run)
        end = start + self.budget.iterations
        if not has_checkpoint(member.run):
            self._begin(member, descent, start, derive_seed(self.config.seed, "member", generation, number))
        if finished_iterations(member.run) < end and _learned(member):
            try:
                self._check_finished(resume(member.run, watch=lambda iteration, _: iteration >= end), end)
            except LearningFailed as failure:
                atomic_write(member.run / FAILED_FILE, json.dumps({"why": str(failure)}, indent=1))
                self._tell(f"{member.run} failed, ranks last, and is replaced. {failure}")
        return member

    def _check_finished(self, outcome: Outcome, end: int) -> None:
        """Raise KeyboardInterrupt, with the command that resumes, if a run was stopped before its iteration."""
        if outcome.iteration < end:
            command = f"league lab breed --resume --run-dir {shlex.quote(str(self.folder))}{plugins.as_options()}"
            raise KeyboardInterrupt(f"Stopped. To go on: {command}")

    def _begin(self, member: Candidate, descent: Descent, start: int, seed: int) -> None:
        """Make the run of a member, which continues after iteration ``start``."""
        source = descent.source.run
        settings = [f"{name}={value!r}" for name, value in descent.settings.items()]
        if descent.reseed:
            settings.append(f"seed={seed % LARGEST_SEED}")
        if descent.imitate is not None:
            matches = tomli_w.dumps({"m": str(descent.imitate.absolute())}).partition("=")[2].strip()
            settings += [f"imitation.matches={matches}", f"imitation.weight={self.config.descent.access}"]
            settings += [f"imitation.since={start}", f"imitation.until={start + self.budget.iterations}"]
        left = self.config.iterations - finished_iterations(source)
        member.run.parent.mkdir(parents=True, exist_ok=True)
        evolve(source, member.run, left, settings, self._replaced(descent) if descent.how else {})

    def _replaced(self, descent: Descent) -> dict[str, Replacement]:
        """Return the parents of each policy's next snapshot."""
        population, replacements = Run(descent.source.run).population, {}
        for policy in self._operations.policies:
            snapshots = population.all(policy)
            parent = snapshots[0 if descent.origin is Origin.RESET else -1].id
            weights = None if descent.weights is None else descent.weights[policy]
            replacements[policy] = Replacement(Beginning(descent.origin, parent, descent.parents, descent.how), weights)
        return replacements

    def _record(self, generation: int, members: list[Candidate], descents: list[Descent]) -> dict[str, Any]:
        """Return a generation's row: its members, which is better, and the elite.

        Raises LearningFailed if all its members failed.
        """
        able = [member for member in members if _learned(member)]
        if not able:
            raise LearningFailed(
                f"All members of {members[0].run.parent} failed, the last with: {_failure(members[-1])} Change the "
                f"settings in {self.folder / PLAN_FILE}, remove {members[0].run.parent}, and resume."
            )
        for first in able:
            for second in able:
                if first.run != second.run:
                    self.better(first, second)
        order = ranked([member.run for member in able], self._verdicts)
        best = next(member for member in able if member.run == order[0])
        order += [member.run for member in members if member not in able]
        rows = [self._row(member, descent) for member, descent in zip(members, descents, strict=True)]
        return {
            "generation": generation,
            "members": rows,
            "ranking": [str(run.relative_to(self.folder)) for run in order],
            "elite": self._elite(best),
        }

    def _row(self, member: Candidate, descent: Descent) -> dict[str, Any]:
        return {
            "name": member.name,
            "run": str(member.run.relative_to(self.folder)),
            "settings": dict(member.settings),
            "parents": list(descent.parents) or [descent.source.newest],
            "how": descent.how or "went on",
            "values": exact_values(self.config, member.run) if _learned(member) else None,
        } | ({} if _learned(member) else {"failed": _failure(member)})

    def _elite(self, best: Candidate) -> dict[str, Any]:
        """Return the elite; the best of a generation becomes it only if the gate lets it through."""
        now = self.history[-1]["elite"] if self.history else None
        if now is not None:
            verdict = self.better(best, Candidate("elite", self.folder / now["run"], now["settings"]))
            if not verdict.better:
                return dict(now)
        values = exact_values(self.config, best.run)
        run = str(best.run.relative_to(self.folder))
        return {"run": run, "settings": dict(best.settings), "values": values, "since": len(self.history)}

    def _told(self, generation: int) -> str:
        row = self.history[generation]
        spent = (generation + 1) * self.budget.members * self.budget.iterations
        best = next(member for member in row["members"] if member["run"] == row["ranking"][0])
        return (
            f"Generation {generation + 1} of {self.budget.generations}: best {best['run']} ({best['how']}); elite "
            f"{row['elite']['run']} with {_written(row['elite']['settings'])}; {spent:,} of {self.budget.total:,} "
            "iterations spent."
        )

    def _rng(self, kind: str, generation: int, number: int) -> random.Random:
        return random.Random(derive_seed(self.config.seed, kind, generation, number))


def breed(config: RunConfig | None, folder: Path, tell: Tell) -> Breeding:
    """Breed a population in a new folder, or, without a configuration, resume one.

    Raises UsageError for a new folder that is not empty, or a folder with nothing to resume.
    """
    if config is None:
        if not (folder / PLAN_FILE).is_file():
            raise UsageError(f"{folder} holds no population that was bred: it has no {PLAN_FILE}. Name one that does.")
        config = load(str(folder / PLAN_FILE))
    else:
        check_unused(folder)
        budget_of(config)
        _mutable(config)
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(folder / PLAN_FILE, to_toml(config))
    breeding = Breeding(folder, config, tell)
    with run_lock(folder):
        breeding.run()
    return breeding


def rule_of(settings: DescentConfig, generation: int) -> str:
    """Return the name of the rule by which a generation, from 1 on, follows the one before it."""
    return settings.between if settings.between and generation % settings.every == 0 else settings.rule


def _mutable(config: RunConfig) -> dict[str, float]:
    """Return the present values of settings that mutate, by dotted name; none under a rule that changes no settings.

    Raises UsageError for one that is not a number.
    """
    used = {rule_of(config.descent, generation) for generation in range(1, config.descent.generations)}
    if not any(BREEDING_RULES[rule].explores for rule in used | {config.descent.rule}):
        return {}
    values = {}
    table: Mapping[str, Any] = config.model_dump()
    for name in config.descent.mutate:
        value: Any = table
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise UsageError(f"descent.mutate names {name}, which is {value!r} here. Name settings that are numbers.")
        values[name] = float(value)
    return values


def _learned(member: Candidate) -> bool:
    """Return whether a member's training has not failed."""
    return not (member.run / FAILED_FILE).is_file()


def _failure(member: Candidate) -> str:
    """Return why a member's training failed."""
    return str(read_json(member.run / FAILED_FILE)["why"])


def _written(settings: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in settings.items()) or "the settings unchanged"
