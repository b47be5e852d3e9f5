"""Submatches: matches that a match opens for other roles. Their requests, outcomes and rewards.

The parent sees a submatch's outcome (``Episode.outcome``) and nothing else of it; a forfeited submatch has an empty
outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from arena.records import Cast, Episode, MatchRequest
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.spec import Game, IsSubmatch, OpensSubmatches, Submatch


class Submatches:
    """The submatches of one match."""

    def __init__(self, request: MatchRequest, game: Game) -> None:
        if not isinstance(game, OpensSubmatches):
            raise UsageError(
                f"{game.spec.name} names games of submatches ({', '.join(game.spec.submatch_games)}), but cannot open "
                "any: give it the methods of games.spec.OpensSubmatches."
            )
        self._request, self._game = request, game
        self._cast = {cast.game: cast for cast in request.cast}
        self._episodes: list[Episode] = []

    def requests(self, turns: int) -> tuple[MatchRequest, ...]:
        """Return the requests of the submatches that the last action opened, after ``turns`` turns."""
        first = len(self._episodes)
        return tuple([self._child(number, turns, child) for number, child in enumerate(self._game.submatches(), first)])

    def close(self, episodes: Sequence[Episode]) -> None:
        """Record the episodes of the requests that ``requests`` returned, and give the game their outcomes."""
        self._episodes += episodes
        self._game.record_outcomes([episode.outcome for episode in episodes])

    def with_children(self, episode: Episode) -> Episode:
        """Return the parent's finished episode with all submatches, to which the parent's game now pays rewards."""
        returns = self._game.submatch_returns()
        children = [_with_payment(child, amounts) for child, amounts in zip(self._episodes, returns, strict=True)]
        return episode._replace(children=tuple(children))

    def _child(self, number: int, turns: int, submatch: Submatch) -> MatchRequest:
        request, cast = self._request, self._cast_of(submatch.game)
        return MatchRequest(
            index=number,
            game=submatch.game,
            deal_seed=request.deal_seed,
            sample_seed=derive_seed(*(request.branch[:turns] or (request.sample_seed,)), "opened", number),
            players=cast.players,
            trained=cast.trained,
            rule=request.rule,
            parent=request.index,
            task=submatch.task,
            cast=request.cast,
        )

    def _cast_of(self, game: str) -> Cast:
        if game not in self._cast:
            raise UsageError(
                f"Match {self._request.index} of {self._request.game} opens a submatch of {game}, for which nobody is "
                f"cast; its cast has {', '.join(self._cast) or 'nobody'}."
            )
        return self._cast[game]


def start_submatch(game: Game, request: MatchRequest) -> None:
    """Start a submatch with its parent's task. Raises UsageError for a game that cannot be a submatch."""
    if not isinstance(game, IsSubmatch):
        raise UsageError(
            f"{game.spec.name} cannot be a submatch of another match: give it the methods of games.spec.IsSubmatch."
        )
    game.start_submatch(request.task)


def submatch_outcome(game: Game) -> str:
    """Return a finished match's outcome for its parent; "" for a match that is no submatch."""
    return game.outcome() if isinstance(game, IsSubmatch) else ""


def _with_payment(episode: Episode, amounts: Sequence[float]) -> Episode:
    """Return an episode whose seats are paid more on their last turns."""  # amounts [seats]
    turns = list(episode.turns)
    last = {turn.seat: index for index, turn in enumerate(turns)}
    for seat, amount in enumerate(amounts):
        if seat in last:
            turn = turns[last[seat]]
            turns[last[seat]] = turn._replace(reward=turn.reward + amount)
    returns = tuple([before + amount for before, amount in zip(episode.returns, amounts, strict=True)])
    return episode._replace(turns=tuple(turns), returns=returns)
