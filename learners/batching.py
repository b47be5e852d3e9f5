"""Trajectories and advantages to a TrainBatch: equal prompts become one row, their weights summed.

Turns with the same prompt and the same mask differ only in which reply was drawn, in its advantage and in the weight
of its tokens, so a row keeps, for each reply, how often it was drawn and the weighted sums of its positive and of its
negative advantages. Every objective here is linear in those sums for a given sign, and its other terms in the sum of
the weights, so the gradient is exactly that of the unmerged turns. Importance weights depend on the sampled log-probs
too, which an engine may compute a little differently at every draw: the same sums are kept by draw, and only draws with
equal log-probs are merged. Equal pairs of replies (``dpo``) are merged, too, their weights summed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from arena.lm.chunks import Tokens
from arena.records import TokenTrace
from learners.groups import root_game_of
from learners.normalisation import CONSTANT, Normalisation, token_weights, trace_of
from learners.trajectories import Evidence, Trajectory, WholeTrajectories
from roles.truncation import NO_TRUNCATION, Truncation


class Pair(NamedTuple):
    """Two replies to one prompt, the better one first, as indices of a choice row's replies or of the free rows."""

    chosen: int
    rejected: int
    multiplicity: float  # equal pairs that were merged
    weight: float  # sum of their weights in the batch's loss


class Draw(NamedTuple):
    """Turns that drew one reply of a row with the same sampled log-probs."""

    reply: int  # index in the row's legal replies; 0 in a free row
    sampled: tuple[float, ...]  # the sampler's log-probs (nats): a free reply's tokens [T], a choice as a whole [1]
    turns: float
    gain: float  # sum of their positive advantages, each times its weight
    loss: float  # sum of their negative advantages, each times its weight


class TaughtTurns(NamedTuple):
    """Turns of a row to which a teacher says the same."""

    role: str  # GAME/ROLE
    said: tuple[float, ...]  # probabilities of the legal replies [A]; of a free reply its tokens' log-probs (nats) [T]
    turns: float
    weight: float  # sum of the weights of each of their tokens in the batch's loss


class ChoiceRow(NamedTuple):
    """All turns with one prompt and one set of legal replies. Lists run over the legal replies."""

    game: str
    root_game: str  # of the match that the turns' rollouts began with, whose settings hold for them
    prompt: Tokens
    legal: tuple[str, ...]  # [A]
    temperature: float
    counts: list[float]  # turns that drew each reply  # [A]
    weights: list[float]  # sum of their weights in the batch's loss  # [A]
    gains: list[float]  # sum of their positive advantages, each times its weight  # [A]
    losses: list[float]  # sum of their negative advantages, each times its weight  # [A]
    draws: tuple[Draw, ...] = ()
    pairs: tuple[Pair, ...] = ()
    taught: tuple[TaughtTurns, ...] = ()


class FreeRow(NamedTuple):
    """All turns with one prompt and one free reply."""

    game: str
    root_game: str  # of the match that the turns' rollouts began with, whose settings hold for them
    prompt: Tokens
    reply: Tokens  # [T]
    temperature: float
    visits: float  # turns that drew the reply
    weight: float  # sum over these turns of the weight of each token in the batch's loss
    gain: float  # sum of their positive advantages, each times its weight
    loss: float  # sum of their negative advantages, each times its weight
    draws: tuple[Draw, ...] = ()
    truncation: Truncation = NO_TRUNCATION
    taught: tuple[TaughtTurns, ...] = ()


class ImitationRows(NamedTuple):
    """Replies of others that an update imitates: how often each was drawn, and the weight of its tokens in the loss."""

    choice: tuple[ChoiceRow, ...] = ()
    free: tuple[FreeRow, ...] = ()


class TrainBatch(NamedTuple):
    """The rows of one policy's update."""

    policy: str
    choice: tuple[ChoiceRow, ...]
    free: tuple[FreeRow, ...]
    turns: int  # before merging
    snapshots: tuple[str, ...]  # ids of the weights that sampled the turns
    free_pairs: tuple[Pair, ...] = ()
    imitation: ImitationRows = ImitationRows()
    listening: ImitationRows = ImitationRows()  # right answers to probes
    whole: WholeTrajectories = WholeTrajectories(())  # that are judged as a whole
    prediction: ImitationRows = ImitationRows()  # what others did and tools returned


def to_batch(
    policy: str,
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    loss_weights: Mapping[str, float],
    normalisation: Normalisation = CONSTANT,
    *,
    weights: Sequence[float] | None = None,
    evidence: Sequence[Evidence] | None = None,
    pairs: Sequence[tuple[int, int]] = (),
    merge: bool = True,
) -> TrainBatch:
    """Pack one policy's trajectories; tokens weigh as ``normalisation`` says, times their root game's loss weight.

    ``weights`` are the trajectories' weights in the loss, None: all 1; those of weight 0 are left out. ``evidence`` has
    the numbers of tokens of whole rollouts, where they were counted, what teachers say, and the credit of all replies
    to choose from, which then takes the place of the advantage of the one that was drawn. ``pairs`` are indices of
    trajectories of one turn, the better one first; all pairs of a game have the same weight, and their sum is the
    game's loss weight. ``merge=False`` keeps a row for every turn. Raises ValueError for advantages that do not fit the
    turns, and for a pair whose prompts differ.
    """
    rows = _Rows({}, {}, {}, {}, {})
    snapshots: dict[str, None] = {}
    token_weights_NK, turns = token_weights(trajectories, normalisation, weights, evidence), 0
    for index, (trajectory, advantages_K, weights_K) in enumerate(
        zip(trajectories, advantages, token_weights_NK, strict=True)
    ):
        if weights is not None and not weights[index]:
            continue
        turns += len(trajectory.turns)
        scale = loss_weights.get(root_game_of(trajectory), 1.0)
        known = Evidence() if evidence is None else evidence[index]
        credits_K = _credits(known, advantages_K, [scale * weight for weight in weights_K])
        for turn, credit in zip(trajectory.turns, credits_K, strict=True):
            trace = trace_of(trajectory, turn)
            snapshots[trace.snapshot] = None
            _add_turn(rows, index, trajectory, trace, turn.reply, credit, merge)
    free_pairs = _add_pairs(rows, trajectories, pairs, loss_weights)
    choice = tuple([row._replace(**_by_turn(rows, key)) for key, row in rows.choice.items()])
    free = tuple([row._replace(**_by_turn(rows, key)) for key, row in rows.free.items()])
    return TrainBatch(policy, choice, free, turns, tuple(snapshots), free_pairs)


class _Rows(NamedTuple):
    """The rows of a batch while it is packed."""

    choice: dict[object, ChoiceRow]
    free: dict[object, FreeRow]
    draws: dict[object, dict[tuple[int, tuple[float, ...]], Draw]]  # by row key, then by reply and log-probs
    keys: dict[int, object]  # the key of the row of a trajectory's last turn, by the trajectory's index
    taught: dict[object, dict[tuple[str, tuple[float, ...]], TaughtTurns]]  # by row key, then by role and what is said


class _Credit(NamedTuple):
    """What one turn adds to its row: its weight, its advantage, and what a teacher says to it."""

    weight: float
    advantage: float  # times the weight
    said: tuple[float, ...]  # () where no teacher was asked
    by_reply: tuple[float, ...]  # of all legal replies, times the weight  # [A]; () where the one drawn has it all


def _credits(known: Evidence, advantages_K: Sequence[float], weights_K: Sequence[float]) -> list[_Credit]:
    """Return what each turn of a trajectory adds to its row.  # [K]"""
    nothing = ((),) * len(weights_K)
    return [
        _Credit(weight, weight * advantage, said, tuple([weight * worth for worth in by_reply]))
        for advantage, weight, said, by_reply in zip(
            advantages_K, weights_K, known.taught or nothing, known.reply_credits or nothing, strict=True
        )
    ]


def _add_turn(
    rows: _Rows, index: int, trajectory: Trajectory, trace: TokenTrace, reply: str, credit: _Credit, merge: bool
) -> None:
    """Add a turn of trajectory ``index`` to the row of its prompt, or to one of its own."""
    distinct = None if merge else len(rows.choice) + len(rows.free)
    games = trajectory.game, root_game_of(trajectory)
    if trace.mask is None:
        sampling = trace.temperature, Truncation(*trace.truncation)  # type: ignore[arg-type]  # top_k is whole
        key: object = (*games, trace.snapshot, trace.prompt_ids, trace.reply_ids, *sampling, distinct)
        _add_free(rows, key, games, trace, credit)
        _add_draw(rows, key, 0, trace.logprobs, credit)
    elif len(trace.mask) > 1:  # a forced reply has probability 1 whatever the weights
        key = (*games, trace.snapshot, trace.prompt_ids, trace.mask, trace.temperature, distinct)
        drawn = trace.mask.index(reply)
        _add_choice(rows, key, games, trace, drawn, credit)
        _add_draw(rows, key, drawn, (sum(trace.logprobs),), credit)
    else:
        return
    rows.keys[index] = key
    if credit.said:
        _add_taught(rows, key, f"{trajectory.game}/{trajectory.role}", credit)


def _add_choice(
    rows: _Rows, key: object, games: tuple[str, str], trace: TokenTrace, drawn: int, credit: _Credit
) -> None:
    """Add a turn to its row."""
    row = rows.choice.get(key)
    if row is None:
        mask = trace.mask or ()
        zeros = [0.0] * len(mask)
        row = ChoiceRow(*games, trace.prompt_ids, mask, trace.temperature, zeros, zeros[:], zeros[:], zeros[:])
        rows.choice[key] = row
    row.counts[drawn] += 1
    row.weights[drawn] += credit.weight
    for reply, advantage in enumerate(credit.by_reply) if credit.by_reply else ((drawn, credit.advantage),):
        (row.gains if advantage > 0 else row.losses)[reply] += advantage


def _add_free(rows: _Rows, key: object, games: tuple[str, str], trace: TokenTrace, credit: _Credit) -> None:
    """Add a turn to its row."""
    row = rows.free.get(key)
    if row is None:
        truncation = Truncation(*trace.truncation)  # type: ignore[arg-type]  # top_k is whole
        row = FreeRow(
            *games, trace.prompt_ids, trace.reply_ids, trace.temperature, 0.0, 0.0, 0.0, 0.0, truncation=truncation
        )
    rows.free[key] = row._replace(
        visits=row.visits + 1,
        weight=row.weight + credit.weight,
        gain=row.gain + max(credit.advantage, 0.0),
        loss=row.loss + min(credit.advantage, 0.0),
    )


def _add_draw(rows: _Rows, key: object, reply: int, sampled: tuple[float, ...], credit: _Credit) -> None:
    """Add a turn to the draws of its row that had the same log-probs."""
    draws = rows.draws.setdefault(key, {})
    draw = draws.get((reply, sampled), Draw(reply, sampled, 0.0, 0.0, 0.0))
    gain, loss = max(credit.advantage, 0.0), min(credit.advantage, 0.0)
    draws[reply, sampled] = Draw(reply, sampled, draw.turns + 1, draw.gain + gain, draw.loss + loss)


def _add_taught(rows: _Rows, key: object, role: str, credit: _Credit) -> None:
    """Add a turn to those of its row to which a teacher says the same."""
    merged = rows.taught.setdefault(key, {})
    known = merged.get((role, credit.said), TaughtTurns(role, credit.said, 0.0, 0.0))
    merged[role, credit.said] = known._replace(turns=known.turns + 1, weight=known.weight + credit.weight)


def _by_turn(rows: _Rows, key: object) -> dict[str, Any]:
    """Return what a row keeps of its turns by draw and by what a teacher says."""
    return {"draws": tuple(rows.draws[key].values()), "taught": tuple(rows.taught.get(key, {}).values())}


def _add_pairs(
    rows: _Rows,
    trajectories: Sequence[Trajectory],
    pairs: Sequence[tuple[int, int]],
    loss_weights: Mapping[str, float],
) -> tuple[Pair, ...]:
    """Add its pairs to each choice row, which has both replies; return the pairs of free rows."""
    free_indices = {key: index for index, key in enumerate(rows.free)}
    in_choice: dict[object, dict[tuple[int, int], Pair]] = {}  # by row key, then by (chosen, rejected)
    in_free: dict[tuple[int, int], Pair] = {}  # by (chosen, rejected)
    pairs_of_game = Counter((trajectories[c].game, root_game_of(trajectories[c])) for c, _ in pairs)
    for pair in pairs:
        chosen, rejected = (trajectories[index] for index in pair)
        keys = [rows.keys[index] for index in pair]
        prompts = [trace_of(trajectory, trajectory.turns[-1]).prompt_ids for trajectory in (chosen, rejected)]
        if prompts[0] != prompts[1]:
            raise ValueError(f"matches {chosen.match} and {rejected.match}: replies to different prompts make no pair")
        weight = loss_weights.get(root_game_of(chosen), 1.0) / pairs_of_game[chosen.game, root_game_of(chosen)]
        if (row := rows.choice.get(keys[0])) is not None:
            replies = [row.legal.index(trajectory.turns[-1].reply) for trajectory in (chosen, rejected)]
            _add_pair(in_choice.setdefault(keys[0], {}), replies[0], replies[1], weight)
        else:
            _add_pair(in_free, free_indices[keys[0]], free_indices[keys[1]], weight)
    for key, merged in in_choice.items():
        rows.choice[key] = rows.choice[key]._replace(pairs=tuple(merged.values()))
    return tuple(in_free.values())


def _add_pair(pairs: dict[tuple[int, int], Pair], chosen: int, rejected: int, weight: float) -> None:
    pair = pairs.get((chosen, rejected), Pair(chosen, rejected, 0.0, 0.0))
    pairs[chosen, rejected] = pair._replace(multiplicity=pair.multiplicity + 1, weight=pair.weight + weight)


RowUnit = tuple[int, ...]  # the indices of rows that must go through the model in one pass
