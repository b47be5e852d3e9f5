"""Matches: lists of the kept ones by iteration, player or reason, and one match turn by turn with its tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arena.records import Episode, Turn, flatten_episodes
from games.common.errors import UsageError
from league.lab.look.curves import whole
from league.lab.look.run_files import RunFiles
from league.population.storage.sampled_matches import SampledMatch, TurnAdvantages

MOST_LISTED = 400  # matches of a list
FLAT = 1e-12  # an advantage that is nothing

Row = dict[str, Any]


def kept_matches(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the kept matches, newest first, by choice of an iteration, one or two players, a deal, or a reason.

    ``at``: of that iteration; ``player`` and ``against``: in which they sit; ``deal``: of that seed; ``kept``: kept as
    that; ``has``: with a turn that is "illegal", "stale" or "flat".
    """
    at = whole(query, "at") if "at" in query else None
    rows = [row for row in all_rows(run, at) if _is_wanted(row, query)]
    rows.sort(key=lambda row: (-row["iteration"], row["index"]))
    return {"matches": rows[:MOST_LISTED], "total": len(rows)}


def all_rows(run: RunFiles, at: int | None = None) -> Iterator[Row]:
    """Yield a row for each kept match, of one iteration or of all; every file is read once."""
    for path in run.sample_files():
        iteration = iteration_of(path)
        if at in (None, iteration):
            yield from run.of_file("rows", path, lambda iteration=iteration: _rows(run.samples(iteration)))  # type: ignore[misc]


def iteration_of(path: Path) -> int:
    """Return the iteration of a file of kept matches."""
    return int(path.stem.partition("-")[2])


def _rows(samples: Sequence[SampledMatch]) -> list[Row]:
    newest: dict[str, int] = {}  # version by policy: what is older is stale
    for sample in samples:
        for player, version in _versions(sample.episode):
            newest[player] = max(newest.get(player, 0), version)
    return [_row(sample, newest) for sample in samples]


def _row(sample: SampledMatch, newest: Mapping[str, int]) -> Row:
    episode, request = sample.episode, sample.episode.request
    turns = _turns(episode)
    spoken = {turn.seat: turn.role for turn in episode.turns}
    credit = [value for of_match in sample.advantages for value in of_match if value is not None]
    lags = [newest[player] - version for player, version in _versions(episode)]
    return {
        "iteration": sample.iteration or 0,
        "index": request.index,
        "game": request.game,
        "players": list(request.players),
        "roles": [spoken.get(seat, f"seat {seat}") for seat in range(len(request.players))],
        "trained": list(request.trained),
        "returns": list(episode.returns),
        "deal": str(request.deal_seed),  # too large for a browser's numbers
        "rule": request.rule,
        "turns": len(turns),
        "tokens": sum(len(turn.trace.reply_ids) for turn in turns if turn.trace is not None),
        "illegal": sum(turn.action is None for turn in turns),
        "stale": max(lags, default=0),
        "flat": sum(abs(value) < FLAT for value in credit),
        "surprise": max(map(abs, credit), default=None),
        "kept_as": list(sample.kept_as),
    }


def _versions(episode: Episode) -> Iterator[tuple[str, int]]:
    """Yield player and version of each turn whose sampler was in training."""
    for turn in _turns(episode):
        if turn.trace is not None and turn.trace.version is not None:
            yield turn.player, turn.trace.version


def _turns(episode: Episode) -> list[Turn]:
    """Return all turns of a match and of its submatches."""
    return [turn for match in flatten_episodes([episode]) for turn in match.turns]


def _is_wanted(row: Row, query: Mapping[str, str]) -> bool:
    players, has = row["players"], query.get("has")
    player, against = query.get("player"), query.get("against")
    if player is not None and against is not None:
        seated = {player, against} <= {*players} and (player != against or players.count(player) > 1)
    else:
        seated = all(each is None or each in players for each in (player, against))
    return (
        seated
        and query.get("deal") in (None, row["deal"])
        and query.get("game") in (None, row["game"])
        and (query.get("kept") is None or query["kept"] in row["kept_as"])
        and (has is None or bool(row.get(has)))
    )


def one_match(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return match ``index`` of iteration ``at``, turn by turn; of its submatches, ``path`` "0.1" names one."""
    sample, path = find_sample(run, query), query.get("path", "")
    numbered = zip(places(sample.episode), flatten_episodes([sample.episode]), strict=True)
    row = next(each for each in all_rows(run, whole(query, "at")) if each["index"] == whole(query, "index"))
    return {
        **row,
        "path": path,
        "submatches": [
            {"path": place, "game": each.request.game, "task": each.request.task, "outcome": each.outcome}
            for place, each in numbered
            if place and place.rpartition(".")[0] == path
        ],
        **_turn_by_turn(run, sample, match_at(sample, path)),
    }


class CreditedMatch(NamedTuple):
    """A kept match, or a submatch of it, and what is known of its turns."""

    match: Episode
    advantages: TurnAdvantages  # [K]
    left_out: tuple[str, ...]  # why a rule of selection left the turn out; "" for one that counts  # [K]


def match_at(sample: SampledMatch, path: str) -> CreditedMatch:
    """Return a match, "", or the submatch at a path. Raises UsageError where there is none."""
    known = list(places(sample.episode))
    if path not in known:
        raise UsageError(f"Match {sample.episode.request.index} has no submatch {path!r}; it has {known[1:]}.")
    place, match = known.index(path), sample.episode
    for number in filter(None, path.split(".")):
        match = match.children[int(number)]
    advantages = sample.advantages[place]
    return CreditedMatch(match, advantages, sample.left_out[place] if sample.left_out else ("",) * len(advantages))


def find_sample(run: RunFiles, query: Mapping[str, str]) -> SampledMatch:
    """Return the kept match that a query names by ``at`` and ``index``. Raises UsageError where it is not kept."""
    at, index = whole(query, "at"), whole(query, "index")
    samples = run.samples(at)
    for sample in samples:
        if sample.episode.request.index == index:
            return sample
    some = ", ".join(str(sample.episode.request.index) for sample in samples[:12])
    raise UsageError(f"Iteration {at} of {run.name} kept no match {index}; it kept {some}.")


def places(episode: Episode, path: str = "") -> Iterator[str]:
    """Yield the path of a match and of all below it, in the order of ``flatten_episodes``: "", "0", "0.0", "1"."""
    yield path
    for number, child in enumerate(episode.children):
        yield from places(child, f"{path}.{number}".lstrip("."))


def _turn_by_turn(run: RunFiles, sample: SampledMatch, credited: CreditedMatch) -> dict[str, Any]:
    from league.lab.look.boards import drawings
    from league.lab.look.exact import exact_credit
    from league.lab.reports.replay import belief_curves, positions, reasoning

    match = credited.match
    views = positions(match)
    spoken = {turn.seat: turn.role for turn in match.turns}
    roles = [spoken.get(seat, f"seat {seat}") for seat in range(len(match.request.players))]
    exact, why_not = exact_credit(run, match, sample.iteration or 0)
    turns = []
    for number, (turn, advantage, left_out) in enumerate(
        zip(match.turns, credited.advantages, credited.left_out, strict=True)
    ):
        turns.append(
            {
                **_turn(turn),
                "reasoning": reasoning(turn.reply, turn.action),
                "advantage": advantage,
                "exact": exact[number] if exact else None,
                "nothing": left_out or why_nothing(run, match, turn, advantage),
            }
        )
    shown = [None if view is None else list(view.shown) for view in views]
    return {
        "game": match.request.game,
        "players": list(match.request.players),
        "roles": roles,
        "trained": list(match.request.trained),
        "returns": list(match.returns),
        "ending": "" if match.offender is None else f"{roles[match.offender]} forfeits",
        "task": match.request.task,
        "outcome": match.outcome,
        "steps": turns,
        "public": [None if view is None else sorted(view.public) for view in views],
        "views": shown,
        "boards": [drawings(match.request.game, each, roles) for each in shown],
        "no_exact": why_not,
        "beliefs": [
            {
                "probe": curves.probe,
                "lines": [{"label": each.label, "x": each.xs, "y": each.ys} for each in curves.lines],
            }
            for curves in belief_curves(match, roles)
        ],
    }


def _turn(turn: Turn) -> dict[str, Any]:
    trace = turn.trace
    return {
        "seat": turn.seat,
        "role": turn.role,
        "player": turn.player,
        "observation": turn.observation,
        "legal": list(turn.legal),
        "form": turn.form,
        "reply": turn.reply,
        "action": turn.action,
        "tool": turn.tool,
        "reward": turn.reward,
        "named": [list(pair) for pair in turn.named],
        "tokens": 0 if trace is None else len(trace.reply_ids),
        "logprob": None if trace is None else math.fsum(trace.logprobs),
        "version": None if trace is None else trace.version,
        "snapshot": None if trace is None else trace.snapshot,
        "temperature": None if trace is None else trace.temperature,
        "masked": trace is not None and trace.mask is not None,
    }


def why_nothing(run: RunFiles, match: Episode, turn: Turn, advantage: float | None) -> str:
    """Return why a turn weighs nothing in the update; "" where it weighs something."""
    trace, game = turn.trace, match.request.game
    if not match.request.trained[turn.seat]:
        return f"{turn.player} is not trained in this match: only trained seats learn."
    if run.toml.get("games", {}).get(game, {}).get("loss_weight", 1.0) == 0.0:
        return f"games.{game}.loss_weight is 0: this game is not learned from."
    if trace is None:
        return f"{turn.player} is not a language model: there are no tokens to learn from."
    if advantage is None:
        return (
            "It has no credit: it was dropped before the update (stale, or beyond the size of a batch), or none "
            "was computed."
        )
    if abs(advantage) < FLAT:
        return "Its advantage is 0: what is compared with it (its group, or its role's mean) ended the same way."
    if trace.mask is not None and not any(trace.logprobs):
        return "Masked: every token was the only one allowed, so no change of weights could make it likelier."
    return ""
