"""A turn that a program takes: what it sees, and the policy's replies to its questions.

The program chooses what the policy is asked and which of its replies is played. It never chooses words: what is played
was sampled, with the token ids and log-probs that the learner trains on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from arena.match_rng import MatchRng
from arena.records import Reply, ReplyRequest
from games.common.seeds import derive_seed
from roles.chat_text import Message
from roles.prompts import messages
from roles.role import ReplyForm

Compute = Callable[[Sequence[ReplyRequest]], list[Reply]]  # raises UsageError for a chat that the model cannot read

SILENCE = Reply("")  # of a program that has not played: no reply at all, which no policy is trained on


class ProgramTurn:
    """One turn, until it is played or forfeited.

    Its first reply to the role's own chat may be ``known``: it was computed with those of all other seats, from the
    match's stream. Any other reply is drawn from a stream of the same state and its number, so that neither how often a
    program asks nor whether it is killed changes what anybody else draws.
    """

    def __init__(self, request: ReplyRequest, state: object, known: Reply | None, match: int) -> None:
        self.request, self.known, self.match = request, known, match
        self.chat = messages(request.role, request.observation, request.legal, request.refusals, request.form)
        self.replies: list[Reply] = []  # that were sampled for it, in the order of asking
        self._state, self._asked = repr(state), 0

    def begin(self) -> None:
        """Forget what was asked: the program that takes the turn now gets the same answers as one before it."""
        self.replies, self._asked = [], 0

    def ask(self, chat: Sequence[Message], most_tokens: int | None = None) -> Reply | ReplyRequest:
        """Return the next reply to a chat, or the request that an engine answers with it.

        ``most_tokens`` may cut a free reply shorter than the role allows.
        """
        number, self._asked = self._asked, self._asked + 1
        request, role = self.request, self.request.role
        own, longest = list(chat) == self.chat, role.max_reply_tokens
        if role.reply is ReplyForm.CHOICE or most_tokens is None or most_tokens >= longest:
            most_tokens = longest
        if number == 0 and own and most_tokens == longest and self.known is not None:
            return self.known
        return request._replace(
            role=role if most_tokens == longest else role.model_copy(update={"max_reply_tokens": most_tokens}),
            rng=MatchRng(derive_seed(self._state, number)),
            chat=() if own else tuple([(message["role"], message["content"]) for message in chat]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return what a program is shown of the turn."""
        request = self.request
        return {
            "object": "seat",
            "model": request.player,
            "game": request.role.game,
            "role": request.role.name,
            "match": self.match,
            "observation": request.observation,
            "legal": list(request.legal),
            "form": request.form,
            "reply": request.role.reply.value,
            "messages": self.chat,
        }
