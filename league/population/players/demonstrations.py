"""Turns of scripted players, for a model to imitate in its cold start."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from arena.records import Cast, Episode, MatchRequest, Sampler, Turn, flatten_episodes
from arena.scheduler import play
from arena.submatches import begin_match
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game, with_submatches
from games.spec import Choices, FreeText
from league.config import RunConfig
from league.population.players.scripted import scripted_forms, scripted_player
from roles.chat_text import Message
from roles.prompts import messages
from roles.replies import speaking
from roles.role import Role, Roles


class Demonstration(NamedTuple):
    """A prompt, and the reply of a scripted player to it."""

    chat: list[Message]
    reply: str
    role: Role
    legal: tuple[str, ...]
    observation: str
    asked: FreeText | None  # how words are read, if words are asked for


def demonstrations(config: RunConfig, roles: Roles) -> list[Demonstration]:
    """Return every turn of the matches that the cold start imitates, submatches included; none of fixed players.

    Raises UsageError for a scripted player that is unknown, or cannot play one of the games.
    """
    engines = {name: _demonstrator(name) for name in config.cold_start.players}
    requests = _requests(config)
    episodes = play(
        requests,
        roles_of=roles.__getitem__,
        engine_of=engines.__getitem__,
        make_game=make_game,
        in_flight=config.in_flight,
    )
    return [
        Demonstration(
            messages(role, turn.observation, turn.legal, (), turn.form),
            turn.reply,
            role,
            turn.legal,
            turn.observation,
            asked,
        )
        for episode in flatten_episodes(episodes)
        for turn, asked in _with_requests(episode)
        for card in [roles[episode.request.game][turn.seat]]
        if not card.fixed
        for role in [speaking(card) if turn.form else card]
    ]


def _requests(config: RunConfig) -> list[MatchRequest]:
    """Return ``cold_start.matches`` matches of each game, in which each seat draws one of ``cold_start.players``."""
    names = config.cold_start.players
    requests: list[MatchRequest] = []
    for game in config.games:
        specs = [make_game(name).spec for name in with_submatches([game])]
        for number in range(config.cold_start.matches):
            deal, sample, seating = (
                derive_seed(config.seed, "cold start", part, game, number) for part in ("deal", "sample", "seating")
            )
            rng = random.Random(seating)
            match, *submatches = (
                Cast(spec.name, tuple(rng.choices(names, k=spec.seats)), (False,) * spec.seats) for spec in specs
            )
            prefix = _random_moves(game, deal, config.cold_start.random_moves, rng)
            cast = tuple(submatches)
            requests.append(
                MatchRequest(len(requests), game, deal, sample, match.players, match.trained, cast=cast, prefix=prefix)
            )
    return requests


def _random_moves(name: str, deal: int, most: int, rng: random.Random) -> tuple[str, ...]:
    """Return up to ``most`` random moves from the beginning of a deal, after which somebody is still to move.

    Raises UsageError for a game of words or submatches, which nothing random plays.
    """
    if not most:
        return ()
    game = make_game(name)
    if game.spec.free_text or game.spec.submatch_games:
        raise UsageError(
            f"cold_start.random_moves = {most} begins matches with random moves, which {name} does not have: it asks "
            "for words or opens submatches. Set it to 0."
        )
    game.reset(deal)
    moves: list[str] = []
    for _ in range(rng.randint(0, most)):
        actions = game.actions()
        assert isinstance(actions, Choices)
        move = rng.choice(actions.labels)
        game.apply(move)
        if game.to_act() is None:
            break
        moves.append(move)
    return tuple(moves)


def _with_requests(episode: Episode) -> Iterator[tuple[Turn, FreeText | None]]:
    """Yield the turns of a match, each with the request for words that it answers; None for a choice."""
    match = make_game(episode.request.game)
    if match.spec.free_text:
        begin_match(match, episode.request)
    for turn in episode.turns:
        actions = match.actions() if turn.form else None
        yield turn, actions if isinstance(actions, FreeText) else None
        if match.spec.free_text and turn.action is not None and not turn.tool:
            match.apply(turn.action)


def _demonstrator(name: str) -> Sampler:
    engine = scripted_player(name)
    if engine is None:
        forms = ", ".join(scripted_forms())
        raise UsageError(f"cold_start.players: {name!r} is not a scripted player. Choose from {forms}.")
    return engine
