"""The tokens of one turn: their text and what was recorded, and, on request, how a snapshot scores them now.

A run stores each sampled token's log-prob. Entropy, and the ratio of a learner to the sampler, are computed from the
snapshot that was frozen in that iteration, when somebody asks: its weights are those after the update that learned from
the match.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from arena.records import Episode, TokenTrace, Turn
from games.common.errors import UsageError
from league.lab.look.curves import whole
from league.lab.look.matches import find_sample, match_at, why_nothing
from league.lab.look.run_files import RunFiles

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from league.population.storage.population import Snapshot

MOST_TOKENS = 4096  # of a prompt that is shown


def turn_tokens(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return turn ``turn`` (from 1) of a match: its tokens, what each weighs, and why it may weigh nothing."""
    match, turn, advantage, left_out = find_turn(run, query)
    trace = turn.trace
    if trace is None:
        return {"tokens": [], "prompt": [], "none": f"{turn.player} is not a language model: no tokens were recorded."}
    tokenizer = _tokenizer(run, trace)
    nothing = left_out or why_nothing(run, match, turn, advantage)
    learns = 0.0 if nothing or advantage is None else advantage
    loss_weight = float(run.toml.get("games", {}).get(match.request.game, {}).get("loss_weight", 1.0))
    forced = [trace.mask is not None and logprob == 0.0 for logprob in trace.logprobs]
    return {
        "prompt": [_text(tokenizer, token) for token in trace.prompt_ids[-MOST_TOKENS:]],
        "tokens": [
            {
                "text": _text(tokenizer, token),
                "id": token,
                "logprob": logprob,
                "mask": alone,
                "advantage": advantage,
                "weight": 0.0 if alone else learns * loss_weight,
            }
            for token, logprob, alone in zip(trace.reply_ids, trace.logprobs, forced, strict=True)
        ],
        "nothing": nothing,
        "mask": list(trace.mask) if trace.mask is not None else None,
        "temperature": trace.temperature,
        "version": trace.version,
        "snapshot": trace.snapshot,
    }


class FoundTurn(NamedTuple):
    """A turn of a kept match."""

    match: Episode
    turn: Turn
    advantage: float | None
    left_out: str  # why a rule of selection left it out; "": it counts


def find_turn(run: RunFiles, query: Mapping[str, str]) -> FoundTurn:
    """Return the turn that a query names. Raises UsageError for one that does not exist."""
    match, advantages, left_out = match_at(find_sample(run, query), query.get("path", ""))
    number = whole(query, "turn")
    if not 1 <= number <= len(match.turns):
        raise UsageError(f"The match has the turns 1 to {len(match.turns)}, not {number}.")
    return FoundTurn(match, match.turns[number - 1], advantages[number - 1], left_out[number - 1])


def _tokenizer(run: RunFiles, trace: TokenTrace) -> Tokenizer | None:
    """Return the tokenizer of the snapshots, or of the base that they adapt; None where none is stored."""
    from tokenizers import Tokenizer

    known = {snapshot.id: snapshot for snapshot in run.snapshots()}
    same = [snapshot for snapshot in run.snapshots() if trace.snapshot in (snapshot.id, snapshot.policy)]
    for snapshot in [*same[:1], *known.values()][:2]:
        path = _folder(snapshot.path) / "tokenizer.json"
        if path.is_file():
            return run.of_file("tokenizer", path, lambda path=path: Tokenizer.from_file(str(path)))  # type: ignore[misc]
    return None


def _folder(snapshot: Path) -> Path:
    """Return the folder that has a snapshot's tokenizer: its own, or its base's."""
    if (snapshot / "tokenizer.json").is_file() or not (snapshot / "adapter_config.json").is_file():
        return snapshot
    from arena.lm.lora import adapter_base  # torch is slow to import

    try:
        return Path(adapter_base(snapshot))
    except UsageError:  # its tokens are shown by their numbers
        return snapshot


def _text(tokenizer: Tokenizer | None, token: int) -> str:
    """Return a token's text; its number where the text is unknown."""
    if tokenizer is None:
        return f"#{token}"
    text = tokenizer.decode([token], skip_special_tokens=False)
    if text == "" or "�" in text:
        text = tokenizer.id_to_token(token) or f"#{token}"
    raw = tokenizer.id_to_token(token) or ""
    return f" {text}" if raw.startswith(("Ġ", "▁")) and not text.startswith(" ") else str(text)


def scored_turn(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return each reply token's log-prob, entropy (nats) and ratio to the sampler, by a snapshot's weights.

    ``by`` names the snapshot; without it the newest of the turn's policy up to that iteration.
    """
    turn = find_turn(run, query).turn
    if turn.trace is None:
        raise UsageError(f"{turn.player} is not a language model: there is nothing to score.")
    snapshot = run.snapshot(query["by"]) if query.get("by") else newest_of(run, turn.trace.snapshot, whole(query, "at"))
    logprobs, entropies = run.weights.score(snapshot, turn.trace)
    ratios = [math.exp(min(new - old, 50.0)) for new, old in zip(logprobs, turn.trace.logprobs, strict=True)]
    return {"by": snapshot.id, "logprob": logprobs, "entropy": entropies, "ratio": ratios}


def newest_of(run: RunFiles, player: str, iteration: int) -> Snapshot:
    """Return a snapshot, or the newest of a policy up to an iteration. Raises UsageError where there is none."""
    found = [s for s in run.snapshots() if s.id == player or (s.policy == player and s.step <= iteration)]
    if not found:
        raise UsageError(f"{run.name} has no snapshot of {player} up to iteration {iteration}.")
    return found[-1]
