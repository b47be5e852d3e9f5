"""Every record of play, to the last bit, is what it was: speed must not change an episode.

The digests were made at commit 7af6b1a, but for two games whose texts were changed on purpose since: ``lookup_chain``
says when few questions are left, and ``simple_negotiation`` tells how to think aloud. A change that means to play
otherwise stores new ones, and says why.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from arena.records import Cast, Episode, MatchRequest
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import GameSpec
from roles.cards import load_roles

DIGESTS = json.loads((Path(__file__).parents[1] / "data" / "episode_digests.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("game", DIGESTS)
def test_some_matches_are_recorded_as_they_were(game: str) -> None:
    assert digest(matches_of(game, 50)) == DIGESTS[game]["50"]


@pytest.mark.thorough
@pytest.mark.parametrize("game", DIGESTS)
def test_ten_thousand_matches_are_recorded_as_they_were(game: str) -> None:
    assert digest(matches_of(game, 1250)) == DIGESTS[game]["1250"]


def test_the_digest_sees_one_reward() -> None:
    episode, *others = matches_of("kuhn_poker", 3)
    first, *turns = episode.turns
    changed = episode._replace(turns=(first._replace(reward=first.reward + 1e-15), *turns))
    assert digest([changed, *others]) != digest([episode, *others])


def matches_of(game: str, count: int) -> list[Episode]:
    """Play a game's matches between random players, their submatches too."""
    spec, engine = make_game(game).spec, Random()
    cast = tuple(_cast(make_game(name).spec) for name in spec.submatch_games)
    requests = [
        MatchRequest(
            i,
            game,
            derive_seed(i, "deal"),
            derive_seed(i, "sample"),
            *_cast(spec)[1:],
            cast=cast,
        )
        for i in range(count)
    ]
    return play(
        requests,
        roles_of=lambda name: load_roles(make_game(name).spec),
        engine_of=lambda _: engine,
        make_game=make_game,
        in_flight=64,
    )


def _cast(spec: GameSpec) -> Cast:
    return Cast(spec.name, ("random",) * spec.seats, (True,) * spec.seats)


def digest(episodes: list[Episode]) -> str:
    """Return the SHA-256 of all records as JSON, whose numbers are exact."""
    return hashlib.sha256(json.dumps(_plain(episodes)).encode()).hexdigest()


def _plain(value: object) -> object:
    """Return records as lists without their last fields that are at their defaults: a new one changes no digest."""
    if not isinstance(value, (tuple, list)):
        return value
    defaults: dict[str, object] = getattr(value, "_field_defaults", {})
    fields = list(value)
    for name in reversed(getattr(value, "_fields", ())):
        if name not in defaults or fields[-1] != defaults[name]:
            break
        fields.pop()
    return [_plain(field) for field in fields]
