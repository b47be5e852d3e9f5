"""Trajectories and their evidence to records of a store and back, equal to the last bit.

Long fields are packed: token ids as little-endian int32, log-probs as float64, turn by turn, because as JSON they
take four times the space and twenty times the time. The rest is one JSON document, whose floats read back equal.
"""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from arena.replays import turn_from_record, turn_to_record, with_tuples
from learners.trajectories import Evidence, Trajectory, evidence_from_json, evidence_to_json

_IDS, _NATS = "<i4", "<f8"
_to_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode  # json.dumps builds an encoder at each call


class StoredTrajectory(NamedTuple):
    """One trajectory as a row of the store. The first seven fields are for inspection; the others hold everything."""

    query: int  # the deal's seed: rollouts of one query start alike
    rollout: int  # the index of the rollout's root match, which no match opened
    invocation: int  # the index of the trajectory's match
    parent: int | None  # the index of the match that opened it
    role: str
    policy: str
    snapshots: str  # ids of the weights that sampled its turns, each once
    facts: str  # JSON: everything but the three packed fields below
    tokens: bytes  # ids, turn by turn: the prompt's, then the reply's
    logprobs: bytes  # of each reply's tokens, turn by turn, nats
    rewards: bytes  # by turn


def to_record(trajectory: Trajectory, evidence: Evidence) -> StoredTrajectory:
    """Return a trajectory and its evidence as a record. Raises ValueError for a number that is not finite."""
    turns = [turn_to_record(turn) for turn in trajectory.turns]
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
    fields = trajectory._asdict() | {"turns": turns, "evidence": evidence_to_json(evidence)}
    del fields["rewards"]
    root = trajectory.match if trajectory.root is None else trajectory.root
    return StoredTrajectory(
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


def from_record(facts: str, tokens: bytes, logprobs: bytes, rewards: bytes) -> tuple[Trajectory, Evidence]:
    """Return the trajectory and the evidence of a record.

    Raises ValueError if the packed fields' lengths differ from the JSON's.
    """
    fields: dict[str, Any] = json.loads(facts)
    traces = [turn["trace"] for turn in fields["turns"] if turn["trace"] is not None]
    lengths = [trace[part] for trace in traces for part in ("prompt_ids", "reply_ids")]
    token_ids, logprob_values = np.frombuffer(tokens, _IDS).tolist(), np.frombuffer(logprobs, _NATS).tolist()
    ends = list(accumulate(lengths, initial=0))
    replies = list(accumulate(lengths[1::2], initial=0))
    if (ends[-1], replies[-1]) != (len(token_ids), len(logprob_values)):
        raise ValueError(
            f"a record of {ends[-1]} tokens has {len(token_ids)}, and {len(logprob_values)} log-probs of {replies[-1]}"
        )
    texts = [tuple(token_ids[first:last]) for first, last in pairwise(ends)]  # prompt, reply, prompt, reply, …
    for index, (trace, (first, last)) in enumerate(zip(traces, pairwise(replies), strict=True)):
        trace["prompt_ids"], trace["reply_ids"] = texts[2 * index], texts[2 * index + 1]
        trace["logprobs"] = tuple(logprob_values[first:last])
    fields["turns"] = tuple([turn_from_record(turn) for turn in fields["turns"]])
    fields["rewards"] = tuple(np.frombuffer(rewards, _NATS).tolist())
    evidence = evidence_from_json(fields.pop("evidence"))
    return Trajectory(**with_tuples(fields)), evidence
