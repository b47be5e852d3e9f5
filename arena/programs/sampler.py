"""The referee's engine when programs have seats: it asks the policy's engine for replies and programs for their choice.

It is called once a round, as the engine inside is. That one computes first what all seats of the round would reply, as
without programs; then programs take their turns. So one that plays the policy's first reply to the role's own prompt
plays the match of the run without it, bit for bit, however many programs there are and whichever dies.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Protocol
from weakref import WeakKeyDictionary

from arena.errors import EngineError
from arena.lm.tokenization import ChatTokenizer
from arena.programs.turns import Compute, ProgramTurn
from arena.records import Believing, Reply, ReplyRequest, Sampler
from games.common.errors import UsageError
from roles.chat_text import Message, as_chat
from roles.role import ReplyForm


class TakesTurns(Protocol):
    """What takes the turns of programs: a ``TurnBoard``, or a function of this process."""

    def play_all(self, turns: Sequence[ProgramTurn], compute: Compute) -> list[Reply]:
        """Return what is played in each turn; ``compute`` asks the policies' engine."""
        ...


class ProgramSampler:
    """A sampler for all players of an engine, some of whose turns programs take.

    ``tokenizers`` are of the policies whose turns may be a program's, by player; ``taken`` says which of their roles
    are. Unless ``ahead``, nothing is computed of a program's turn before it asks.
    """

    def __init__(
        self,
        engine: Sampler,
        programs: TakesTurns,
        tokenizers: Mapping[str, ChatTokenizer],
        taken: Callable[[ReplyRequest], bool],
        *,
        ahead: bool = True,
    ) -> None:
        self._engine, self._programs, self._tokenizers = engine, programs, tokenizers
        self._taken, self._ahead = taken, ahead
        self._matches: WeakKeyDictionary[random.Random, int] = WeakKeyDictionary()  # their numbers, by their generators
        self._numbers = count()

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request: of a program's turn what it plays, or an empty one that forfeits."""
        mine = [i for i, request in enumerate(requests) if request.player in self._tokenizers and self._taken(request)]
        states = {i: requests[i].rng.getstate() for i in mine}
        at_once = [i for i in range(len(requests)) if self._ahead or i not in states]
        replies = dict(zip(at_once, self._engine.sample([requests[i] for i in at_once]), strict=True))
        if mine:
            turns = [ProgramTurn(requests[i], states[i], replies.get(i), self._match(requests[i])) for i in mine]
            replies |= zip(mine, self._programs.play_all(turns, self._compute), strict=True)
        return [replies[i] for i in range(len(requests))]

    def beliefs(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...] | None]:
        """See ``arena.records.Believing``: the policy is asked, no program is."""
        return self._engine.beliefs(requests) if isinstance(self._engine, Believing) else [None] * len(requests)

    def _match(self, request: ReplyRequest) -> int:
        """Return the number of a request's match, from 0 in this session."""
        return self._matches.setdefault(request.rng, next(self._numbers))

    def _compute(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        own = [request for request in requests if request.chat]
        for request in {(one.player, one.chat, one.legal, one.role.max_reply_tokens): one for one in own}.values():
            self._check_room(request)
        return self._engine.sample(requests)

    def _check_room(self, request: ReplyRequest) -> None:
        """Raise UsageError for a program's chat that leaves no room for a reply."""
        tokenizer, role = self._tokenizers[request.player], request.role
        prompt = len(tokenizer.encode_prompt(as_chat(request.chat)))
        choice = role.reply is ReplyForm.CHOICE
        reply = max(map(len, tokenizer.trie(request.legal).tokens)) if choice else role.max_reply_tokens
        if tokenizer.context and prompt + reply > tokenizer.context:
            raise UsageError(
                f"The chat is {prompt} tokens long and the reply up to {reply}, but the model reads "
                f"{tokenizer.context} in total. Send a shorter chat."
            )


class Seat:
    """A turn as a function of this process has it (``FunctionTurns``)."""

    def __init__(self, turn: ProgramTurn, compute: Compute) -> None:
        self._turn, self._compute = turn, compute
        shown = turn.to_json()
        self.model, self.game, self.role = str(shown["model"]), str(shown["game"]), str(shown["role"])
        self.match, self.observation = turn.match, turn.request.observation  # matches are numbered within a session
        self.legal = turn.request.legal  # () where words are asked for
        self.messages = turn.chat  # the role's own request

    def complete(self, messages: Sequence[Message] | None = None) -> str:
        """Return the policy's next reply to a chat, by default the role's own. Raises UsageError for a long chat."""
        asked = self._turn.ask(self.messages if messages is None else messages)
        if isinstance(asked, ReplyRequest):
            [asked] = self._compute([asked])
        self._turn.replies.append(asked)
        return asked.text


Program = Callable[[Seat], str]  # returns which of the seat's completions is played


class FunctionTurns:
    """A function of this process that takes the turns of programs, one after another."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def play_all(self, turns: Sequence[ProgramTurn], compute: Compute) -> list[Reply]:
        """See ``TakesTurns``. Raises EngineError where the function fails, or plays what was not sampled."""
        return [self._play(turn, compute) for turn in turns]

    def _play(self, turn: ProgramTurn, compute: Compute) -> Reply:
        name = getattr(self._program, "__name__", type(self._program).__name__)
        try:
            content = self._program(Seat(turn, compute))
        except Exception as error:
            raise EngineError(f"The program {name} failed: {type(error).__name__}: {error}") from error
        said = [reply for reply in turn.replies if reply.text == content]
        if not said:
            raise EngineError(
                f"The program {name} plays {str(content)[:80]!r}, which is none of its {len(turn.replies)} "
                "completions of this turn: return what seat.complete() returned."
            )
        return said[-1]
