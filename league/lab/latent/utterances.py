"""A player's possible utterances in a position, and their probabilities: exact if it chooses from a list."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from arena.contexts import request_in
from arena.records import ReplyRequest, Tabular
from games.common.errors import UsageError
from games.spec import FreeText
from league.population.players.player import Player
from roles.replies import format_reply, parse_reply, read_free_text, strip_thoughts
from roles.role import ReplyForm


class Utterance(NamedTuple):
    """A possible utterance of a player in a position."""

    text: str  # the text, without thoughts
    reply: str  # as a model gives it
    action: str  # what the game reads
    share: float  # among the player's legal utterances there


Position = tuple[int, Any]  # (seat, a match in which it is that seat's turn)


def utterances(player: Player, positions: Sequence[Position], samples: int, seed: int) -> list[list[Utterance]]:
    """Return the player's possible utterances in each position, with shares that sum to one.

    Choices from a list are all there, with exact probabilities. Free replies are sampled, ``samples`` in each position,
    and illegal ones are left out. A legal action of a list that no sample names is added in its shortest form with
    share 0; if no sample is legal, all are equally likely. Raises UsageError if none is legal and there is no list.
    """
    rng = random.Random(seed)
    requests = [_request(player, seat, match, rng) for seat, match in positions]
    chosen = [i for i, request in enumerate(requests) if _exact(player, request)]
    exact = dict(zip(chosen, _distributions(player, [requests[i] for i in chosen]), strict=True))
    by_position = []
    for index, (request, (_, match)) in enumerate(zip(requests, positions, strict=True)):
        if index in exact:
            pairs = zip(request.legal, exact[index], strict=True)
            by_position.append([Utterance(label, label, label, share) for label, share in pairs])
        else:
            by_position.append(_sampled(player, request, match, samples))
    return by_position


def _request(player: Player, seat: int, match: Any, rng: random.Random) -> ReplyRequest:
    return request_in(player.members[seat][0][0], player.roles[seat], match, rng)


def _exact(player: Player, request: ReplyRequest) -> bool:
    engine = player.engine_of(request.player)
    return bool(request.legal) and request.role.reply is ReplyForm.CHOICE and isinstance(engine, Tabular)


def _distributions(player: Player, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
    """Return the probabilities of legal replies, in the order of the requests; each engine is called once."""
    by_request: dict[int, tuple[float, ...]] = {}
    engines = {id(engine): engine for r in requests for engine in [player.engine_of(r.player)]}
    for engine in engines.values():
        indices = [i for i, request in enumerate(requests) if player.engine_of(request.player) is engine]
        by_request |= dict(zip(indices, engine.distributions([requests[i] for i in indices]), strict=True))  # type: ignore[attr-defined]
    return [tuple(share / sum(by_request[i]) for share in by_request[i]) for i in range(len(requests))]


def _sampled(player: Player, request: ReplyRequest, match: Any, samples: int) -> list[Utterance]:
    read = _reader(request, match)
    replies = [reply.text for reply in player.engine_of(request.player).sample([request] * samples)]
    counts = Counter(reply for reply in replies if read(reply) is not None)
    if not counts and not request.legal:
        raise UsageError(
            f"None of {samples} replies of {request.player} as {request.role.name} was legal, so there is nothing to "
            f"cluster. First let it learn to speak: league train, with a cold start. It was shown: "
            f"{request.observation!r}"
        )
    even = 0 if counts else 1
    named = {read(reply) for reply in counts}
    counts.update({format_reply(request.role, action): even for action in request.legal if action not in named})
    total = counts.total()
    return [
        Utterance(strip_thoughts(reply).strip(), reply, str(read(reply)), times / total)
        for reply, times in counts.items()
    ]


def _reader(request: ReplyRequest, match: Any) -> Callable[[str], str | None]:
    """Return how a reply is read as one action; None for an illegal one."""
    actions = match.actions()
    if isinstance(actions, FreeText):
        return lambda reply: read_free_text(actions, reply)
    return lambda reply: parse_reply(request.role, reply, request.legal)
