"""Players as a person writes them: ``random``, ``always:ACTION``, ``equilibrium``, ``mcts:SIMS``, ``scripted:NAME``,
``RUN``, ``RUN@SNAPSHOT``, ``RUN@mixture``, ``exploiter:DIR``, ``hf:PATH_OR_ID``, ``openai:MODEL``.

A player is resolved for one game. One that comes from a run plays with the role cards and overrides
of that run, and a mixture draws one snapshot for each of its seats when a match begins.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from arena.records import Cast, ReplyRequest, Sampler, Tabular
from games.errors import UsageError, unknown_name
from games.registry import make_game, with_opened
from games.spec import Game, GameSpec
from league.config import RolesConfig
from league.exploitability import POINT_LIMIT, PolicyTable, mixture, tabulate
from league.player_engines import SCRIPTED, Engines
from league.remote_players import check_price, remote_roles
from league.runs import Run, find_run, run_names
from league.settings import seat_roles
from roles.replies import parse_reply
from roles.role import ReplyForm, Role

REPLIES_PER_STATE = 1024  # sampled where a policy cannot be read off exactly

Members = tuple[tuple[str, float], ...]  # player ids and their weights, which sum to one


class Tabulated(NamedTuple):
    """A player's policy as a table."""

    table: PolicyTable
    exact: bool  # False: estimated from sampled replies
    illegal_rate: float  # of the sampled replies; the table holds what the legal ones chose


@dataclass(frozen=True, slots=True)
class Player:
    """One player in one game."""

    label: str  # as the person wrote it
    spec: GameSpec
    engine: Sampler
    roles: tuple[Role, ...]  # [seats]
    members: tuple[Members, ...]  # who may sit there, by seat  # [seats]
    team: tuple[Player, ...] = ()  # the same in the games that its matches may open

    def cast(self, rng: random.Random) -> tuple[Cast, ...]:
        """Return who takes the seats of the matches that one of its matches opens."""
        return tuple(
            Cast(one.spec.name, tuple(one.draw(seat, rng) for seat in range(one.spec.seats)), (False,) * one.spec.seats)
            for one in self.team
        )

    def draw(self, seat: int, rng: random.Random) -> str:
        """Return the id of the player that takes a seat for one match."""
        ids, weights = zip(*self.members[seat], strict=True)
        return str(rng.choices(ids, weights)[0]) if len(ids) > 1 else str(ids[0])

    def tabulate(self, seed: int = 0, limit: int = POINT_LIMIT) -> Tabulated:
        """Return the policy as a table of the whole game, a mixture as the behaviour that it amounts to.

        Exact where the engine gives its distributions and replies are ``choice``; otherwise estimated
        from sampled replies, drawn with ``seed``. Raises UsageError for a game with more than
        ``limit`` information states.
        """
        rows: dict[tuple[int, str], tuple[float, ...]] = {}
        asked: list[_Asked] = []
        for members in dict.fromkeys(self.members):  # seats with the same members are tabulated once
            asked += [_Asked(self, identity, random.Random(f"{seed}/{identity}")) for identity, _ in members]
            tables = [tabulate(self.spec.name, one, limit) for one in asked[-len(members) :]]
            mixed = mixture(tables, [weight for _, weight in members]) if len(tables) > 1 else tables[0]
            rows.update((key, row) for key, row in mixed.probabilities.items() if self.members[key[0]] == members)
        replies = sum(one.replies for one in asked)
        rate = sum(one.illegal for one in asked) / replies if replies else 0.0
        return Tabulated(PolicyTable(self.spec.name, rows), not replies, rate)


class _Asked:
    """Asks one player id for its distributions, and counts the replies that had to be sampled."""

    def __init__(self, player: Player, identity: str, rng: random.Random) -> None:
        self._player, self._identity, self._rng = player, identity, rng
        self.replies = self.illegal = 0

    def __call__(self, positions: Sequence[tuple[int, Game]]) -> list[tuple[float, ...]]:
        requests = [self._request(seat, game) for seat, game in positions]
        engine = self._player.engine
        if isinstance(engine, Tabular) and all(request.role.reply is ReplyForm.CHOICE for request in requests):
            return engine.distributions(requests)
        return [self._estimate(request) for request in requests]

    def _request(self, seat: int, game: Game) -> ReplyRequest:
        role = self._player.roles[seat]
        return ReplyRequest(self._identity, role, game, game.observe(seat), game.legal_actions(), (), self._rng)

    def _estimate(self, request: ReplyRequest) -> tuple[float, ...]:
        """Return the shares of the legal actions in sampled replies; uniform if none was legal."""
        check_price(self._player.label, self._player.engine, self._player.spec, REPLIES_PER_STATE)
        replies = self._player.engine.sample([request] * REPLIES_PER_STATE)
        actions = [parse_reply(request.role, reply.text, request.legal) for reply in replies]
        counts = [actions.count(action) for action in request.legal]
        self.replies += len(actions)
        self.illegal += actions.count(None)
        return tuple(count / sum(counts) if any(counts) else 1 / len(counts) for count in counts)


def resolve(text: str, spec: GameSpec, engines: Engines) -> Player:
    """Return the player that a person means by ``text``. Raises UsageError that offers the nearest valid names.

    In a game whose matches open others it is also who sits in those.
    """
    player = _seated(text, spec, engines)
    opened = with_opened([spec.name])[1:] if spec.opens else []
    return replace(player, team=tuple(_seated(text, make_game(name).spec, engines) for name in opened))


def _seated(text: str, spec: GameSpec, engines: Engines) -> Player:
    """Return the player in the seats of one game."""
    if engine := engines.scripted(text) or engines.exploiter(text):
        return Player(text, spec, engine, seat_roles(RolesConfig(), spec), (((text, 1.0),),) * spec.seats)
    if server := engines.remote(text):
        return Player(text, spec, server, remote_roles(server.settings, spec), (((text, 1.0),),) * spec.seats)
    if text.startswith("hf:"):
        return _checkpoint(text, spec, engines)
    name, _, which = text.partition("@")
    path = find_run(name)
    if path is None:
        forms = "RUN, RUN@SNAPSHOT, RUN@mixture, exploiter:DIR, hf:PATH_OR_ID or openai:MODEL"
        hint = f"A player is {', '.join(SCRIPTED)}, {forms}."
        raise unknown_name("player", name, [*SCRIPTED, *run_names()], hint)
    return _from_run(text, Run(path), which, spec, engines)


def _from_run(text: str, run: Run, which: str, spec: GameSpec, engines: Engines) -> Player:
    """Return the newest snapshots of a run ("" in ``which``), its mixture, or one snapshot in every seat."""
    roles = seat_roles(run.config.roles, spec)
    by_seat: list[Members] = []
    for role in roles:
        weighted = run.members(which, role.policy, spec.name, role.seat)
        engine = engines.of_run(run, weighted[0][0])
        for snapshot, _ in weighted:
            adapter = run.config.policy(snapshot.policy).kind == "lora" and run.config.engine.kind == "torch"
            like = engines.adapters(run) if adapter else None
            check = partial(run.population.verify, snapshot)
            engine.register(f"{run.path}@{snapshot.id}", snapshot.path, check, like)
        by_seat.append(tuple((f"{run.path}@{snapshot.id}", weight) for snapshot, weight in weighted))
    return Player(text, spec, engine, roles, tuple(by_seat))


def _checkpoint(text: str, spec: GameSpec, engines: Engines) -> Player:
    """Return a model from a folder in Hugging Face layout or from the hub, in the built-in roles."""
    source = text.removeprefix("hf:")
    if not source:
        raise UsageError("hf: is followed by a folder or a hub id, for example hf:Qwen/Qwen3-0.6B.")
    path = Path(source).expanduser()
    if not path.is_dir() and (path.is_absolute() or source.startswith((".", "~"))):
        raise UsageError(f"{text}: there is no folder {path}.")
    import torch

    engine = engines.torch(*(("cuda", "bfloat16") if torch.cuda.is_available() else ("cpu", "float32")))
    engine.register(text, path if path.is_dir() else source)
    return Player(text, spec, engine, seat_roles(RolesConfig(), spec), (((text, 1.0),),) * spec.seats)
