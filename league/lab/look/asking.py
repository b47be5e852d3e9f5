"""Questions to snapshots: a match of a person against one, and one recorded prompt put to several."""

from __future__ import annotations

import random
import secrets
from collections import OrderedDict
from collections.abc import Generator, Mapping
from typing import Any

from arena.records import Episode, MatchRequest, Reply, ReplyRequest
from arena.referee import play_match
from games.common.errors import UsageError
from games.registry import make_game
from games.spec import FreeText
from league.lab.look.run_files import RunFiles
from league.lab.look.tokens import find_turn
from league.population.players.player import Player, resolve
from league.population.storage.run_dir import load_plugins_of
from roles.cards import with_overrides
from roles.replies import format_reply, free_text_reason, read_free_text
from roles.role import OnIllegal, ReplyForm

MOST_MATCHES = 16  # that are held; the oldest is forgotten
MOST_ASKED = 6  # snapshots of one question
REPLIES = 3  # of each, where they are free
PERSON = "you"


class PersonsMatch:
    """One match, up to the person's next turn."""

    def __init__(self, opponent: Player, seat: int) -> None:
        spec, seed = opponent.spec, secrets.randbits(63)
        rng = random.Random(seed)
        players = [PERSON if other == seat else opponent.draw(other, rng) for other in range(spec.seats)]
        # The person answers with legal actions, whatever form the snapshot's replies have.
        roles = tuple(
            with_overrides(role, reply=ReplyForm.CHOICE, on_illegal=OnIllegal.MASK) if role.seat == seat else role
            for role in opponent.roles
        )
        seeds = (rng.randrange(2**62), rng.randrange(2**62))
        request = MatchRequest(0, spec.name, *seeds, tuple(players), (False,) * spec.seats, rule="look")
        self._seat, self._engines = seat, opponent.engines()
        self._play: Generator[Any, Any, Episode] = play_match(request, make_game(spec.name), roles)
        self._asked: ReplyRequest | None = None
        self._episode: Episode | None = None
        self._advance(None)

    def move(self, text: str) -> None:
        """Play the person's action or words. Raises UsageError for anything else."""
        request = self._asked
        if request is None:
            raise UsageError("The match is over: start another.")
        asked = request.game.actions()
        if isinstance(asked, FreeText):
            if read_free_text(asked, text) is None:
                raise UsageError(free_text_reason(asked, text))
        elif text not in request.legal:
            raise UsageError(f"{text[:100]!r} is not one of: {', '.join(request.legal)}.")
        self._advance(Reply(format_reply(request.role, text, request.form)))

    def to_json(self) -> dict[str, Any]:
        """Return what the person sees, or how the match ended."""
        if self._asked is not None:
            return {
                "over": False,
                "role": self._asked.role.name,
                "observation": self._asked.observation,
                "legal": list(self._asked.legal),
                "form": self._asked.form,
            }
        assert self._episode is not None
        turns = [{"seat": turn.seat, "role": turn.role, "reply": turn.reply} for turn in self._episode.turns]
        return {"over": True, "returns": list(self._episode.returns), "turns": turns, "legal": []}

    def _advance(self, reply: Reply | None) -> None:
        try:
            request = self._play.send(reply)
            while request.role.seat != self._seat:
                request = self._play.send(self._engines[request.player].sample([request])[0])
            self._asked = request
        except StopIteration as end:
            self._asked, self._episode = None, end.value


class Games:
    """The matches and questions of one page. One thread at a time may ask."""

    def __init__(self, run: RunFiles) -> None:
        self._run, self._matches, self._begun = run, OrderedDict[str, PersonsMatch](), 0

    def begin(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Start a match in ``game`` against ``snapshot``, with the person in ``seat`` (from 0)."""
        snapshot, game, seat = (
            self._run.snapshot(_text(request, "snapshot")),
            _text(request, "game"),
            request.get("seat"),
        )
        if game not in self._run.context.all_specs:
            raise UsageError(f"{self._run.name} does not play {game!r}: it plays {', '.join(self._run.context.specs)}.")
        spec = self._run.context.all_specs[game]
        if not isinstance(seat, int) or not 0 <= seat < spec.seats:
            raise UsageError(f"{spec.name} has {spec.seats} seats, and you must take one of them.")
        if spec.submatch_games:
            raise UsageError(f"A match of {spec.name} opens other matches, which cannot be played here.")
        name = f"{self._run.path}@{snapshot.id}"
        load_plugins_of([name])
        self._begun += 1
        identity = f"{self._begun}"
        self._matches[identity] = PersonsMatch(resolve(name, spec, self._run.weights.engines), seat)
        while len(self._matches) > MOST_MATCHES:
            self._matches.popitem(last=False)
        return {"match": identity, **self._matches[identity].to_json()}

    def move(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Play ``text`` in ``match``."""
        identity = _text(request, "match")
        if identity not in self._matches:
            raise UsageError("This match is no longer known here: start another.")
        self._matches[identity].move(_text(request, "text"))
        return {"match": identity, **self._matches[identity].to_json()}

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Put the prompt of a recorded turn to ``snapshots``: the probability of each legal reply, or some replies."""
        names = request.get("snapshots")
        if (
            not isinstance(names, list)
            or not 0 < len(names) <= MOST_ASKED
            or not all(isinstance(n, str) for n in names)
        ):
            raise UsageError(f"snapshots should be a list of 1 to {MOST_ASKED} names.")
        query = {name: str(request[name]) for name in ("at", "index", "path", "turn") if name in request}
        match, turn, *_ = find_turn(self._run, query)
        if turn.trace is None:
            raise UsageError(f"{turn.player} is not a language model: it had no prompt.")
        snapshots, trace = [self._run.snapshot(name) for name in names], turn.trace
        weights = self._run.weights
        if trace.mask is not None:
            rows = [{"snapshot": s.id, "probabilities": weights.probabilities(s, trace)} for s in snapshots]
            return {"choices": list(trace.mask), "answers": rows}
        roles = self._run.context.roles[match.request.game]
        most = next(role.max_reply_tokens for role in roles if role.seat == turn.seat)
        return {"answers": [{"snapshot": s.id, "replies": weights.replies(s, trace, REPLIES, most)} for s in snapshots]}


def _text(request: Mapping[str, Any], name: str) -> str:
    """Return a text of a request. Raises UsageError where there is none."""
    value = request.get(name)
    if not isinstance(value, str):
        raise UsageError(f"{name} should be a text.")
    return value
