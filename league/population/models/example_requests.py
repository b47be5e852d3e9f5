"""Example requests to a run's policy, one for each of its roles, for model cards and for those who serve it."""

from __future__ import annotations

from typing import NamedTuple

from games.aliases import short_name
from games.registry import make_game
from games.spec import FreeText, Game, labels
from league.config import RunConfig
from league.config.load import run_roles
from roles.chat_text import Message
from roles.prompts import position_messages
from roles.replies import speaking
from roles.role import Role

MOST_MOVES = 200  # of a match in which seats are looked for


class ExampleRequest(NamedTuple):
    """A prompt of a role, and its legal answers."""

    game: str
    role: Role
    chat: list[Message]
    legal: tuple[str, ...]  # () where free text is asked for


def example_requests(config: RunConfig, policy: str) -> dict[str, ExampleRequest]:
    """Return a request for each of a policy's roles, by game/role, each from the first position in which it acts.

    The matches begin with the deal of seed 0 and continue by the first legal action. A role that never acts has none. A
    policy without its own roles, such as an exploiter's, may play all of them.
    """
    examples: dict[str, ExampleRequest] = {}
    by_game = run_roles(config)
    has_own = any(role.policy == policy for roles in by_game.values() for role in roles)
    for game, roles in by_game.items():
        seats = {role.seat for role in roles if role.policy == policy or not has_own}
        position = make_game(game)
        position.reset(0)
        for _ in range(MOST_MOVES if seats else 0):
            if (seat := position.to_act()) is None or not seats:
                break
            if seat in seats:
                seats.remove(seat)
                examples[f"{short_name(game)}/{roles[seat].name}"] = _example(game, roles[seat], position)
            if not (legal := labels(position)):
                break  # there is no player that could say anything
            position.apply(legal[0])
    return examples


def _example(game: str, role: Role, position: Game) -> ExampleRequest:
    asked_role = speaking(role) if isinstance(position.actions(), FreeText) else role
    return ExampleRequest(game, asked_role, position_messages(asked_role, position), labels(position))
