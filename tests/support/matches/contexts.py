"""Cards with slots, and a reader that knows only what it is shown."""

from __future__ import annotations

import random
import re

import torch

from arena.lm.logprobs import ScoreOptions
from arena.lm.scoring import plan_passes
from arena.records import MatchRequest, Reply
from arena.scheduler import play
from games.registry import make_game
from roles.cards import load_roles
from roles.replies import format_reply
from roles.role import Role

PROMPT = "{earlier}\n{observation}\nLegal: {legal}"
WORDS = ("red", "blue", "green", "gold")


def with_slots(role: Role, prompt: str = PROMPT, **slots):
    """Return a role whose slots are filled by the given tables."""
    return Role(**{**dict(role), "prompt": prompt, "slots": slots})


def matches(game, engines, roles=None, *, number=1, trained=False, given=(), seed=0, players=None):
    """Return episodes of a game; ``engines`` are by seat."""
    spec = make_game(game).spec
    roles = roles or load_roles(spec)
    names = players or tuple(f"p{seat}" for seat in range(spec.seats))
    requests = [
        MatchRequest(i, game, seed + i, 1000 + seed + i, names, (trained,) * spec.seats, given=given)
        for i in range(number)
    ]
    return play(
        requests,
        roles_of=lambda _: roles,
        engine_of=lambda name: engines[names.index(name)],
        make_game=make_game,
    )


def gaps(lm, traces):
    """Return by trace how far the learner's log-prob of its reply is from the sampler's, in nats."""
    found = []
    with torch.no_grad():
        for trace in traces:
            if trace.mask is not None:
                tries = [lm.trie(trace.mask)]
                [chunk] = lm.plan_choice([trace.prompt_ids], tries, 8192)
                replies = lm.choice_logprobs(chunk, tries, trace.temperature).replies[0]
                now = replies[tries[0].tokens.index(trace.reply_ids)].item()
            else:
                [one] = plan_passes(lm, [trace.prompt_ids], [trace.reply_ids], 8192)
                now = one.scores(lm, ScoreOptions(trace.temperature)).logprobs.sum().item()
            found.append(abs(now - sum(trace.logprobs)))
    return found


class Reader:
    """Plays ``recall`` by what it is shown alone: it writes down the word to keep, and guesses one it does not see."""

    def __init__(self):
        self.shown = []  # every observation, texts for slots included

    def sample(self, requests):
        return [Reply(self._reply(request)) for request in requests]

    def _reply(self, request):
        self.shown.append(request.observation)
        kept = re.search(r"keep (\w+)", request.observation)
        if request.probe:
            kept = kept[1] if kept else request.observation.split("\n")[0]
            return kept if request.legal else f"keep {kept.removeprefix('keep ')}"
        if len(request.legal) == 1:
            return request.legal[0]
        word = kept[1] if kept else request.observation.split("\n")[0]
        return word if word in request.legal else request.legal[int(request.rng.random() * len(request.legal))]


class Solver:
    """Solves a task by its game's script with probability p, else plays the poor one."""

    def __init__(self, p):
        self.p = p

    def sample(self, requests):
        return [Reply(format_reply(request.role, self._action(request), request.form)) for request in requests]

    def _action(self, request):
        solves = random.Random(f"{request.game._seed}/{request.game.attempt}").random() < self.p
        return request.game.scripts()["optimal" if solves else "poor"](request.rng)
