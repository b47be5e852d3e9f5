"""A player that infers, by Bayes' rule, which of several known players it meets, and plays the best response."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from arena.records import Reply, ReplyRequest
from games.spec import choice_game
from league.theory.beliefs import best_response_to, exact_beliefs
from league.theory.exact.exploitability import PolicyTable
from league.theory.exact.states import Key
from roles.replies import format_reply


class Believer:
    """Plays the exact best response to its belief in one game of two seats that is small enough to enumerate.

    The belief follows Bayes' rule from the seat's own observations in the present match only; before it, all known
    players are equally likely. Its policy is computed at its first turn.
    """

    def __init__(self, types: Callable[[], Sequence[PolicyTable]]) -> None:
        """``types`` returns the policies of the players that it may meet."""
        self._types = types
        self._rows: Mapping[Key, tuple[float, ...]] = {}

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request. Raises UsageError for a game in which the belief cannot be computed."""
        return [
            Reply(format_reply(request.role, request.legal[row.index(1.0)]))
            for request, row in zip(requests, self.distributions(requests), strict=True)
        ]

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return its choices: 1 for one of each request's actions. Raises UsageError as ``sample`` does."""
        self._rows = self._rows or self._planned()
        return [self._distribution(request) for request in requests]

    def _distribution(self, request: ReplyRequest) -> tuple[float, ...]:
        game, seat = choice_game(request.game, "A best response"), request.role.seat
        row = self._rows[seat, game.information_state(seat)]
        shares = dict(zip(sorted(game.legal_ids()), row, strict=True))
        return tuple([shares[action] for action in game.legal_ids()])

    def _planned(self) -> dict[Key, tuple[float, ...]]:
        """Return its policy in both seats."""
        types = self._types()
        prior = [1.0 / len(types)] * len(types)
        responses = [best_response_to(types, seat, exact_beliefs(types, seat, prior)) for seat in (0, 1)]
        return {key: row for response in responses for key, row in response.table.probabilities.items()}
