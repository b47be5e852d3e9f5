"""Matches that a match opens for other roles: their requests, what their opener is told, and what they are paid.

The opener learns of a match that it opened what that came to (``Episode.outcome``) and nothing else; one that
was forfeited came to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from arena.records import Cast, Episode, MatchRequest
from games.errors import UsageError
from games.seeds import derive_seed
from games.spec import Game, Opened, Opener, Opening


class Openings:
    """All that one match opens."""

    def __init__(self, request: MatchRequest, game: Game) -> None:
        if not isinstance(game, Opener):
            raise UsageError(
                f"{game.spec.name} names the games that it opens ({', '.join(game.spec.opens)}), but it cannot open "
                "any: give it openings, close and opened_returns, as games.spec.Opener has them."
            )
        self._request, self._game = request, game
        self._cast = {cast.game: cast for cast in request.cast}
        self._episodes: list[Episode] = []

    def requests(self, turns: int) -> tuple[MatchRequest, ...]:
        """Return the matches that the last action opened, ``turns`` having been taken so far."""
        first = len(self._episodes)
        return tuple([self._child(number, turns, one) for number, one in enumerate(self._game.openings(), first)])

    def close(self, episodes: Sequence[Episode]) -> None:
        """Take the episodes of what ``requests`` returned."""
        self._episodes += episodes
        self._game.close([episode.outcome for episode in episodes])

    def ended(self, episode: Episode) -> Episode:
        """Return the opener's record with all that it opened, and what its game pays them now that it is over."""
        returns = self._game.opened_returns()
        paid = [_paid(one, own) for one, own in zip(self._episodes, returns, strict=True)]
        return episode._replace(children=tuple(paid))

    def _child(self, number: int, turns: int, opening: Opening) -> MatchRequest:
        request, cast = self._request, self._cast_of(opening.game)
        return MatchRequest(
            index=number,
            game=opening.game,
            deal_seed=request.deal_seed,
            sample_seed=derive_seed(*(request.branch[:turns] or (request.sample_seed,)), "opened", number),
            players=cast.players,
            trained=cast.trained,
            rule=request.rule,
            parent=request.index,
            opening=opening.text,
            cast=request.cast,
        )

    def _cast_of(self, game: str) -> Cast:
        if game not in self._cast:
            raise UsageError(
                f"Match {self._request.index} of {self._request.game} opens a match of {game}, for which nobody is "
                f"cast; its cast has {', '.join(self._cast) or 'nobody'}."
            )
        return self._cast[game]


def begin_opened(game: Game, request: MatchRequest) -> None:
    """Hand over what the opener gave. Raises UsageError for a game that cannot be opened."""
    if not isinstance(game, Opened):
        raise UsageError(
            f"{game.spec.name} cannot be opened by another match: give it open and outcome, as games.spec.Opened has "
            "them."
        )
    game.open(request.opening)


def outcome_of(game: Game) -> str:
    """Return what a match that another opened came to."""
    return game.outcome() if isinstance(game, Opened) else ""


def _paid(episode: Episode, amounts: Sequence[float]) -> Episode:
    """Return an episode whose seats are paid more on their last turns."""  # amounts [seats]
    turns = list(episode.turns)
    last = {turn.seat: place for place, turn in enumerate(turns)}
    for seat, amount in enumerate(amounts):
        if seat in last:
            turn = turns[last[seat]]
            turns[last[seat]] = turn._replace(reward=turn.reward + amount)
    returns = tuple([before + amount for before, amount in zip(episode.returns, amounts, strict=True)])
    return episode._replace(turns=tuple(turns), returns=returns)
