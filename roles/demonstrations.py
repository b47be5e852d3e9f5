"""Demonstrations: turns of legal play, shown before a role's own turn so that a model sees the form of a reply.

Which positions and actions are shown depends on the observation and the role's seed alone, so that equal positions have
equal prompts. It changes from position to position, and in one prompt from turn to turn: a model copies what it is
shown, so an action that was always shown would always be played. Where words are asked for, what is shown are the words
of the game's own script ``argues``, which says why, or of its ``random`` one.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import NamedTuple

from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import FreeText, Game, HasScripts, HasTools, IsSubmatch, OpensSubmatches
from roles.replies import read_free_text
from roles.role import Role

MATCHES = 64  # of random play that demonstrations are drawn from
TALKER, ARGUES = "random", "argues"  # the scripts whose words are shown: the second where a game has it
POSITIONS = 64  # of a seat, at most


class LegalPosition(NamedTuple):
    """A position of a seat in random play."""

    observation: str
    legal: tuple[str, ...]  # where words are asked for, what was said
    form: str  # of an answer in words; "" for a choice


class ShownTurn(NamedTuple):
    """A position of a seat, and the legal action that it is shown to take there."""

    observation: str
    legal: tuple[str, ...]
    action: str
    form: str


@lru_cache(maxsize=65_536)  # a prompt is made again whenever its position recurs
def shown_turns(role: Role, observation: str, speaks: bool = False) -> tuple[ShownTurn, ...]:
    """Return the turns that are shown before a request: ``role.demonstrations`` of them, of other positions.

    They are turns of words if it ``speaks``, else choices. There are fewer where the seat has fewer other positions.
    """
    if not role.demonstrations:
        return ()
    positions = legal_positions(role.game, role.seat, role.demonstration_seed)
    others = [p for p in positions if p.observation != observation and bool(p.form) == speaks]
    rng = random.Random(derive_seed("demonstrations", role.demonstration_seed, role.game, role.seat, observation))
    turns: list[ShownTurn] = []
    for text, legal, form in rng.sample(others, min(role.demonstrations, len(others))):
        seen = {turn.action for turn in turns}
        actions = [action for action in legal if action not in seen]  # another than before, where there is one
        turns.append(ShownTurn(text, legal, rng.choice(actions or legal), form))
    return tuple(turns)


def can_be_drawn(game: Game) -> bool:
    """Return whether random play gives demonstrations of a game: it has no submatches, no tools, and all its words."""
    if isinstance(game, OpensSubmatches | IsSubmatch | HasTools):
        return False
    return not game.spec.free_text or (isinstance(game, HasScripts) and TALKER in game.scripts())


@lru_cache(maxsize=256)
def legal_positions(game_name: str, seat: int, seed: int) -> tuple[LegalPosition, ...]:
    """Return different positions of a seat in matches of random legal play.

    Raises UsageError for a game of submatches or tools, and one of free text without a script ``random``, which random
    legal play cannot play.
    """
    game, rng = make_game(game_name), random.Random(derive_seed("legal play", seed, game_name))
    if not can_be_drawn(game):
        raise UsageError(
            f"demonstrations cannot be drawn from {game_name}, because its matches open submatches, are submatches, "
            f"have tools, or ask for free text without a script {TALKER!r} that says some. Set roles.demonstrations = "
            "0."
        )
    positions: dict[str, LegalPosition] = {}
    for _ in range(MATCHES):
        game.reset(rng.getrandbits(32))
        while (to_act := game.to_act()) is not None and len(positions) < POSITIONS:
            position, action = _step(game, to_act, rng)
            if to_act == seat:
                positions.setdefault(position.observation, position)
            if action is None:
                break
            game.apply(action)
    return tuple(positions.values())


def _step(game: Game, seat: int, rng: random.Random) -> tuple[LegalPosition, str | None]:
    """Return a seat's position and its next action; None if its script's words say none."""
    actions = game.actions()
    if isinstance(actions, FreeText):
        assert isinstance(game, HasScripts)  # can_be_drawn
        scripts = game.scripts()
        said = scripts.get(ARGUES, scripts[TALKER])(rng)
        return LegalPosition(game.observe(seat), (said,), actions.form), read_free_text(actions, said)
    return LegalPosition(game.observe(seat), actions.labels, ""), rng.choice(actions.labels)
