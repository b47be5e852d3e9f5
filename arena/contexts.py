"""What seats are shown where their cards have slots: rules fill them, and what has to be written for them is asked for.

A text is one reply of the role that writes it, recorded as a turn with the slot's name as its tool: it is trained like
any other, and makes no move. Its reward is what the game pays that seat until the seat's next turn.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from arena.match_rng import MatchRng
from arena.records import MatchRequest, Reply, ReplyRequest
from arena.submatches import beginnings
from games.common.errors import UsageError
from games.spec import Choices, FreeText, Game
from games.talk.conversation import utterance
from roles.prompts import observed
from roles.replies import speaking, strip_thoughts, writing
from roles.role import Role
from roles.slots import RULES, shown, sight_past
from roles.slots.rule import Filling, Sight, SlotText, Writing


def request_in(player: str, role: Role, position: Game, rng: random.Random) -> ReplyRequest:
    """Return the request for a role's reply in a position, where nothing was written or given for its slots."""
    return request_for(player, role, position, observed(role, position), position.actions(), rng)


def request_for(
    player: str, role: Role, game: Game, observation: str, actions: Choices | FreeText, rng: random.Random
) -> ReplyRequest:
    """Return the request for one of a list of actions, or for words, of a role that is shown an observation."""
    if isinstance(actions, FreeText):
        return ReplyRequest(player, speaking(role), game, observation, (), (), rng, actions.form)
    return ReplyRequest(player, role, game, observation, actions.labels, (), rng)


class Wanted(NamedTuple):
    """A text that is asked for: who writes it, the request, and the seat and slot that it is for."""

    writer: int
    request: ReplyRequest
    seat: int
    filling: Filling
    past: int  # entries of the seat's past that it is written after
    attempt: int


class Contexts:
    """The slots of one match's seats."""

    def __init__(self, request: MatchRequest, roles: Sequence[Role], game: Game) -> None:
        """Begin a match; one that continues from the middle of another has the texts that were written there before.

        ``game`` is not changed. Raises UsageError for a text that no slot asked for then.
        """
        self._request, self._roles = request, roles
        self._written: dict[tuple[int, str], tuple[SlotText, ...]] = {}
        self._given = {(seat, slot): text for seat, slot, text in request.given}
        if request.texts:
            self._write_again(game.copy(), MatchRng(request.sample_seed))

    def _write_again(self, game: Game, rng: MatchRng) -> None:
        """Fill the slots with the texts of the prefix, each where it was written."""
        texts: dict[int, list[str]] = {}
        for after, text in self._request.texts:
            texts.setdefault(after, []).append(text)
        for after, position in enumerate(beginnings(game, self._request)):
            seat = position.to_act()
            seats, left = range(len(self._roles)) if seat is None else (seat,), texts.pop(after, [])
            wanted = [one for place in seats for one in self.wanted(position, place, rng, seat is None)] if left else []
            for one, text in zip(wanted, left, strict=False):
                self._keep(one, text)
            if len(left) > len(wanted):
                texts[after] = left
                break
        if texts:
            raise UsageError(
                f"Match {self._request.index} of {self._request.game} continues with a text that no "
                f"slot asked for after {min(texts)} actions. Make its request with arena.submatches.middle, from "
                "the same cards."
            )

    def wanted(self, game: Game, seat: int, rng: MatchRng, over: bool = False) -> list[Wanted]:
        """Return the texts that the rules of a seat want now, in the order of its slots."""
        texts = []
        for one in self._roles[seat].slots:
            rule, sight = RULES[one.rule], self._sight(one, game, seat, over)
            asked = rule.asks(sight, one.settings) if rule.asks else None
            if asked is not None:
                writer, request = self._request_of(one, game, seat, asked.shown, rng)
                texts.append(Wanted(writer, request, seat, one, len(sight.past), sight.attempt))
        return texts

    def take(self, wanted: Wanted, reply: Reply) -> str:
        """Fill a slot with the text that a reply says, and return it."""
        text = _read(wanted.request, reply.text, wanted.filling.settings)
        self._keep(wanted, text)
        return text

    def _keep(self, wanted: Wanted, text: str) -> None:
        place = wanted.seat, wanted.filling.slot
        self._written[place] = (*self._written.get(place, ()), SlotText(text, wanted.past, wanted.attempt))

    def shown(self, game: Game, seat: int) -> str:
        """Return what a seat is shown in this position."""
        role = self._roles[seat]
        sights = {one.slot: self._sight(one, game, seat) for one in role.slots}
        return shown(role.prompt, role.slots, game, seat, sights)

    def _sight(self, one: Filling, game: Game, seat: int, over: bool = False) -> Sight:
        place, trained = (seat, one.slot), self._request.trained[seat]
        past = sight_past(one, game, seat)
        return Sight(game, seat, past, self._written.get(place, ()), self._given.get(place, ""), trained, over)

    def _request_of(self, one: Filling, game: Game, seat: int, text: str, rng: MatchRng) -> tuple[int, ReplyRequest]:
        """Return who writes a text for a slot, and the request."""
        settings: Writing = one.settings
        writer = seat if not settings.by else self._seat_of(settings.by, one.slot)
        question = settings.question or RULES[one.rule].question
        role = writing(self._roles[writer], question, bool(settings.choices), settings.most_tokens)
        form = "" if settings.choices else f"one line of at most {settings.most_characters} characters"
        player = self._request.players[writer]
        return writer, ReplyRequest(player, role, game, text, settings.choices, (), rng, form, probe=one.slot)

    def _seat_of(self, name: str, slot: str) -> int:
        for seat, role in enumerate(self._roles):
            if role.name == name:
                return seat
        known = ", ".join(role.name for role in self._roles)
        raise UsageError(
            f"The slot {slot} of a card of {self._request.game} is written by the role {name!r}, which the game does "
            f"not have; its roles are {known}."
        )


def _read(request: ReplyRequest, reply: str, settings: Writing) -> str:
    """Return what a reply says as one line, cut off where it is too long; "" for what is no text."""
    if settings.choices:
        return reply.strip() if reply.strip() in request.legal else ""
    said = utterance(strip_thoughts(reply), len(reply))
    return (said or "")[: settings.most_characters].strip()
