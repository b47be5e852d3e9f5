"""Trajectories and advantages to a TrainBatch: equal prompts become one row, their weights summed.

Turns with the same prompt and the same mask differ only in which reply was drawn, its advantage and the weight of its
tokens, so for each reply a row keeps how often it was drawn and the weighted sums of its positive and its negative
advantages. Every objective here is linear in those sums for a given sign, and its other terms in the sum of the
weights, so the gradient is exactly the gradient of the unmerged turns. Importance weights depend on the sampled
log-probs too, which an engine may compute a little differently at every draw: the same sums are kept by draw, and only
draws with equal log-probs are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from arena.lm.chunks import Tokens
from arena.packed import travels_packed
from arena.records import TokenTrace
from learners.groups import root_game_of
from learners.normalisation import CONSTANT, Normalisation, token_weights, trace_of, turn_weights
from learners.trajectories import Evidence, Trajectory
from roles.truncation import NO_TRUNCATION, Truncation


class Draw(NamedTuple):
    """Turns that drew one reply of a row with the same sampled log-probs."""

    reply: int  # index in the row's legal replies; 0 in a free row
    sampled: tuple[float, ...]  # the sampler's log-probs (nats): a free reply's tokens [T], a choice as a whole [1]
    turns: float
    gain: float  # sum of their positive advantages, each times its weight
    loss: float  # sum of their negative advantages, each times its weight


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
    role: str = ""  # of the first of the turns


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
    role: str = ""  # of the first of the turns


travels_packed(Draw, "sampled")
travels_packed(ChoiceRow, "prompt")
travels_packed(FreeRow, "prompt", "reply")


class TrainBatch(NamedTuple):
    """The rows of one policy's update."""

    policy: str
    choice: tuple[ChoiceRow, ...]
    free: tuple[FreeRow, ...]
    turns: int  # before merging
    snapshots: tuple[str, ...]  # ids of the weights that sampled the turns
    terms: Mapping[str, Any] = {}  # what each term of the loss adds, by its name (``learners.losses.term``)


class ReplyPlace(NamedTuple):
    """Where the log-prob of a turn's reply is computed."""

    row: int  # index of the batch's choice rows, or of its free rows
    reply: int  # index of the row's legal replies; 0 in a free row
    free: bool


class Packed(NamedTuple):
    """A batch, and where its turns went. A trajectory of weight 0 has no turns here."""

    batch: TrainBatch
    places: list[list[ReplyPlace | None]]  # None: forced, so that its log-prob is 0, or of weight 0  # [N][K]
    weights: list[list[float]]  # of each token of a turn in the loss  # [N][K]


def to_batch(
    policy: str,
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    loss_weights: Mapping[str, float],
    normalisation: Normalisation = CONSTANT,
    **options: Any,
) -> TrainBatch:
    """Return only the batch of what ``pack`` returns."""
    return pack(policy, trajectories, advantages, loss_weights, normalisation, **options).batch


def pack(
    policy: str,
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    loss_weights: Mapping[str, float],
    normalisation: Normalisation = CONSTANT,
    *,
    weights: Sequence[float] | None = None,
    evidence: Sequence[Evidence] | None = None,
    merge: bool = True,
) -> Packed:
    """Pack one policy's trajectories; tokens weigh as ``normalisation`` says, times their root game's loss weight.

    ``weights`` are the trajectories' weights in the loss, None: all 1; those of weight 0 are left out. ``evidence`` has
    the token counts of whole rollouts, where they were counted, the weights of single turns, of which those of weight 0
    are left out, and the credit of all legal replies, which then replaces the advantage of the reply that was drawn.
    ``merge=False`` keeps a row for every turn.
    Raises ValueError for advantages that do not fit the turns.
    """
    rows, packed = _Rows({}, {}, {}, {}, {}), Packed(TrainBatch(policy, (), (), 0, ()), [], [])
    token_weights_NK, turns = token_weights(trajectories, normalisation, weights, evidence), 0
    turn_weights_NK = turn_weights(trajectories, evidence)
    for index, (trajectory, advantages_K, weights_K) in enumerate(
        zip(trajectories, advantages, token_weights_NK, strict=True)
    ):
        if weights is not None and not weights[index]:
            packed.places.append([])
            packed.weights.append([])
            continue
        scale, turn_weights_K = loss_weights.get(root_game_of(trajectory), 1.0), turn_weights_NK[index]
        scaled_K = [scale * weight for weight in weights_K]
        packed.weights.append(scaled_K)
        credits_KA = () if evidence is None else evidence[index].reply_credits
        turns += sum([weight != 0.0 for weight in turn_weights_K])
        whole = merge and not credits_KA and all(turn_weights_K)
        if whole and (choices_K := _choices_of(rows, trajectory)) is not None:
            packed.places.append(_add_choices(choices_K, advantages_K, scaled_K))
        else:
            credits_K = _credits(credits_KA, advantages_K, scaled_K)
            packed.places.append(_add_turns(rows, trajectory, turn_weights_K, credits_K, merge=merge))
    choices = tuple([packing.finished() for packing in rows.choice.values()])
    free = tuple([packing.finished() for packing in rows.free.values()])
    return packed._replace(batch=TrainBatch(policy, choices, free, turns, tuple(rows.snapshots)))


RowT = TypeVar("RowT", ChoiceRow, FreeRow)


@dataclass(slots=True)
class _Packing(Generic[RowT]):
    """A row while the batch is packed."""

    index: int  # among the rows of its form
    row: RowT
    draws: dict[tuple[int, tuple[float, ...]], list[float]]  # turns, gain and loss, by reply and log-probs

    def finished(self) -> RowT:
        """Return the row with its draws."""
        return self.row._replace(draws=tuple([Draw(*key, *numbers) for key, numbers in self.draws.items()]))


class _Choice(NamedTuple):
    """Where a turn that chose a reply goes."""

    row: ChoiceRow
    place: ReplyPlace
    draw: list[float]  # turns, gain and loss of the reply's draws with these log-probs


class _Rows(NamedTuple):
    """The rows of a batch while it is packed, by what their turns have in common."""

    choice: dict[object, _Packing[ChoiceRow]]
    free: dict[object, _Packing[FreeRow]]
    # Many matches of a small game have the same records: of these, by their identities, what was found before.
    of_trace: dict[object, _Choice]
    of_turns: dict[object, list[_Choice | None] | None]
    snapshots: dict[str, None]  # in the order of their first turns


class _Credit(NamedTuple):
    """What one turn adds to its row: its weight and its advantage."""

    weight: float
    advantage: float  # times the weight
    by_reply: tuple[float, ...]  # of all legal replies, times the weight  # [A]; () where the drawn reply has all of it


def _credits(
    credits_KA: Sequence[Sequence[float]] | None, advantages_K: Sequence[float], weights_K: Sequence[float]
) -> list[_Credit]:
    """Return what each turn of a trajectory adds to its row, of all legal replies where these are credited.  # [K]"""
    by_reply_K = credits_KA or [()] * len(weights_K)
    return [
        _Credit(weight, weight * advantage, tuple([weight * reply_credit for reply_credit in by_reply]))
        for advantage, weight, by_reply in zip(advantages_K, weights_K, by_reply_K, strict=True)
    ]


def _choices_of(rows: _Rows, trajectory: Trajectory) -> list[_Choice | None] | None:
    """Return where each turn goes, None for a forced one; None in all if one is a free reply.  # [K]"""
    games = trajectory.game, root_game_of(trajectory)
    known = id(trajectory.turns), games
    if known not in rows.of_turns:
        traces = [trace_of(trajectory, turn) for turn in trajectory.turns]
        if any(trace.mask is None for trace in traces):
            rows.of_turns[known] = None
        else:
            rows.snapshots.update(dict.fromkeys([trace.snapshot for trace in traces]))
            rows.of_turns[known] = [
                _choice_of(rows, games, trajectory.role, trace, turn.reply, None)
                for turn, trace in zip(trajectory.turns, traces, strict=True)
            ]
    return rows.of_turns[known]


def _add_choices(
    choices: Sequence[_Choice | None], advantages_K: Sequence[float], weights_K: Sequence[float]
) -> list[ReplyPlace | None]:
    """Add a trajectory's turns to their rows; return where they went.  # [K]"""
    for choice, advantage, weight in zip(choices, advantages_K, weights_K, strict=True):
        if choice is not None:
            _add_choice(choice, weight, weight * advantage)
    return [None if choice is None else choice.place for choice in choices]


def _add_turns(
    rows: _Rows, trajectory: Trajectory, turn_weights_K: Sequence[float], credits_K: Sequence[_Credit], *, merge: bool
) -> list[ReplyPlace | None]:
    """Add a trajectory's turns, but those of weight 0, each by itself; return where they went.  # [K]"""
    games, places = (trajectory.game, root_game_of(trajectory)), list[ReplyPlace | None]()
    for turn, credit, turn_weight in zip(trajectory.turns, credits_K, turn_weights_K, strict=True):
        if not turn_weight:
            places.append(None)
            continue
        trace = trace_of(trajectory, turn)
        rows.snapshots[trace.snapshot] = None
        distinct = None if merge else len(rows.choice) + len(rows.free)
        if trace.mask is None:
            places.append(_add_free(rows.free, games, trajectory.role, trace, credit, distinct))
            continue
        choice = _choice_of(rows, games, trajectory.role, trace, turn.reply, distinct)
        places.append(None if choice is None else choice.place)
        if choice is not None:
            _add_choice(choice, *credit)
    return places


def _choice_of(
    rows: _Rows, games: tuple[str, str], role: str, trace: TokenTrace, reply: str, distinct: int | None
) -> _Choice | None:
    """Return where the turns with a trace go: to a new row where there is none of their prompt; None for a forced one.

    ``distinct`` is a number that the row shares with no other; None where equal prompts are merged.
    """
    mask = trace.mask or ()
    if len(mask) == 1:  # a forced reply has probability 1 whatever the weights
        return None
    known = id(trace), reply, games, distinct
    if (choice := rows.of_trace.get(known)) is not None:
        return choice
    key = (*games, trace.snapshot, trace.prompt_ids, mask, trace.temperature, distinct)
    packing = rows.choice.get(key)
    if packing is None:
        zeros = [0.0] * len(mask)
        row = ChoiceRow(
            *games, trace.prompt_ids, mask, trace.temperature, zeros, zeros[:], zeros[:], zeros[:], (), role
        )
        packing = rows.choice[key] = _Packing(len(rows.choice), row, {})
    drawn = mask.index(reply)
    draw = packing.draws.setdefault((drawn, (sum(trace.logprobs),)), [0.0, 0.0, 0.0])
    choice = rows.of_trace[known] = _Choice(packing.row, ReplyPlace(packing.index, drawn, free=False), draw)
    return choice


def _add_choice(choice: _Choice, weight: float, gained: float, by_reply: Sequence[float] = ()) -> None:
    """Add a turn to its row, with what ``_Credit`` has."""
    row, (_, drawn, _), draw = choice
    row.counts[drawn] += 1
    row.weights[drawn] += weight
    if by_reply:
        for reply, advantage in enumerate(by_reply):
            (row.gains if advantage > 0 else row.losses)[reply] += advantage
    else:
        (row.gains if gained > 0 else row.losses)[drawn] += gained
    _add_draw(draw, gained)


def _add_free(
    rows: dict[object, _Packing[FreeRow]],
    games: tuple[str, str],
    role: str,
    trace: TokenTrace,
    credit: _Credit,
    distinct: int | None,
) -> ReplyPlace:
    """Add a turn to its row, or to a new one; return where it went."""
    truncation = Truncation(*trace.truncation)  # type: ignore[arg-type]  # top_k is whole
    key = (*games, trace.snapshot, trace.prompt_ids, trace.reply_ids, trace.temperature, truncation, distinct)
    packing = rows.get(key)
    if packing is None:
        sums = 0.0, 0.0, 0.0, 0.0
        row = FreeRow(*games, trace.prompt_ids, trace.reply_ids, trace.temperature, *sums, (), truncation, role)
        packing = rows[key] = _Packing(len(rows), row, {})
    row = packing.row
    packing.row = row._replace(
        visits=row.visits + 1,
        weight=row.weight + credit.weight,
        gain=row.gain + max(credit.advantage, 0.0),
        loss=row.loss + min(credit.advantage, 0.0),
    )
    _add_draw(packing.draws.setdefault((0, trace.logprobs), [0.0, 0.0, 0.0]), credit.advantage)
    return ReplyPlace(packing.index, 0, free=True)


def _add_draw(draw: list[float], gained: float) -> None:
    """Add a turn to the draws of its row that had the same log-probs: turns, gain and loss."""
    draw[0] += 1
    draw[1 if gained > 0 else 2] += gained


RowUnit = tuple[int, ...]  # the indices of rows that must go through the model in one pass
