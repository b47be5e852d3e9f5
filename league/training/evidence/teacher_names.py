"""Which players teach and judge in a run, by names that mean the same wherever and whenever the run is resumed."""

from __future__ import annotations

from pathlib import Path

from games.common.errors import UsageError, unknown_name
from games.registry import make_game
from league.config import RunConfig
from league.config.load import run_roles, seat_roles
from league.config.teacher import SELF
from league.population.players.scripted import scripted_forms, scripted_player
from league.population.storage.run_dir import DISTILLED, Run, find_run, run_names
from roles.role import Role, Roles

FILES = ("hf:", "best_response:")  # before what may be a path
AVERAGES = ("mixture", DISTILLED)


def teachers_by_role(config: RunConfig, roles: Roles) -> dict[tuple[str, str], str]:
    """Return the teacher's name by game and role; roles that nobody teaches, or that are given away, are left out."""
    if not config.objective.distill:
        return {}
    found = {}
    for game, seats in roles.items():
        for role in seats:
            of_game = config.teacher.players.get(game, config.teacher.player)
            name = config.teacher.players.get(f"{game}/{role.name}", of_game)
            if name and not role.given:
                found[game, role.name] = name
    return found


def with_lasting_teachers(config: RunConfig) -> RunConfig:
    """Return the configuration of a run with its teachers named for as long as the run lasts, each by its role.

    Paths are absolute, and a run without a snapshot is its newest one. A run's mixture stays one only while that run is
    not trained on. Raises UsageError for a player that does not exist.
    """
    roles = run_roles(config)
    named = teachers_by_role(config, roles)
    if not named:
        return config
    cards = {(game, role.name): role for game, seats in roles.items() for role in seats}
    players = {f"{game}/{role}": _lasting(text, cards[game, role]) for (game, role), text in named.items()}
    return config.model_copy(update={"teacher": config.teacher.model_copy(update={"player": "", "players": players})})


def with_lasting_judge(config: RunConfig) -> RunConfig:
    """Return the configuration of a run with its judge named for as long as the run lasts; the same if none is named.

    Raises UsageError for a player that does not exist.
    """
    preferred = config.shaping.preferred
    if not preferred.judge:
        return config
    first = next(role for seats in run_roles(config).values() for role in seats)
    lasting = preferred.model_copy(update={"judge": _lasting(preferred.judge, first, "judge")})
    return config.model_copy(update={"shaping": config.shaping.model_copy(update={"preferred": lasting})})


def _lasting(text: str, role: Role, to: str = "teach") -> str:
    """Return a teacher's name without what depends on the present folder or on what another run does next.

    ``to`` is what it is to do with the role, as a verb.
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
        raise unknown_name("player", name, [*forms, *run_names()], f"It is to {to} {role.game}/{role.name}.")
    run = Run(path)
    own = seat_roles(run.config.roles, make_game(role.game).spec)[role.seat]
    if own.given:
        raise UsageError(
            f"{text} cannot {to} {role.game}/{role.name}: in that run the role was given to {own.policy}. Name that "
            "player itself."
        )
    members = run.members(which, own.policy, role.game, role.seat)
    return f"{run.path.resolve()}@{which if which in AVERAGES else members[0][0].id}"
