"""Kept matches for other tools: every reply with its prompt, log-probs and advantage; or whole matches, losslessly.

The prompt of a reply is the chat that it was asked for with, rebuilt from the run's role cards and from the illegal
replies before it; ``prompt_ids`` are the tokens that the engine was given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from arena.records import Episode, Turn, flatten_episodes
from arena.replays import episode_from_record, episode_to_record
from games.common.errors import UsageError
from games.common.files import atomic_write, parse_json
from league.population.storage.sampled_matches import SampledMatch, load_samples, sample_files
from roles.chat_text import Message
from roles.conduct import retry_message
from roles.prompts import messages
from roles.role import Role, Roles

HEADER = {"format": "league matches", "version": 1}
LAST_ITERATION = 10**9  # that a match of a file may be of


class ReplyRow(NamedTuple):
    """One reply of one seat, with all data that training on it needs."""

    prompt: list[Message]
    reply: str
    advantage: float | None  # None: its seat does not learn
    reward: float  # from this turn until the seat's next one, in the game's units
    match_return: float  # of the seat, in the game's units
    logprobs: tuple[float, ...] | None  # of the reply's tokens, in nats; None: not a language model's  # [T]
    prompt_ids: tuple[int, ...] | None  # [P]
    reply_ids: tuple[int, ...] | None  # [T]
    temperature: float | None
    action: str | None  # None: the reply was illegal
    legal: tuple[str, ...]
    game: str
    role: str
    player: str
    seat: int
    match: int
    turn: int  # in its match, from 0
    iteration: int | None
    form: str  # the expected form of the answer, if free text was asked for; otherwise ""


def reply_rows(samples: Iterable[SampledMatch], roles: Roles, all_seats: bool = False) -> Iterator[ReplyRow]:
    """Yield the replies of trained seats, or of all seats, match by match and turn by turn.

    Raises UsageError for a match of a game that has no roles here.
    """
    for sample in samples:
        for match, advantages in zip(flatten_episodes([sample.episode]), sample.advantages, strict=True):
            if match.request.game not in roles:
                raise UsageError(f"A match of {match.request.game} was kept, but this run does not have that game.")
            cards = roles[match.request.game]
            for number, (turn, advantage) in enumerate(zip(match.turns, advantages, strict=True)):
                if all_seats or match.request.trained[turn.seat]:
                    yield _row(match, number, turn, advantage, cards[turn.seat], sample.iteration)


def _row(
    match: Episode, number: int, turn: Turn, advantage: float | None, role: Role, iteration: int | None
) -> ReplyRow:
    trace = turn.trace
    return ReplyRow(
        prompt=messages(role, turn.observation, turn.legal, _refusals(match.turns[:number], turn, role), turn.form),
        reply=turn.reply,
        advantage=advantage,
        reward=turn.reward,
        match_return=match.returns[turn.seat],
        logprobs=None if trace is None else trace.logprobs,
        prompt_ids=None if trace is None else trace.prompt_ids,
        reply_ids=None if trace is None else trace.reply_ids,
        temperature=None if trace is None else trace.temperature,
        action=turn.action,
        legal=turn.legal,
        game=match.request.game,
        role=turn.role,
        player=turn.player,
        seat=turn.seat,
        match=match.request.index,
        turn=number,
        iteration=iteration,
        form=turn.form,
    )


def _refusals(before: Sequence[Turn], turn: Turn, role: Role) -> list[tuple[str, str]]:
    """Return the illegal replies to the same request, oldest first, with the message to the seat."""
    refused: list[tuple[str, str]] = []
    for earlier in reversed(before):
        same = (earlier.seat, earlier.observation, earlier.legal) == (turn.seat, turn.observation, turn.legal)
        if not same or earlier.action is not None or earlier.tool:
            break
        refused.append((earlier.reply, retry_message(role, turn.observation, earlier.reply, turn.legal)))
    return refused[::-1]


def trl_record(row: ReplyRow) -> dict[str, Any]:
    """Return a reply as TRL's conversational prompt and completion, its other columns beside them."""
    record = row._asdict()
    prompt, reply = record.pop("prompt"), record.pop("reply")
    record["completion_ids"] = record.pop("reply_ids")
    return {"prompt": prompt, "completion": [{"role": "assistant", "content": reply}], **record}


def openai_record(row: ReplyRow) -> dict[str, Any]:
    """Return a reply as a chat in OpenAI's format for fine-tuning, without any other columns."""
    return {"messages": [*row.prompt, {"role": "assistant", "content": row.reply}]}


def save_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write records as JSON lines, atomically."""
    atomic_write(path, "".join(json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n" for record in records))


def save_matches(path: Path, samples: Iterable[SampledMatch]) -> None:
    """Write whole matches as JSON lines, from which ``load_matches`` returns equal ones."""
    save_lines(path, [HEADER, *map(match_to_record, samples)])


def load_matches(path: Path) -> list[SampledMatch]:
    """Return the matches of a file of ``save_matches``. Raises UsageError for any other file, and a damaged one."""
    try:
        header, *lines = [parse_json(line) for line in path.read_text(encoding="utf-8").removesuffix("\n").split("\n")]
        if header != HEADER:
            raise ValueError(f"its first line is not {json.dumps(HEADER)}")
        return [match_from_record(line) for line in lines]
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise UsageError(
            f"{path} is not a file of whole matches ({error}). `league export RUN --format jsonl` writes one."
        ) from None


def matches_at(path: Path, given_as: str = "") -> list[SampledMatch]:
    """Return the matches of a file, or of a folder of ``league lab import`` or a run.

    Raises UsageError for any other; ``given_as`` is the option or setting that named the path.
    """
    if path.is_dir():
        samples = [sample for file in sample_files(path) for sample in load_samples(file)]
        if not samples:
            raise UsageError(f"{given_as}{path}: it holds no matches. `league lab import FILE -o {path}` fills it.")
        return samples
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            first = next(islice(file, 1), "")
    except OSError as error:
        raise UsageError(f"{given_as}{path}: it cannot be read ({error.strerror}).") from None
    return load_matches(path) if first.strip() == json.dumps(HEADER) else load_samples(path)


def match_to_record(sample: SampledMatch) -> dict[str, Any]:
    """Return a whole match as a JSON object, from which ``match_from_record`` makes an equal one."""
    return {**sample._asdict(), "episode": episode_to_record(sample.episode)}


def match_from_record(record: dict[str, Any]) -> SampledMatch:
    """Return the match of a record of ``match_to_record``."""
    advantages = tuple(tuple(turns) for turns in record["advantages"])
    iteration = record["iteration"]
    if iteration is not None and (type(iteration) is not int or not 0 <= iteration <= LAST_ITERATION):
        raise ValueError(f"its iteration is {iteration!r}, not a number from 0 to {LAST_ITERATION:,}, or null")
    return SampledMatch(episode_from_record(record["episode"]), iteration, tuple(record["kept_as"]), advantages)
