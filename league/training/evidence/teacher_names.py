"""A run's teachers and judge, by names that mean the same wherever and whenever the run is resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from games.common.errors import UsageError, unknown_name
from games.registry import make_game
from league.config.context import RunContext
from league.config.load import seat_roles
from league.config.teacher import SELF
from league.population.players.scripted import scripted_forms, scripted_player
from league.population.storage.run_dir import DISTILLED, Run, find_run, run_names
from roles.role import Role

FILES = ("hf:", "best_response:")  # prefixes of what may be a path
AVERAGES = ("mixture", DISTILLED)


def teachers_by_role(context: RunContext) -> dict[tuple[str, str], str]:
    """Return the teacher's name by game and role; roles that are fixed or have no teacher are left out."""
    config = context.config
    if not config.objective.distill:
        return {}
    names = {}
    for game, seats in context.roles.items():
        for role in seats:
            of_game = config.teacher.players.get(game, config.teacher.player)
            name = config.teacher.players.get(f"{game}/{role.name}", of_game)
            if name and not role.fixed:
                names[game, role.name] = name
    return names


def with_lasting_teachers(context: RunContext) -> RunContext:
    """Return a run with its teachers named for as long as the run lasts, each by its role.

    Paths are absolute, and a run without a snapshot is its newest one. A run's mixture stays one only while that run is
    not trained on. Raises UsageError for a player that does not exist.
    """
    teachers = teachers_by_role(context)
    if not teachers:
        return context
    cards = {(game, role.name): role for game, seats in context.roles.items() for role in seats}
    players = {f"{game}/{role}": _lasting(text, cards[game, role]) for (game, role), text in teachers.items()}
    teacher = context.config.teacher.model_copy(update={"player": "", "players": players})
    return replace(context, config=context.config.model_copy(update={"teacher": teacher}))


def with_lasting_judge(context: RunContext) -> RunContext:
    """Return a run with its judge named for as long as the run lasts; the same if none is named.

    Raises UsageError for a player that does not exist.
    """
    shaping = context.config.shaping
    preferred = shaping.preferred
    if not preferred.judge:
        return context
    first = next(role for seats in context.roles.values() for role in seats)
    lasting = preferred.model_copy(update={"judge": _lasting(preferred.judge, first, "judge")})
    shaping = shaping.model_copy(update={"preferred": lasting})
    return replace(context, config=context.config.model_copy(update={"shaping": shaping}))


def _lasting(text: str, role: Role, to: str = "teach") -> str:
    """Return a teacher's name in a form independent of the current folder and of another run's future.

    ``to`` is the verb for what it does with the role.
    """
    if text == SELF or scripted_player(text):
        return text
    for prefix in FILES:
        if text.startswith(prefix):
            file = Path(text.removeprefix(prefix)).expanduser()
            return f"{prefix}{file.resolve()}" if file.exists() else text
    name, _, which = text.partition("@")
    path = find_run(name)
    if path is None:
        forms = [*scripted_forms(), SELF, "RUN", "RUN@SNAPSHOT", "RUN@mixture", "hf:NAME"]
        raise unknown_name("player", name, [*forms, *run_names()], f"It should {to} {role.game}/{role.name}.")
    run = Run(path)
    card = seat_roles(run.config.roles, make_game(role.game).spec)[role.seat]
    if card.fixed:
        raise UsageError(
            f"{text} cannot {to} {role.game}/{role.name}: in that run the role was played by {card.policy}. Name that "
            "player itself."
        )
    members = run.members(which, card.policy, role.game, role.seat)
    return f"{run.path.resolve()}@{which if which in AVERAGES else members[0][0].id}"
