"""Judges: which of two matches of one start is preferred, according to the game itself or to a player.

A player is asked, in the words of the seat's role card and after both matches, "first" or "second", in both orders, so
that position bias cancels: P(a > b) = (p(first | a, b) + 1 - p(first | b, a)) / 2.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from arena.errors import ServerError
from arena.records import Believing, Episode, ReplyRequest, Streaming
from arena.submatches import play_again
from arena.tool_calls import CallFailed
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
from roles.replies import parse_reply, probed, unmasked
from roles.role import Role

T = TypeVar("T")

FIRST, SECOND = "first", "second"


class JudgedPair(NamedTuple):
    """Two matches of one start, compared by what a seat did."""

    first: Episode
    second: Episode
    seat: int


class PendingAnswers(NamedTuple, Generic[T]):
    """What judges are asked: ``read`` returns what they say, and waits for it unless all ``replies`` are there."""

    replies: Sequence[Future[Any]]  # of judges that answer requests; what is computed here is computed by ``read``
    read: Callable[[], T]

    def ready(self) -> bool:
        """Return whether every reply has come, or failed."""
        return all(reply.done() for reply in self.replies)


class Judge(Protocol):
    """A judge of one game's matches."""

    def ask(self, contests: Sequence[JudgedPair]) -> PendingAnswers[list[float]]:
        """Ask for each pair how probable it is that the first match is preferred."""
        ...


class Judges:
    """The judges of a run's games; none where no role's credit or shaping asks for one."""

    def __init__(self, context: RunContext, engines: Engines) -> None:
        """Find the judges. Raises UsageError, with the setting to change, for a game that has none."""
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

    def ask(self, episodes: list[Episode]) -> PendingAnswers[list[Episode]]:
        """Ask for matches, each with the share of the others of its start that a judge ranks below it."""
        asked = list[tuple[list[int], PendingAnswers[list[Episode]]]]()
        for game, judge in self._judges.items():
            indices = [index for index, episode in enumerate(episodes) if episode.request.game == game]
            asked.append((indices, self._compared(judge, [episodes[index] for index in indices], self._seats[game])))

        def read() -> list[Episode]:
            compared = list(episodes)
            for indices, of_game in asked:
                for index, episode in zip(indices, of_game.read(), strict=True):
                    compared[index] = episode
            return compared

        return PendingAnswers([reply for _, of_game in asked for reply in of_game.replies], read)

    def _compared(self, judge: Judge, episodes: Sequence[Episode], seats: set[int]) -> PendingAnswers[list[Episode]]:
        """Ask for one game's matches, compared by what some seats did."""
        plain = [episode._replace(children=()) for episode in episodes]
        all_of = to_trajectories(plain, self._roles.__getitem__, {episode.request.game: 1.0 for episode in episodes})
        trajectories = [trajectory for trajectory in all_of if trajectory.seat in seats]
        index_of = {episode.request.index: number for number, episode in enumerate(episodes)}
        pairs = pairs_within_groups(trajectories)
        played = [episodes[index_of[trajectory.match]] for trajectory in trajectories]
        contests = [JudgedPair(played[i], played[j], trajectories[i].seat) for i, j in pairs]
        asked = judge.ask(contests)

        def read() -> list[Episode]:
            by_match: dict[int, dict[int, float]] = {}
            for index, share in win_shares(dict(zip(pairs, asked.read(), strict=True))).items():
                by_match.setdefault(trajectories[index].match, {})[trajectories[index].seat] = share
            of_match = [by_match.get(episode.request.index, {}) for episode in episodes]
            return [
                episode._replace(preferred=tuple([shares.get(seat) for seat in range(len(episode.returns))]))
                for episode, shares in zip(episodes, of_match, strict=True)
            ]

        return PendingAnswers(asked.replies, read)


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
        """Take a game. Raises UsageError for one that does not judge its matches."""
        if not isinstance(make_game(game), JudgesMatches):
            raise UsageError(
                f"{game} does not say which of two matches is preferred. Name a player that judges with "
                "shaping.preferred.judge, such as a run or hf:NAME, or choose another credit.rule."
            )
        self._game = game

    def ask(self, contests: Sequence[JudgedPair]) -> PendingAnswers[list[float]]:
        """Ask for the game's preferences, except where a match was forfeited."""
        ends = _Ends(self._game)

        def preference(contest: JudgedPair) -> float:
            first, second = ends.of(contest.first), ends.of(contest.second)
            assert isinstance(first, JudgesMatches)
            assert isinstance(second, JudgesMatches)
            return first.preference(second, contest.seat)

        forfeits = [by_forfeit(contest) for contest in contests]
        said = [
            preference(contest) if by_rule is None else by_rule
            for contest, by_rule in zip(contests, forfeits, strict=True)
        ]
        return PendingAnswers((), lambda: said)


class PlayerJudge:
    """A player that says which of two matches is better."""

    def __init__(self, name: str, game: str, question: str, engines: Engines) -> None:
        """Find the player.

        Raises UsageError for a player that does not exist, cannot be asked, or is drawn for each match.
        """
        self._player, self._game = resolve(name, make_game(game).spec, engines), game
        self._probe = Probe(name="preferred", question=question, answers=(FIRST, SECOND))
        for members in self._player.members:
            if len(members) > 1 or not isinstance(self._player.engine_of(members[0][0]), Believing | Streaming):
                raise UsageError(
                    f"{name} cannot judge {game}: it must be a single player that can answer a question. Set "
                    "shaping.preferred.judge to a run, a snapshot of one, or hf:NAME."
                )

    def ask(self, contests: Sequence[JudgedPair]) -> PendingAnswers[list[float]]:
        """Ask for the player's preferences, averaged over both orders, except for forfeits and identical matches."""
        ends = _Ends(self._game)
        shown = [
            (ends.transcript(contest.first, contest.seat), ends.transcript(contest.second, contest.seat))
            for contest in contests
        ]
        by_rule = [0.5 if a == b else by_forfeit(contest) for contest, (a, b) in zip(contests, shown, strict=True)]
        requests: dict[tuple[int, str], ReplyRequest] = {}
        for contest, (a, b), preference in zip(contests, shown, by_rule, strict=True):
            for text in (_both(a, b), _both(b, a)) if preference is None else ():
                requests.setdefault((contest.seat, text), self._request(contest.seat, text, ends.of(contest.first)))
        asked = self._ask(list(requests.values()))

        def read() -> list[float]:
            answers = dict(zip(requests, asked.read(), strict=True))
            return [
                (answers[contest.seat, _both(a, b)] + 1.0 - answers[contest.seat, _both(b, a)]) / 2
                if preference is None
                else preference
                for contest, (a, b), preference in zip(contests, shown, by_rule, strict=True)
            ]

        return PendingAnswers(asked.replies, read)

    def _request(self, seat: int, text: str, position: Game) -> ReplyRequest:
        role, player = probed(self._player.roles[seat], self._probe), self._player.members[seat][0][0]
        request = ReplyRequest(player, role, position, text, self._probe.answers, (), random.Random(0))
        return request._replace(probe=self._probe.name)

    def _ask(self, requests: Sequence[ReplyRequest]) -> PendingAnswers[list[float]]:
        """Ask how probable each answer is the first match; ``read`` raises UsageError where there is no answer."""
        by_player: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            by_player.setdefault(request.player, []).append(index)
        asked = []
        for player, indices in by_player.items():
            engine = self._player.engine_of(player)
            of_player = [requests[index] for index in indices]
            asked.append(
                (indices, _computed(engine, of_player) if isinstance(engine, Believing) else _said(engine, of_player))
            )

        def read() -> list[float]:
            answers: dict[int, tuple[float, ...] | None] = {}
            for indices, said in asked:
                answers |= dict(zip(indices, said.read(), strict=True))
            return [self._share(answers[index]) for index in range(len(requests))]

        return PendingAnswers([reply for _, said in asked for reply in said.replies], read)

    def _share(self, shares: tuple[float, ...] | None) -> float:
        if shares is None:
            raise UsageError(
                f"{self._player.label} cannot say which of two matches of {self._game} is better. Set "
                "shaping.preferred.judge to a language model."
            )
        return shares[0] / sum(shares)


def _computed(engine: Any, requests: Sequence[ReplyRequest]) -> PendingAnswers[Sequence[tuple[float, ...] | None]]:
    """Let a player's distributions over the answers be computed here, when they are read."""

    def read() -> Sequence[tuple[float, ...] | None]:
        if refresh := getattr(engine, "refresh", None):
            refresh()  # so that its passes are the same in a run that is resumed here
        answers: Sequence[tuple[float, ...] | None] = engine.beliefs(requests)
        return answers

    return PendingAnswers((), read)


def _said(engine: Any, requests: Sequence[ReplyRequest]) -> PendingAnswers[Sequence[tuple[float, ...] | None]]:
    """Ask a player for all at once whose probabilities nobody can read, and take what it says as its distribution.

    Where it says none of the answers, or nothing within its limits, none is preferred. ``read`` raises the error of its
    engine if that answers nothing at all.
    """
    replies = [engine.submit(request._replace(role=unmasked(request.role))) for request in requests]

    def read() -> list[tuple[float, ...] | None]:
        distributions, errors = list[tuple[float, ...] | None](), list[Exception]()
        for request, reply in zip(requests, replies, strict=True):
            answer = None
            try:
                answer = parse_reply(request.role, reply.result().text, request.legal)
            except (CallFailed, ServerError) as error:
                errors.append(error)
            even = 1.0 / len(request.legal)
            distributions.append(tuple([even if answer is None else float(one == answer) for one in request.legal]))
        if errors and len(errors) == len(requests):
            raise errors[-1]
        return distributions

    return PendingAnswers(replies, read)


def by_forfeit(contest: JudgedPair) -> float | None:
    """Return the preference where a match ended by a forfeit; None where neither did.

    A seat that forfeited loses to one that did not; where other seats forfeited, there is nothing to compare.
    """
    first, second = (episode.offender for episode in contest[:2])
    if (first == contest.seat) != (second == contest.seat):
        return float(second == contest.seat)
    return None if first is None and second is None else 0.5


class _Ends:
    """The final positions of matches of one game, each replayed once."""

    def __init__(self, game: str) -> None:
        self._game, self._ends = game, dict[int, Game]()

    def of(self, episode: Episode) -> Game:
        """Return a match's final position."""
        if episode.request.index not in self._ends:
            self._ends[episode.request.index] = match = make_game(self._game)
            play_again(match, episode)
        return self._ends[episode.request.index]

    def transcript(self, episode: Episode, seat: int) -> str:
        """Return what a seat sees when a match is over, and its replies in the match."""
        replies = [turn.reply for turn in episode.turns if turn.seat == seat]
        return "\n".join([self.of(episode).observe(seat), *replies])


def _both(first: str, second: str) -> str:
    return f"{FIRST}:\n{first}\n\n{SECOND}:\n{second}\n"
