"""Trajectories to records of a store and back, equal to the last bit.

What is long is packed: token ids as little-endian int32, log-probs as float64, turn by turn, because as JSON they
take four times the room and twenty times as long. Everything else is one JSON document, whose floats read back equal.
"""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from arena.replays import tuples, turn_of, turn_record
from learners.trajectories import Trajectory

_IDS, _NATS = "<i4", "<f8"
_to_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode  # made once: json.dumps makes one a call


class Record(NamedTuple):
    """One trajectory as a store keeps it. The first seven fields are for whoever looks; the rest is the trajectory."""

    query: int  # the deal's seed: rollouts of one query begin alike
    rollout: int  # the index of the match that no match opened
    invocation: int  # the index of the trajectory's own match
    parent: int | None  # the index of the match that opened it
    role: str
    policy: str
    snapshots: str  # whose weights sampled its turns, each once
    facts: str  # JSON: all but the three that follow
    tokens: bytes  # of every turn, the prompt's and then the reply's
    logprobs: bytes  # of every turn's reply, nats
    rewards: bytes  # by turn


def to_record(trajectory: Trajectory) -> Record:
    """Return a trajectory as a record. Raises ValueError for a number that is not finite."""
    turns = [turn_record(turn) for turn in trajectory.turns]
    tokens: list[int] = []
    logprobs: list[float] = []
    snapshots: dict[str, None] = {}
    for turn in turns:
        if (trace := turn["trace"]) is not None:
            snapshots[trace["snapshot"]] = None
            tokens += trace["prompt_ids"]
            tokens += trace["reply_ids"]
            logprobs += trace["logprobs"]
            trace["prompt_ids"], trace["reply_ids"] = len(trace["prompt_ids"]), len(trace["reply_ids"])
            del trace["logprobs"]
    fields = trajectory._asdict() | {"turns": turns}
    del fields["rewards"]
    root = trajectory.match if trajectory.root is None else trajectory.root
    return Record(
        trajectory.deal_seed,
        root,
        trajectory.match,
        trajectory.parent,
        trajectory.role,
        trajectory.policy,
        ", ".join(snapshots),
        _to_json(fields),
        np.array(tokens, _IDS).tobytes(),
        np.array(logprobs, _NATS).tobytes(),
        np.array(trajectory.rewards, _NATS).tobytes(),
    )


def from_record(facts: str, tokens: bytes, logprobs: bytes, rewards: bytes) -> Trajectory:
    """Return the trajectory of a record. Raises ValueError for a record whose parts do not fit each other."""
    fields: dict[str, Any] = json.loads(facts)
    traces = [turn["trace"] for turn in fields["turns"] if turn["trace"] is not None]
    lengths = [trace[part] for trace in traces for part in ("prompt_ids", "reply_ids")]
    ids, nats = np.frombuffer(tokens, _IDS).tolist(), np.frombuffer(logprobs, _NATS).tolist()
    ends = list(accumulate(lengths, initial=0))
    replies = list(accumulate(lengths[1::2], initial=0))
    if (ends[-1], replies[-1]) != (len(ids), len(nats)):
        raise ValueError(f"a record of {ends[-1]} tokens has {len(ids)}, and {len(nats)} log-probs of {replies[-1]}")
    parts = [tuple(ids[first:last]) for first, last in pairwise(ends)]
    for place, (trace, (first, last)) in enumerate(zip(traces, pairwise(replies), strict=True)):
        trace["prompt_ids"], trace["reply_ids"] = parts[2 * place], parts[2 * place + 1]
        trace["logprobs"] = tuple(nats[first:last])
    fields["turns"] = tuple([turn_of(turn) for turn in fields["turns"]])
    fields["rewards"] = tuple(np.frombuffer(rewards, _NATS).tolist())
    return Trajectory(**tuples(fields))
