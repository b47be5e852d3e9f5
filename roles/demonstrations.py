"""Demonstrations: turns of legal play that a role is shown before its own, to show a model what a reply looks like.

Which positions and actions are shown depends on the observation and the role's seed alone, so that equal positions have
equal prompts. It changes from position to position, and in one prompt from turn to turn: a model copies what it is
shown, so an action that was always shown would always be played.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import NamedTuple

from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import Game, HasTools, IsSubmatch, OpensSubmatches, choice_game
from roles.role import Role

MATCHES = 64  # of random play that demonstrations are drawn from
POSITIONS = 64  # of a seat, at most


class ShownTurn(NamedTuple):
    """A position of a seat, and the legal action that it is shown to take there."""

    observation: str
    legal: tuple[str, ...]
    action: str


@lru_cache(maxsize=65_536)  # a prompt is made again whenever its position recurs
def shown_turns(role: Role, observation: str) -> tuple[ShownTurn, ...]:
    """Return the turns that are shown before a request: ``role.demonstrations`` of them, of other positions.

    There are fewer where the seat has fewer other positions.
    """
    if not role.demonstrations:
        return ()
    positions = legal_positions(role.game, role.seat, role.demonstration_seed)
    others = [position for position in positions if position[0] != observation]
    rng = random.Random(derive_seed("demonstrations", role.demonstration_seed, role.game, role.seat, observation))
    turns: list[ShownTurn] = []
    for text, legal in rng.sample(others, min(role.demonstrations, len(others))):
        seen = {turn.action for turn in turns}
        actions = [action for action in legal if action not in seen]  # another than before, where there is one
        turns.append(ShownTurn(text, legal, rng.choice(actions or legal)))
    return tuple(turns)


def can_be_drawn(game: Game) -> bool:
    """Return whether random play gives demonstrations of a game: it has no submatches, tools, or turns of free text."""
    return not (game.spec.free_text or isinstance(game, OpensSubmatches | IsSubmatch | HasTools))


@lru_cache(maxsize=256)
def legal_positions(game_name: str, seat: int, seed: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return different positions of a seat in matches of random legal play, as (observation, legal actions).

    Raises UsageError for a game of submatches, tools or free text, which random legal play cannot play.
    """
    game, rng = make_game(game_name), random.Random(derive_seed("legal play", seed, game_name))
    if not can_be_drawn(game):
        raise UsageError(
            f"demonstrations cannot be drawn from {game_name}, because its matches open submatches, are such, have "
            "tools, or ask for free text. Set roles.demonstrations = 0."
        )
    game = choice_game(game)
    found: dict[str, tuple[str, ...]] = {}
    for _ in range(MATCHES):
        game.reset(rng.getrandbits(32))
        while (to_act := game.to_act()) is not None and len(found) < POSITIONS:
            legal = game.legal_actions()
            if to_act == seat:
                found.setdefault(game.observe(seat), legal)
            game.apply(rng.choice(legal))
    return tuple(found.items())
