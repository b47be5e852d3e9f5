"""Judges: which of two matches of one start is preferred, by the game itself or by a player that is asked.

A player is asked in the words of the seat's role card, after both matches, "first" or "second", and both ways round, so
that a leaning to what is shown first cancels: P(a > b) = (p(first | a, b) + 1 - p(first | b, a)) / 2.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from arena.records import Believing, Episode, ReplyRequest
from arena.submatches import play_again
from games.abilities import JudgesMatches
from games.common.errors import UsageError
from games.registry import make_game
from games.spec import Game
from league.config import RunConfig
from league.config.context import RunContext
from league.population.players.engines import Engines
from league.population.players.player import resolve
from learners.advantages.rule import Need
from learners.groups import pairs_within_groups, win_shares
from learners.trajectories import to_trajectories
from roles.probes import Probe
from roles.replies import probed
from roles.role import Role

FIRST, SECOND = "first", "second"


class JudgedPair(NamedTuple):
    """Two matches of one start that are compared for what a seat did."""

    first: Episode
    second: Episode
    seat: int


class Judge(Protocol):
    """Who compares matches of one game."""

    def preferences(self, contests: Sequence[JudgedPair]) -> list[float]:
        """Return for each the probability that the first match is preferred."""
        ...


class Judges:
    """The judges of a run's games; none where no role's credit or shaping asks for one."""

    def __init__(self, context: RunContext, engines: Engines) -> None:
        """Find the judges. Raises UsageError, with what to set instead, for a game that has none."""
        config, self._roles = context.config, context.roles
        self._seats = {game: seats_compared(config, game, seats) for game, seats in context.roles.items()}
        name, question = config.shaping.preferred.judge, config.shaping.preferred.question
        self._judges: dict[str, Judge] = {}
        for game in (game for game, seats in self._seats.items() if seats):
            if game not in config.games or make_game(game).spec.submatch_games:
                raise UsageError(
                    f"Matches of {game} open other matches or are opened by them, so a judge cannot compare them. Give "
                    "its roles another credit.rule, and set their factors in shaping.preferred.roles to 0."
                )
            self._judges[game] = PlayerJudge(name, game, question, engines) if name else GameJudge(game)

    def compare(self, episodes: list[Episode]) -> list[Episode]:
        """Return matches with the share of the others of its start that a judge prefers each to."""
        for game, judge in self._judges.items():
            mine = [place for place, episode in enumerate(episodes) if episode.request.game == game]
            compared = self._compared(judge, [episodes[place] for place in mine], self._seats[game])
            episodes = list(episodes)
            for place, episode in zip(mine, compared, strict=True):
                episodes[place] = episode
        return episodes

    def _compared(self, judge: Judge, episodes: Sequence[Episode], seats: set[int]) -> list[Episode]:
        """Return one game's matches, compared for what some seats did."""
        plain = [episode._replace(children=()) for episode in episodes]
        all_of = to_trajectories(plain, self._roles.__getitem__, {one.request.game: 1.0 for one in episodes})
        trajectories = [one for one in all_of if one.seat in seats]
        places = {episode.request.index: place for place, episode in enumerate(episodes)}
        pairs = pairs_within_groups(trajectories)
        played = [episodes[places[one.match]] for one in trajectories]
        contests = [JudgedPair(played[i], played[j], trajectories[i].seat) for i, j in pairs]
        shares = win_shares(dict(zip(pairs, judge.preferences(contests), strict=True)))
        by_match: dict[int, dict[int, float]] = {}
        for index, share in shares.items():
            by_match.setdefault(trajectories[index].match, {})[trajectories[index].seat] = share
        of_match = [by_match.get(episode.request.index, {}) for episode in episodes]
        return [
            episode._replace(preferred=tuple([found.get(seat) for seat in range(len(episode.returns))]))
            for episode, found in zip(episodes, of_match, strict=True)
        ]


def seats_compared(config: RunConfig, game: str, roles: Sequence[Role]) -> set[int]:
    """Return the seats of a game whose credit or shaping asks for a judge."""
    term = config.shaping.preferred
    return {
        role.seat
        for role in roles
        if not role.fixed
        if Need.PREFERENCES in config.credit.needs(game, role.name) or (term.on and term.factor(game, role.name))
    }


class GameJudge:
    """A game that judges its own matches."""

    def __init__(self, game: str) -> None:
        """Take a game. Raises UsageError for one that does not."""
        if not isinstance(make_game(game), JudgesMatches):
            raise UsageError(
                f"{game} does not say which of two matches is preferred. Name a player that judges with "
                "shaping.preferred.judge, such as a run or hf:NAME, or choose another credit.rule."
            )
        self._game = game

    def preferences(self, contests: Sequence[JudgedPair]) -> list[float]:
        """Return the game's preferences, but for forfeits."""
        ends = _Ends(self._game)

        def preference(contest: JudgedPair) -> float:
            first, second = ends.of(contest.first), ends.of(contest.second)
            assert isinstance(first, JudgesMatches)
            assert isinstance(second, JudgesMatches)
            return first.preference(second, contest.seat)

        settled = [by_forfeit(contest) for contest in contests]
        return [
            preference(contest) if known is None else known for contest, known in zip(contests, settled, strict=True)
        ]


class PlayerJudge:
    """A player that is asked which of two matches is better."""

    def __init__(self, name: str, game: str, question: str, engines: Engines) -> None:
        """Find the player.

        Raises UsageError for one that does not exist, that cannot be asked, or that is drawn for each match.
        """
        self._player, self._game = resolve(name, make_game(game).spec, engines), game
        self._probe = Probe(name="preferred", question=question, answers=(FIRST, SECOND))
        for members in self._player.members:
            if len(members) > 1 or not isinstance(self._player.engine_of(members[0][0]), Believing):
                raise UsageError(
                    f"{name} cannot judge {game}: it has to be one player that can be asked a question. Set "
                    "shaping.preferred.judge to a run, a snapshot of one, or hf:NAME."
                )

    def preferences(self, contests: Sequence[JudgedPair]) -> list[float]:
        """Return the player's preferences, both ways round, but for forfeits and for matches in the same words."""
        ends = _Ends(self._game)
        shown = [(ends.told(one.first, one.seat), ends.told(one.second, one.seat)) for one in contests]
        settled = [0.5 if a == b else by_forfeit(one) for one, (a, b) in zip(contests, shown, strict=True)]
        asked: dict[tuple[int, str], ReplyRequest] = {}
        for one, (a, b), known in zip(contests, shown, settled, strict=True):
            for text in (_both(a, b), _both(b, a)) if known is None else ():
                asked.setdefault((one.seat, text), self._request(one.seat, text, ends.of(one.first)))
        answers = dict(zip(asked, self._ask(list(asked.values())), strict=True))
        return [
            (answers[one.seat, _both(a, b)] + 1.0 - answers[one.seat, _both(b, a)]) / 2 if known is None else known
            for one, (a, b), known in zip(contests, shown, settled, strict=True)
        ]

    def _request(self, seat: int, text: str, position: Game) -> ReplyRequest:
        role, player = probed(self._player.roles[seat], self._probe), self._player.members[seat][0][0]
        request = ReplyRequest(player, role, position, text, self._probe.answers, (), random.Random(0))
        return request._replace(probe=self._probe.name)

    def _ask(self, requests: Sequence[ReplyRequest]) -> list[float]:
        """Return the probability that each is answered with the first match. Raises UsageError where there is none."""
        found: list[float] = []
        by_player: dict[str, list[int]] = {}
        for place, request in enumerate(requests):
            by_player.setdefault(request.player, []).append(place)
        answers: dict[int, tuple[float, ...] | None] = {}
        for player, places in by_player.items():
            engine = self._player.engine_of(player)
            if refresh := getattr(engine, "refresh", None):
                refresh()  # so that its passes are those of a run that is resumed here
            assert isinstance(engine, Believing)
            answers |= dict(zip(places, engine.beliefs([requests[place] for place in places]), strict=True))
        for place in range(len(requests)):
            shares = answers[place]
            if shares is None:
                raise UsageError(
                    f"{self._player.label} has no answer to which of two matches of {self._game} is better. Set "
                    "shaping.preferred.judge to a language model."
                )
            found.append(shares[0] / sum(shares))
        return found


def by_forfeit(contest: JudgedPair) -> float | None:
    """Return the preference where a match ended by a forfeit; None where none did.

    Who forfeited is preferred to nobody who did not; where others did there is nothing to compare.
    """
    first, second = (episode.offender for episode in contest[:2])
    if (first == contest.seat) != (second == contest.seat):
        return float(second == contest.seat)
    return None if first is None and second is None else 0.5


class _Ends:
    """The last positions of matches of one game, each played again once."""

    def __init__(self, game: str) -> None:
        self._game, self._ends = game, dict[int, Game]()

    def of(self, episode: Episode) -> Game:
        """Return the position in which a match ended."""
        if episode.request.index not in self._ends:
            self._ends[episode.request.index] = match = make_game(self._game)
            play_again(match, episode)
        return self._ends[episode.request.index]

    def told(self, episode: Episode, seat: int) -> str:
        """Return what a seat sees when a match is over, and what it replied in it."""
        replies = [turn.reply for turn in episode.turns if turn.seat == seat]
        return "\n".join([self.of(episode).observe(seat), *replies])


def _both(first: str, second: str) -> str:
    return f"{FIRST}:\n{first}\n\n{SECOND}:\n{second}\n"
