"""The matches that a run imitates beside its policy gradient (``[imitation]``), kept with the run.

They are read once, when the run starts. Prompts are rebuilt from the run's own role cards, so matches that were played
with other wording, or in the other reply form, are imitated in the run's own prompts and reply form.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from games.common.errors import DamagedFile, UsageError
from games.common.files import atomic_write
from league.config.context import RunContext
from league.population.storage.exports import ReplyRow, match_from_record, match_to_record, matches_at, reply_rows
from league.population.storage.sampled_matches import SampledMatch
from learners.losses.term import ImitatedReply
from learners.update.policy import Policy
from roles.replies import format_reply, parse_reply, speaking
from roles.role import ReplyForm, Role, bound_policies

IMITATION_FILE = "imitation.jsonl"  # of a run: the SHA-256 of the following lines, then whole matches, one a line


def matches_to_imitate(context: RunContext) -> list[SampledMatch]:
    """Return the matches that ``imitation.matches`` names; none where nothing is imitated.

    Raises UsageError for files that cannot be read, for matches that are not of the run's games, and if a trained
    policy finds no reply to imitate.
    """
    config = context.config
    if not config.imitation.weight:
        return []
    samples = matches_at(Path(config.imitation.matches).expanduser(), "imitation.matches = ")
    policies = {role.policy for role, _ in _replies(context, samples)}
    trained = {name for name in bound_policies(context.roles) if not config.policy(name).frozen}
    if missing := sorted(trained - policies):
        of_players = f" of {', '.join(config.imitation.players)}" if config.imitation.players else ""
        present = sorted({player for sample in samples for player in sample.episode.request.players})
        raise UsageError(
            f"{config.imitation.matches} has no reply{of_players} that policy {missing[0]} could imitate; its players "
            f"are {', '.join(present) or 'none'}. Name other matches in imitation.matches or players in "
            "imitation.players, or set imitation.weight = 0."
        )
    return samples


def keep_matches(run_dir: Path, samples: Sequence[SampledMatch]) -> None:
    """Write the matches that a run imitates into its folder, if there are any."""
    if samples:
        lines = "".join(json.dumps(match_to_record(sample), allow_nan=False) + "\n" for sample in samples)
        atomic_write(run_dir / IMITATION_FILE, f"{_digest(lines)}\n{lines}")


def imitated_replies(context: RunContext, policies: Mapping[str, Policy]) -> dict[str, list[ImitatedReply]]:
    """Return the replies that each policy imitates, from the run's own copy of the matches; equal replies are merged.

    Raises DamagedFile if that copy has changed since it was written.
    """
    if not context.config.imitation.weight:
        return {}
    samples = _saved_matches(context.run_dir / IMITATION_FILE)
    counts = Counter(_RoleReply.of(role, row) for role, row in _replies(context, samples))
    imitated: dict[str, list[ImitatedReply]] = {name: [] for name in policies}
    for reply, times in counts.items():
        if reply.policy in imitated:
            lm = policies[reply.policy].lm
            prompt = lm.encode_prompt([dict(message) for message in reply.chat])
            tokens = () if reply.legal else lm.encode_reply(reply.text)
            fields = (reply.game, prompt, reply.legal, reply.text, tokens, reply.temperature, times)
            imitated[reply.policy].append(ImitatedReply(*fields))
    return {name: replies for name, replies in imitated.items() if replies}


class _RoleReply(NamedTuple):
    """A reply in the prompt and the reply form of a role of the run."""

    policy: str
    game: str
    chat: tuple[tuple[tuple[str, str], ...], ...]  # messages, each as its items
    legal: tuple[str, ...]  # () of a free reply
    text: str
    temperature: float

    @classmethod
    def of(cls, role: Role, row: ReplyRow) -> _RoleReply:
        """Return the reply of a row, whose action is legal."""
        assert row.action is not None, "only legal replies are imitated"
        masked = role.reply is ReplyForm.CHOICE
        as_given = row.reply if row.form or parse_reply(role, row.reply, row.legal) == row.action else None
        return cls(
            role.policy,
            row.game,
            tuple([tuple(message.items()) for message in row.prompt]),
            row.legal if masked else (),
            row.action if masked else as_given or format_reply(role, row.action),
            role.temperature,
        )


def _replies(context: RunContext, samples: Sequence[SampledMatch]) -> Iterator[tuple[Role, ReplyRow]]:
    """Yield the legal replies to imitate, with the run's roles; forced replies are left out."""
    settings, roles = context.config.imitation, context.roles
    try:
        rows = list(reply_rows(samples, roles, all_seats=True))
    except UsageError as error:
        raise UsageError(f"{settings.matches}: {error} The run imitates matches of its own games.") from None
    for row in rows:
        card = roles[row.game][row.seat]
        role = speaking(card) if row.form else card
        if row.action is None or (settings.players and row.player not in settings.players):
            continue
        if role.reply is ReplyForm.FREE or (row.action in row.legal and len(row.legal) > 1):
            yield role, row


def _saved_matches(path: Path) -> list[SampledMatch]:
    """Return the matches that ``keep_matches`` wrote. Raises DamagedFile for any other file."""
    remedy = "Restore it from a copy of the run, or continue without it: league lab evolve RUN --set imitation.weight=0"
    try:
        digest, _, lines = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedFile(path, f"it cannot be read: {getattr(error, 'strerror', error)}", remedy) from error
    if _digest(lines) != digest:
        raise DamagedFile(path, "it has changed since it was saved", remedy)
    return [match_from_record(json.loads(line)) for line in lines.removesuffix("\n").split("\n")]


def _digest(lines: str) -> str:
    return hashlib.sha256(lines.encode()).hexdigest()
