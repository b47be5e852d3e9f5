"""Batches of matches that one joint policy plays with itself from its table, with each turn's place in the game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.records import Episode, MatchRequest, Reply, ReplyRequest
from arena.scheduler import play
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import choice_game
from league.theory.exact.exploitability import PolicyTable
from league.theory.exact.states import Key
from league.training.evidence.turn_positions import locate
from learners.trajectories import Trajectory, return_scale, to_trajectories
from roles.replies import format_reply
from roles.role import Role

Indices = NDArray[np.intp]


class BatchPlan(NamedTuple):
    """How many matches are played, and from which seed."""

    batch: int = 512  # matches of a batch, as in one update
    group: int = 8  # matches of each start
    batches: int = 16
    seed: int = 0
    learned: int = 4096  # other matches, from which estimators of turn values learn first

    @property
    def to_learn(self) -> BatchPlan:
        """The batches that estimators learn from."""
        return self._replace(
            batches=max(1, round(self.learned / self.batch)), seed=derive_seed(self.seed, "to learn from")
        )


class PlayedBatch(NamedTuple):
    """A batch's trajectories, of all trained seats, and the information state and action of each of their T turns."""

    matches: int
    trajectories: list[Trajectory]  # returns divided by half the game's range
    states: Indices  # as ``exact_form`` numbers them  # [T]
    actions: Indices  # as ``TurnValues`` numbers them  # [T]
    episodes: Sequence[Episode] = ()

    @property
    def roles(self) -> list[str]:
        """The role of each turn [T]."""
        return [t.role for t in self.trajectories for _ in t.turns]


class TablePlayer:
    """An engine that plays a policy table."""

    def __init__(self, table: PolicyTable) -> None:
        self._rows = table.probabilities

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return an action for each request, drawn from the table."""
        return [self._reply(request) for request in requests]

    def _reply(self, request: ReplyRequest) -> Reply:
        game = choice_game(request.game)
        by_id = sorted(zip(game.legal_ids(), request.legal, strict=True))
        row = self._rows[request.role.seat, game.information_state(request.role.seat)]
        drawn, reached = request.rng.random(), 0.0
        for (_, label), probability in zip(by_id, row, strict=True):
            reached += probability
            if drawn < reached:
                return Reply(format_reply(request.role, label))
        return Reply(format_reply(request.role, by_id[int(np.flatnonzero(row)[-1])][1]))  # rounding


def play_batches(
    table: PolicyTable, roles: tuple[Role, ...], keys: Sequence[Key], plan: BatchPlan
) -> list[PlayedBatch]:
    """Return batches in which the table plays all seats; seats of fixed players give no trajectories.

    ``keys`` are the information states in the order of ``exact_form``. Raises UsageError as ``requests_of``.
    """
    spec, engine = make_game(table.game).spec, TablePlayer(table)
    places = {key: index for index, key in enumerate(keys)}
    first = np.cumsum([0, *(len(table.probabilities[key]) for key in keys)])
    batches = []
    for number in range(plan.batches):
        requests = requests_of(table.game, roles, plan, number)
        episodes = play(requests, roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game)
        trajectories = to_trajectories(episodes, lambda _: roles, {table.game: return_scale(spec)})
        where = locate(episodes, trajectories, places)
        states = np.array([turn_place.state for turn_place in where], np.intp)
        actions = first[states] + np.array([turn_place.action for turn_place in where])
        batches.append(PlayedBatch(plan.batch, trajectories, states, actions, episodes))
    return batches


def requests_of(game: str, roles: Sequence[Role], plan: BatchPlan, batch: int) -> list[MatchRequest]:
    """Return the requests of a batch's matches. Raises UsageError for a batch that does not consist of whole groups."""
    if plan.batch % plan.group:
        raise UsageError(
            f"--batch {plan.batch} is not a multiple of --group {plan.group}, the matches of each start: give a "
            "multiple, so that rules that compare within groups get whole ones."
        )
    return [_request(game, roles, plan, batch, match) for match in range(plan.batch)]


def _request(game: str, roles: Sequence[Role], plan: BatchPlan, batch: int, match: int) -> MatchRequest:
    """Return the request of one match of a batch."""
    index = batch * plan.batch + match
    return MatchRequest(
        index,
        game,
        deal_seed=derive_seed(plan.seed, "deal", batch, match // plan.group),
        sample_seed=derive_seed(plan.seed, "sample", index),
        players=tuple(role.policy for role in roles),
        trained=tuple(not role.fixed for role in roles),
        rule="self_play",
    )
