"""An outside advantage function as a credit rule: unchanged, it gets the arrays of its own trainer.

A batch's trajectories become the rows of a trainer. A turn is one sampled token, because a choice is one decision;
between two turns of a seat are ``GAP`` tokens of observation, whose mask is 0, and rows are padded on the right. A
turn's reward is at its token. A group is one role's rows of one start. Arrays are torch's, of 32 bits, as in the
trainers.

    verl      token_level_rewards, response_mask [N, T], index [N], values [N, T], gamma, lam -> [N, T], alone or first
    trl       rewards [N], group by group, num_generations, completion_mask [N, T] -> [N]
    prime_rl  inputs of one group: rollouts, completion_lengths, broadcast(), rewards [1, G] -> one a rollout or token
    league    trajectories, evidence, state, settings -> Credited, or one number for each turn

A function requests arrays by the names of its parameters. ``values`` are the exact values of the turns.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError, unknown_name
from league.lab.credit.rules import NO_SETTINGS, RuleVariant
from learners.advantages import RULES
from learners.advantages.common import Labels, turn_counts
from learners.advantages.rule import Advantages, Credited, CreditFunction, CreditRule, Need, State, unweighted
from learners.groups import group_numbers
from learners.trajectories import Evidence, Trajectory

Signature = Literal["verl", "trl", "prime_rl", "league"]
SIGNATURES: tuple[Signature, ...] = get_args(Signature)
GAP = 2  # tokens of observation between two turns of a seat
DISCOUNT = TRACE = 1.0  # verl's own defaults of gamma and lam
_GROUPED = ("index", "uid")  # parameters of verl's that only whole groups can fill; the others always have groups

Floats = NDArray[np.float32]


class Rows(NamedTuple):
    """A batch as a trainer of tokens holds it: N rows of at most T tokens."""

    groups: Labels  # a number for each group, from 0 on  # [N]
    rewards: Floats  # [N, T]
    mask: Floats  # 1 where a token was sampled  # [N, T]
    values: Floats  # of the turn that a token belongs to or leads to; 0 where none is known  # [N, T]
    lengths: Labels  # tokens, those of observations included  # [N]


def rows_of(trajectories: Sequence[Trajectory], evidence: Sequence[Evidence], groups: Labels) -> Rows:
    """Return a batch's rows. A seat that never had a turn has a row without sampled tokens."""
    counts = turn_counts(trajectories)
    lengths = np.maximum(counts * (GAP + 1) - GAP, 0)
    shape = len(trajectories), max(int(lengths.max(initial=0)), 1)
    rewards, mask, values = (np.zeros(shape, np.float32) for _ in range(3))
    for row, (trajectory, known) in enumerate(zip(trajectories, evidence, strict=True)):
        if not trajectory.turns:
            rewards[row, 0] = trajectory.match_return
        tokens = token_of_turn(len(trajectory.turns))
        rewards[row, tokens], mask[row, tokens] = trajectory.rewards, 1.0
        if known.values is not None:
            values[row, : lengths[row]] = np.repeat(known.values, GAP + 1)[GAP:]
    return Rows(groups, rewards, mask, values, lengths)


def token_of_turn(turns: int) -> Labels:
    """Return the place in its row of each turn's token [K]."""
    return np.arange(turns) * (GAP + 1)


def foreign_rule(function: Callable[..., Any], signature: str, name: str = "") -> RuleVariant:
    """Return a function of a trainer as a rule that can be measured.

    Raises UsageError for a signature that is not known, and for a function whose parameters its trainer cannot provide.
    """
    if signature not in SIGNATURES:
        raise unknown_name("signature", signature, SIGNATURES, "It says which library's arrays the function takes.")
    name = name or getattr(function, "__name__", "") or "function"
    if name in RULES:  # ours may be measured beside it
        name = f"{name} (given)"
    if signature == "league":
        rule = function if isinstance(function, CreditRule) else CreditRule(_ours(name, function))
        return RuleVariant(name, rule, rule.settings())
    if not callable(function):
        raise UsageError(f"{name} is {type(function).__name__}, not a function that returns advantages.")
    asked = set(_parameters(name, function))
    needs = {Need.GROUPS} if signature != "verl" or asked & set(_GROUPED) else set()
    needs |= {Need.VALUES} if Need.VALUES in asked else set()
    return RuleVariant(
        name, CreditRule(_theirs(name, function, signature, Need.GROUPS in needs), needs=needs), NO_SETTINGS
    )


def load_function(text: str) -> Callable[..., Any]:
    """Import FILE.py and return its function, written ``FILE.py:NAME``; the user named the file, so it may run.

    Raises UsageError for a file that is not there or cannot be imported, and for a name that it does not have.
    """
    written, _, name = text.rpartition(":")
    path = Path(written).expanduser()
    if not written or not name.isidentifier():
        raise UsageError(f"{text!r} names no function: write FILE.py:NAME, such as advantages.py:compute_advantage.")
    if not path.is_file():
        raise UsageError(f"There is no file {written}: give the Python file that has {name}.")
    spec = importlib.util.spec_from_file_location(f"_given_{path.stem}", path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{written} is not a Python file, whose name ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their own module
    _run(written, lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    if not hasattr(module, name):
        names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown_name(f"function of {written}", name, names)
    return getattr(module, name)  # type: ignore[no-any-return]


def _ours(name: str, function: Callable[..., Any]) -> CreditFunction:
    """Return a function of the league's own signature whose result is checked."""

    def make(trajectories: Sequence[Trajectory], evidence: Sequence[Evidence], state: State, settings: Any) -> Credited:
        given = _run(name, lambda: function(trajectories, evidence, state, settings))
        advantages = given.advantages if isinstance(given, Credited) else given
        rows = _ragged(name, advantages, [len(t.turns) for t in trajectories], "turn")
        return given._replace(advantages=rows) if isinstance(given, Credited) else unweighted(rows, state)

    return make


def _theirs(name: str, function: Callable[..., Any], signature: str, grouped: bool) -> CreditFunction:
    """Return a trainer's function as one that credits turns."""

    def make(trajectories: Sequence[Trajectory], evidence: Sequence[Evidence], state: State, _: Any) -> Credited:
        groups = group_numbers(name, trajectories) if grouped else np.zeros(len(trajectories), np.intp)
        rows = rows_of(trajectories, evidence, groups)
        by_token = _CALLS[signature](name, function, rows, trajectories)
        advantages = [
            [row[token] for token in token_of_turn(len(t.turns))] for row, t in zip(by_token, trajectories, strict=True)
        ]
        return unweighted(advantages, state)

    return make


def _verl(name: str, function: Callable[..., Any], rows: Rows, _: Sequence[Trajectory]) -> Advantages:
    """Call a function of verl's registry of advantage estimators, and return its advantages by token."""
    import torch

    mask, index = torch.tensor(rows.mask), np.array([f"group {number}" for number in rows.groups], object)
    given = _call(
        name,
        function,
        {
            "token_level_rewards": torch.tensor(rows.rewards),
            "response_mask": mask,
            "eos_mask": mask.clone(),  # its name in older versions
            "index": index,
            "uid": index,
            "values": torch.tensor(rows.values),
            "gamma": DISCOUNT,
            "lam": TRACE,
        },
    )
    return _by_token(name, given[0] if isinstance(given, tuple) else given, rows)


def _trl(name: str, function: Callable[..., Any], rows: Rows, _: Sequence[Trajectory]) -> Advantages:
    """Call a function of TRL's: all rewards, the members of a group side by side."""
    import torch

    order = np.argsort(rows.groups, kind="stable")
    size = int(np.bincount(rows.groups).max(initial=1))
    given = _call(
        name,
        function,
        {
            "rewards": torch.tensor(rows.rewards[order].sum(axis=1)),
            "num_generations": size,
            "completion_mask": torch.tensor(rows.mask[order]),
        },
    )
    by_token = _by_token(name, given, rows._replace(lengths=rows.lengths[order]))
    return [by_token[place] for place in np.argsort(order, kind="stable")]


def _prime_rl(name: str, function: Callable[..., Any], rows: Rows, trajectories: Sequence[Trajectory]) -> Advantages:
    """Call a function of prime-rl's once for each group, with what its ``AdvantageInputs`` hold."""
    import torch

    by_token: Advantages = [[] for _ in trajectories]
    for group in range(int(rows.groups.max(initial=-1)) + 1):
        members = np.flatnonzero(rows.groups == group).tolist()
        lengths = rows.lengths[members].tolist()
        rollouts = [_rollout(trajectories[member]) for member in members]
        inputs = SimpleNamespace(
            rollouts=rollouts,
            completion_lengths=lengths,
            broadcast=lambda values, lengths=lengths: [
                [float(value)] * length for value, length in zip(values, lengths, strict=True)
            ],
            rewards=torch.tensor([[rollout["reward"] for rollout in rollouts]]),
        )
        given = _call(name, function, {"inputs": inputs})
        given = getattr(given, "advantages", given)
        given = given[0] if getattr(given, "shape", ()) == (1, len(members)) else given
        part = rows._replace(rewards=rows.rewards[members], lengths=rows.lengths[members])
        for member, row in zip(members, _by_token(name, given, part), strict=True):
            by_token[member] = row
    return by_token


_CALLS = {"verl": _verl, "trl": _trl, "prime_rl": _prime_rl}


def _rollout(trajectory: Trajectory) -> dict[str, Any]:
    """Return what a function of prime-rl's reads of a rollout: its reward, its turns, and each turn's reward."""
    turns = [{"reward": reward} for reward in trajectory.rewards]
    info = {"turn_rewards": list(trajectory.rewards)}
    return {"reward": float(trajectory.match_return), "trajectory": turns, "info": info}


def _parameters(name: str, function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return a function's parameters by name. Raises UsageError for one that has no signature."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} does not say which parameters it takes: wrap it in a function that does.") from error


def _call(name: str, function: Callable[..., Any], offered: Mapping[str, Any]) -> Any:
    """Call a function with what its parameters name. Raises UsageError for unknown parameters and for errors in it."""
    positional, by_name = [], {}
    for parameter in _parameters(name, function).values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.name in offered:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(offered[parameter.name])
            else:
                by_name[parameter.name] = offered[parameter.name]
        elif parameter.default is parameter.empty:
            raise UsageError(
                f"{name} asks for {parameter.name!r}, but is offered {', '.join(offered)}. Give the parameter a "
                "default, or name the function's library with --signature (signature=)."
            )
    return _run(name, lambda: function(*positional, **by_name))


def _run(name: str, call: Callable[[], Any]) -> Any:
    """Return what outside code returns. Raises UsageError that says where it failed."""
    try:
        return call()
    except SystemExit as error:
        raise UsageError(f"{name} ended the program (sys.exit) where it should have returned.") from error
    except SyntaxError as error:
        where = f"line {error.lineno} of {Path(error.filename or name).name}"
        raise UsageError(f"{name} is not valid Python, in {where}: {error.msg}.") from error
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"line {last.lineno} of {Path(last.filename).name}"
        raise UsageError(f"{name} raised {type(error).__name__} in {where}: {error}") from error


def _by_token(name: str, given: Any, rows: Rows) -> Advantages:
    """Return advantages by token of each row, from one number a row or one a token. Raises UsageError for others."""
    import torch

    if isinstance(given, torch.Tensor):
        given = given.detach().cpu().numpy()
    width, lengths = rows.rewards.shape[1], rows.lengths.tolist()
    try:
        each = [np.asarray(row).astype(np.float64, casting="same_kind") for row in given]
    except (TypeError, ValueError, RuntimeError):  # no array, complex numbers, tensors that want a gradient
        raise UsageError(f"{name} returned {type(given).__name__}, not one advantage a row or a token.") from None
    if len(each) == len(lengths) and all(row.ndim == 0 for row in each):
        each = [np.full(width, row) for row in each]
    elif [row.shape for row in each] == [(length,) for length in lengths]:
        each = [np.pad(row, (0, width - len(row))) for row in each]
    elif len(each) != len(lengths) or any(row.shape != (width,) for row in each):
        shapes = sorted({str((len(each), *row.shape)) for row in each})
        expected = f"({len(lengths)},) or ({len(lengths)}, {width})"
        raise UsageError(
            f"{name} returned advantages of shape {' and '.join(shapes[:3])}, but {expected} was expected."
        )
    return _ragged(name, each, [width] * len(each), "token")


def _ragged(name: str, rows: Any, lengths: Sequence[int], unit: str) -> Advantages:
    """Return rows of finite numbers, one for each turn or token. Raises UsageError for any others."""
    try:
        numbers = [[float(value) for value in row] for row in rows]
    except (TypeError, ValueError):
        raise UsageError(f"{name} returned {type(rows).__name__}, not lists of one number for each {unit}.") from None
    if [len(row) for row in numbers] != list(lengths):
        raise UsageError(f"{name} did not return one advantage for each {unit} of each trajectory.")
    if not all(math.isfinite(value) for row in numbers for value in row):
        raise UsageError(f"{name} returned advantages that are not finite: is there a division by a spread of 0?")
    return numbers
