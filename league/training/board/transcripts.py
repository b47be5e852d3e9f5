"""Matches as text for people to read: everything that was said is quoted or indented, as data."""

from __future__ import annotations

from collections.abc import Sequence

from arena.records import Episode, Turn, flatten_episodes
from learners.beliefs import BeliefChange, changes
from learners.shaping import speaking_rewards
from roles.probes import Probe

MOST_LETTERS = 600  # of one reply or observation
MOST_TURNS = 60  # of one match


def tell_match(
    episode: Episode,
    advantages: Sequence[Sequence[float | None]] = (),
    heading: str = "",
    left_out: Sequence[Sequence[str]] = (),
) -> str:
    """Return a whole match with its submatches, turn by turn.

    ``advantages`` are by turn of the match, then of its submatches in ``flatten_episodes``' order; None: not known.
    ``left_out`` are likewise why turns were not learned from, "" for one that was.
    """
    lines = [heading] if heading else []
    for number, match in enumerate(flatten_episodes([episode])):
        of_turns = advantages[number] if number < len(advantages) else [None] * len(match.turns)
        reasons = left_out[number] if number < len(left_out) else [""] * len(match.turns)
        lines += [*([""] if number else []), *_match_lines(match, of_turns, reasons, "submatch" if number else "match")]
    return "\n".join(lines)


def _match_lines(match: Episode, advantages: Sequence[float | None], left_out: Sequence[str], kind: str) -> list[str]:
    request = match.request
    index = f" {request.index}" if kind == "match" else ""
    lines = [
        f"{request.game}, {kind}{index}, deal {request.deal_seed}, drawn by {request.rule or 'nobody'}",
        "players: " + ", ".join(f"seat {seat} {player}" for seat, player in enumerate(request.players)),
        "returns: " + ", ".join(f"{value:+g}" for value in match.returns) + f"; {match.end}",
    ]
    lines += [f"not asked: seat {belief.seat}, which cannot be" for belief in match.beliefs if not belief.probabilities]
    heard: dict[int, list[BeliefChange]] = {}
    for change in changes(match):
        heard.setdefault(change.turn, []).append(change)
    shown = zip(match.turns[:MOST_TURNS], advantages, left_out, strict=False)
    for number, (turn, advantage, reason) in enumerate(shown, 1):
        lines += [*_turn_lines(turn, number, advantage), *([f"  left out of the update: {reason}"] if reason else [])]
        moved = [change for change in heard.get(number - 1, ()) if round(change.before, 3) != round(change.after, 3)]
        lines += ["  belief in the truth: " + ", ".join(map(_moved, moved))] if moved else []
    if len(match.turns) > MOST_TURNS:
        lines += ["", f"and {len(match.turns) - MOST_TURNS} more turns"]
    return lines


def _turn_lines(turn: Turn, number: int, advantage: float | None) -> list[str]:
    facts = [f"reward {turn.reward:+g}"]
    if turn.tool:
        facts.append(f"called {turn.tool}")
    if turn.trace is not None:
        facts.append(f"log p {sum(turn.trace.logprobs):.3f} over {len(turn.trace.reply_ids)} tokens")
    if advantage is not None:
        facts.append(f"advantage {advantage:+.3f}")
    return [
        "",
        f"turn {number}: {turn.role} (seat {turn.seat}) observes",
        *_quoted(turn.observation),
        f"  asked for: {turn.form}" if turn.form else f"  legal: {_listed(turn.legal)}",
        f"  reply: {_short(turn.reply)!r}" + ("" if turn.action is not None else "  ILLEGAL"),
        *([f"  read as: {turn.action!r}"] if turn.form and turn.action not in (None, turn.reply) else []),
        "  " + ", ".join(facts),
    ]


def tell_utterances(episodes: Sequence[Episode], probes: Sequence[Probe]) -> str:
    """Return the utterances that most raised and most lowered the others' belief in the truth, of these matches.

    Empty if nothing was said to anybody who was asked.
    """
    distinct, utterances = list({probe.name: probe for probe in probes}.values()), list[tuple[float, Episode, int]]()
    for match in episodes:
        for seat in range(len(match.returns)):
            utterances += [
                (moved, match, turn_index) for turn_index, moved in speaking_rewards(match, seat, distinct).items()
            ]
    lines = []
    best = max(utterances, key=lambda utterance: utterance[0], default=None)
    worst = min(utterances, key=lambda utterance: utterance[0], default=None)
    if best is not None and best[0] > 0.0:
        lines += [*_utterance_lines("the most convincing utterance", *best), ""]
    if worst is not None and worst[0] < 0.0:
        lines += _utterance_lines("the most misleading utterance", *worst)
    return "\n".join(lines).rstrip()


def _utterance_lines(heading: str, moved: float, match: Episode, turn_index: int) -> list[str]:
    turn, request = match.turns[turn_index], match.request
    heard = [change for change in changes(match) if change.turn == turn_index and change.hearer != turn.seat]
    truths = dict.fromkeys(truth for belief in match.beliefs for truth in belief.truths if belief.after == turn_index)
    return [
        f"{heading}: {turn.role} (seat {turn.seat}, {turn.player}), match {request.index}, turn {turn_index + 1}",
        f"  said: {_short(turn.reply)!r}",
        f"  the truth: {', '.join(map(repr, truths))}; the others' belief in it: {moved:+.3f}",
        *(f"    {_moved(change)}, {change.bits:+.2f} bits" for change in heard),
    ]


def _moved(change: BeliefChange) -> str:
    return f"seat {change.hearer} {change.before:.3f} → {change.after:.3f}"


def _listed(legal: Sequence[str]) -> str:
    return ", ".join(map(repr, legal[:12])) + (" …" if len(legal) > 12 else "")


def _quoted(text: str) -> list[str]:
    return [f"  | {line}" for line in _short(text).splitlines()]


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} … ({len(text)} letters)"
