"""Short matches of Kuhn poker between small models, for tests of the engine and of learning."""

from functools import cache

from arena.records import MatchRequest
from arena.samplers.scripted import Random
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from games.common.seeds import derive_seed
from games.registry import make_game
from learners.trajectories import return_scale, to_trajectories
from roles.cards import load_roles, with_overrides
from roles.chat_text import plain_text
from roles.prompts import messages
from support.models.pocket import pocket

CHOICE = {}
FREE = {"reply": "free", "on_illegal": "forfeit", "max_reply_tokens": 3}
SPEC = make_game("kuhn_poker").spec


@cache
def kuhn_texts():
    """Return every prompt of both reply forms: a tokenizer that knows them makes them a few tokens long."""
    random = {"random": Random()}.__getitem__
    episodes = play(
        kuhn_matches(60, ("random", "random")),
        roles_of=lambda _: roles_for(),
        engine_of=random,
        make_game=make_game,
        in_flight=60,
    )
    turns = {(turn.seat, turn.observation, turn.legal) for episode in episodes for turn in episode.turns}
    return tuple(
        plain_text(messages(roles_for(**form)[seat], observation, legal))
        for form in (CHOICE, FREE)
        for seat, observation, legal in sorted(turns)
    )


def kuhn_pocket(seed=0, **shape):
    return pocket(seed, texts=kuhn_texts(), vocabulary=700, **shape)


@cache
def roles_for(**changes):
    return tuple(with_overrides(role, **changes) for role in load_roles(SPEC))


def engine_with(**lms):
    engine = TorchLM()
    for player, lm in lms.items():
        engine.add(player, lm)
    return engine


def kuhn_matches(number, players=("a", "b"), seed=0):
    """Return requests for matches in which the players take turns at sitting first."""
    seeds = [(derive_seed(seed, i, "deal"), derive_seed(seed, i, "sample")) for i in range(number)]
    return [MatchRequest(i, "kuhn_poker", *both, players[:: (-1) ** i], (True, True)) for i, both in enumerate(seeds)]


def played(engine, matches, in_flight, roles):
    return play(matches, roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game, in_flight=in_flight)


def self_play(lm, number, form, seed=0, player="main"):
    """Return the trajectories of a model's matches against itself."""
    roles = roles_for(**form)
    episodes = played(engine_with(**{player: lm}), kuhn_matches(number, (player, player), seed), number, roles)
    return to_trajectories(episodes, lambda _: roles, {"kuhn_poker": return_scale(SPEC)})
