"""Alarms about illegal free replies, from the first iteration on: a role whose replies are all illegal learns nothing.
Also statistics of free replies for other alarms: how long their reasoning is, and how often they repeat each other.

illegal   more than a share of a policy's replies in a role are illegal, over the last ``WINDOW`` iterations;
silent    nearly all of them are, in each of the last ``ITERATIONS_SILENT``.

In a role that is silent every match ends with the same forfeit, no reply is better than another, and training only
unlearns what was said: so ``alarms.stop`` names it by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from league.training.monitors.alarm import AlarmRule, Kept, Ledger, Readings, Sensitivity, Watched
from learners.keys import join_names
from learners.trajectories import Trajectory
from roles.replies import THINK_CLOSE
from roles.role import ReplyForm, Role

WINDOW = 5  # iterations that are judged together
ITERATIONS_SILENT = 3
ILLEGAL_SHARE = 0.5  # the usual limit of ``illegal``
LEGAL_SHARE = 0.05  # and of ``silent``
PHRASE = 4  # words in a phrase, as in seq-rep-4 (Welleck et al. 2020, https://arxiv.org/abs/1908.04319)
MAX_REPLIES = 256  # of a role, compared for repeats in an iteration: among more replies, more phrases repeat
LEAST_REPLIES = 20  # in an iteration, to judge it
ADVICE = {  # by where policies learn: what a silent role may need and that kind of run takes
    "here": "Set a longer cold start (cold_start.steps, or for a pretrained model cold_start.own_replies = 32, which "
    "imitates its legal replies), roles.demonstrations = 1, a lower roles.temperature, or roles.reply = 'choice', "
    "which masks what is illegal.",
    "elsewhere": "Set roles.demonstrations = 1, say on the cards (roles.cards) what a legal reply looks like, or begin "
    "from a model that follows instructions (model.source).",
}


class Counts(NamedTuple):
    """A policy's replies in a role, and where the policy learns."""

    rows: Sequence[Sequence[int]]  # replies and illegal ones  # [iterations, 2]
    learns: str  # a key of ``ADVICE``


def read_replies(watched: Watched, memory: Kept) -> tuple[Readings, Kept]:
    """Return the counts of each policy in each role with enough free replies, [replies, illegal ones] an iteration."""
    counts, readings = {key: [list(row) for row in rows] for key, rows in memory.items()}, Readings()
    for names, indices in watched.by_role.items():
        seats = watched.roles[names[0]]
        trajectories = (watched.trajectories[i] for i in indices)
        turns = [turn for t in trajectories if seats[t.seat].reply is ReplyForm.FREE for turn in t.turns]
        if len(turns) >= LEAST_REPLIES:
            key = join_names(*names)
            numbers = [len(turns), sum(turn.action is None for turn in turns)]
            counts[key] = [*counts.get(key, []), numbers][-WINDOW:]
            readings[watched.subject(*names)] = Counts(counts[key], watched.learns)
    return readings, counts


def judge_illegal(counts: Counts, settings: Sensitivity) -> str:
    """Judge the share of illegal replies in the last iterations."""
    share = sum(illegal for _, illegal in counts.rows) / sum(replies for replies, _ in counts.rows)
    most = settings.most(ILLEGAL_SHARE)
    return f"{share:.0%} of its replies are illegal, above {most:.0%}." if share > most else ""


def judge_silent(counts: Counts, settings: Sensitivity) -> str | None:
    """Judge whether a role has said nothing legal for some iterations."""
    if len(last := counts.rows[-ITERATIONS_SILENT:]) < ITERATIONS_SILENT:
        return None
    least = min(illegal / replies for replies, illegal in last)
    if least <= 1.0 - settings.least(LEGAL_SHARE):
        return ""
    return (
        f"in the last {ITERATIONS_SILENT} iterations at least {least:.0%} of its replies were illegal, so no reply "
        f"was better than another and there is nothing to learn. {ADVICE[counts.learns]}"
    )


REPLIES = Ledger(read_replies, "replies")
ILLEGAL = AlarmRule(judge_illegal, Sensitivity, ledger=REPLIES)
SILENT = AlarmRule(judge_silent, Sensitivity, ledger=REPLIES)


def reply_stats(role: Role, trajectories: Sequence[Trajectory]) -> tuple[float, int, int, int]:
    """Return a role's reasoning tokens, free replies, repeated phrases and phrases compared."""
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    if role.reply is ReplyForm.CHOICE:  # a choice is one of few strings, without reasoning
        turns = [turn for turn in turns if turn.form]
    if not turns:
        return 0.0, 0, 0, 0
    lengths = [reasoning_tokens(role, turn.reply, len(turn.trace.reply_ids), turn.form) for turn in turns if turn.trace]
    replies = [turn.reply for turn in turns[:: -(-len(turns) // MAX_REPLIES)]]  # evenly spaced: neighbours may be alike
    return sum(lengths), len(lengths), *count_repeats(replies)


def reasoning_tokens(role: Role, reply: str, tokens: int, form: str = "") -> float:
    """Return how many of a free reply's tokens precede its last answer mark (all if it has none), or, where ``form``
    asked for text without marks, are thoughts: estimated by the share of characters, as tokens may cross the mark.
    """
    before = reply.rfind(THINK_CLOSE if form else role.answer_open)
    return float(0 if form else tokens) if before < 0 else tokens * before / len(reply)


def count_repeats(replies: Sequence[str]) -> tuple[int, int]:
    """Return how many phrases of the replies equal an earlier one, in any of the replies, and how many there are.

    A phrase is ``PHRASE`` words in a row; a shorter reply is one phrase. The share is 1 − distinct-n
    (Li et al. 2016, https://arxiv.org/abs/1510.03055).
    """
    phrases = [
        tuple(islice(words, start, start + PHRASE))
        for words in (reply.split() for reply in replies)
        for start in range(max(len(words) - PHRASE + 1, 1))
    ]
    return len(phrases) - len(set(phrases)), len(phrases)
