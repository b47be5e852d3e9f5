"""Where matches begin, and submatches: matches that a match opens for other roles, with their outcomes and rewards.

The parent sees a submatch's outcome (``Episode.outcome``) and nothing else of it; a forfeited submatch has an empty
outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arena.records import Cast, Episode, MatchRequest, Start
from games.abilities import TakesTasks
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import Attempt, Game, IsSubmatch, OpensSubmatches, Submatch, tell_of_submatches, whole_outcome
from roles.slots.rule import NAMES as SLOTS


def begin_match(game: Game, request: MatchRequest) -> int:
    """Reset the game and bring it to the match's first turn; return how many submatches were opened before.

    Raises UsageError for a start that is not the one named, a task that the game does not take, and actions that cannot
    be played.
    """
    if request.start:
        _check_name(request)
    game.reset(request.deal_seed)
    if request.task or (request.parent is not None and not request.given):
        _start_given(request, game)
    if not request.prefix:
        return 0
    *_, opened = _prefix(game, request)
    return opened


def beginnings(game: Game, request: MatchRequest) -> Iterator[Game]:
    """Yield the positions that a match goes through before its first turn, and that of its first turn.

    All are the game itself, which moves on.
    """
    begin_match(game, request._replace(prefix=(), start=""))
    for _ in _prefix(game, request):
        yield game


def middle(episode: Episode, turns: int, children: Sequence[Episode] | None = None) -> MatchRequest:
    """Return the request of a match that continues after this many turns of another, with its deal and its players.

    What was played, written and opened before is taken as it was; what tools were asked is not. ``children``: its
    submatches, where the record does not have them.
    """
    request, actions = episode.request, [*episode.request.prefix]
    texts = [*request.texts]
    for turn in episode.turns[:turns]:
        if turn.tool in SLOTS:
            texts.append((len(actions), turn.action or ""))
        elif turn.action is not None and not turn.tool:
            actions.append(turn.action)
    ended = (*request.attempts, *map(attempt_of, episode.children if children is None else children))
    resumed = request._replace(
        branch=(),
        start="",  # the stored start belongs to the whole match
        prefix=tuple(actions),
        texts=tuple(texts),
        attempts=ended,
    )
    if not ended:
        return resumed
    *_, opened = _prefix(_begun(resumed), resumed)
    return resumed._replace(attempts=ended[:opened])


def _begun(request: MatchRequest) -> Game:
    game = make_game(request.game)
    begin_match(game, request._replace(prefix=(), start=""))
    return game


def _start_given(request: MatchRequest, game: Game) -> None:
    """Start with the task that the match, or its parent, was given."""
    opened = request.parent is not None or isinstance(game, IsSubmatch)
    if request.task and (isinstance(game, TakesTasks) or not opened):
        _start_task(request, game)
    else:
        start_submatch(game, request)


def positions(game: Game, episode: Episode) -> Iterator[Game]:
    """Yield the position before each turn of an episode that was played of a game, and then the last one.

    All are the game itself, which moves on: copy what is to be kept.
    """
    begin_match(game, episode.request)
    yield game
    children = iter(episode.children)
    for turn in episode.turns:
        if turn.action is not None and not turn.tool:
            game.apply(turn.action)
            if episode.children and isinstance(game, OpensSubmatches) and (opened := game.submatches()):
                tell_of_submatches(game, [attempt_of(next(children)) for _ in opened])
        yield game


def play_again(game: Game, episode: Episode) -> None:
    """Bring a game to the end of an episode that was played of it."""
    for _ in positions(game, episode):
        pass


def _check_name(request: MatchRequest) -> None:
    """Refuse a request whose deal, task or prefix differs from the start that it names."""
    start = Start(request.game, request.deal_seed, request.task, request.prefix, request.attempts)
    if start.name != request.start:
        raise UsageError(
            f"Match {request.index} of {request.game} names the start {request.start}, but its deal, task, prefix and "
            f"attempts are those of {start.name}. A start never changes: take all of them from the one that is meant."
        )


def _start_task(request: MatchRequest, game: Game) -> None:
    if not isinstance(game, TakesTasks):
        raise UsageError(
            f"{request.game} takes no task as text: match {request.index} cannot begin with {request.task[:80]!r}. "
            "Give the game the methods of games.abilities.TakesTasks, or leave the task out."
        )
    try:
        game.start_task(request.task)
    except ValueError as error:
        raise UsageError(
            f"Match {request.index} of {request.game} cannot begin with {request.task[:80]!r}: {error}."
        ) from None


def _prefix(game: Game, request: MatchRequest) -> Iterator[int]:
    """Apply the actions that a match begins with; what they pay is part of its returns, and they are no turns of it.

    Yield before each of them, and after the last, how many submatches they have opened. Raises UsageError for actions
    that cannot be played, and for submatches without an attempt.
    """
    opened = 0
    for number, action in enumerate(request.prefix):
        yield opened
        try:
            game.apply(action)
        except ValueError as error:
            raise UsageError(
                f"Match {request.index} of {request.game} cannot begin with {', '.join(request.prefix)}: its action "
                f"{number + 1} is not legal there ({error}). Give actions that were played after this deal."
            ) from None
        if isinstance(game, OpensSubmatches) and (children := len(game.submatches())):
            tell_of_submatches(game, _attempts_before(request, opened, children))
            opened += children
    yield opened


def _attempts_before(request: MatchRequest, opened: int, children: int) -> Sequence[Attempt]:
    """Return the attempts at the submatches that an action of a prefix opened. Raises UsageError if there are none."""
    attempts = request.attempts[opened : opened + children]
    if len(attempts) < children:
        raise UsageError(
            f"Match {request.index} of {request.game} continues from its middle, where {opened + children} submatches "
            f"were over, but it has attempts at {len(request.attempts)}. Make its request with "
            "arena.submatches.middle, or play it whole."
        )
    return attempts


class Submatches:
    """The submatches of one match."""

    def __init__(self, request: MatchRequest, game: Game, before: int = 0) -> None:
        """``before``: how many of them the match's prefix opened."""
        if not isinstance(game, OpensSubmatches):
            raise UsageError(
                f"{game.spec.name} names games of submatches ({', '.join(game.spec.submatch_games)}), but cannot open "
                "any: give it the methods of games.spec.OpensSubmatches."
            )
        self._request, self._game = request, game
        self._cast = {cast.game: cast for cast in request.cast}
        self._episodes: list[Episode] = []
        self._before = before

    def requests(self, turns: int) -> tuple[MatchRequest, ...]:
        """Return the requests of the submatches that the last action opened, after ``turns`` turns."""
        first = self._before + len(self._episodes)
        return tuple([self._child(number, turns, child) for number, child in enumerate(self._game.submatches(), first)])

    def close(self, episodes: Sequence[Episode]) -> None:
        """Record the episodes of the requests that ``requests`` returned, and give the game their outcomes."""
        self._episodes += episodes
        tell_of_submatches(self._game, [*map(attempt_of, episodes)])

    def with_children(self, episode: Episode) -> Episode:
        """Return the parent's finished episode with all submatches, to which the parent's game now pays rewards."""
        returns = self._game.submatch_returns()[self._before :]
        children = [_with_payment(child, amounts) for child, amounts in zip(self._episodes, returns, strict=True)]
        return episode._replace(children=tuple(children))

    def _child(self, number: int, turns: int, submatch: Submatch) -> MatchRequest:
        request, cast, deal_seed, start = self._request, self._cast_of(submatch.game), self._request.deal_seed, ""
        if submatch.start:  # a task is one start, no matter who writes it and in which deal
            stored = task_start(submatch.game, submatch.task)
            deal_seed, start = stored.seed, stored.name
        return MatchRequest(
            index=number,
            game=submatch.game,
            deal_seed=deal_seed,
            sample_seed=derive_seed(
                *(request.branch[:turns] or (request.sample_seed,)), "opened", submatch.drawn_as(number)
            ),
            players=cast.players,
            trained=cast.trained,
            rule=request.rule,
            parent=request.index,
            task=submatch.task,
            cast=request.cast,
            start=start,
            given=submatch.given,
        )

    def _cast_of(self, game: str) -> Cast:
        if game not in self._cast:
            raise UsageError(
                f"Match {self._request.index} of {self._request.game} opens a submatch of {game}, which nobody is "
                f"cast for; its cast has {', '.join(self._cast) or 'nobody'}."
            )
        return self._cast[game]


def task_start(game: str, task: str) -> Start:
    """Return the start of a task as text, which is one whoever writes it and in which deal."""
    return Start(game, derive_seed("task", game, task), task)


def start_submatch(game: Game, request: MatchRequest) -> None:
    """Start a submatch with its parent's task. Raises UsageError for a game that cannot be a submatch."""
    if not isinstance(game, IsSubmatch):
        raise UsageError(
            f"{game.spec.name} cannot be a submatch of another match: give it the methods of games.spec.IsSubmatch."
        )
    game.start_submatch(request.task)


def attempt_of(episode: Episode) -> Attempt:
    """Return what a parent may know of a submatch that is over."""
    calls = [turn for turn in episode.turns if turn.tool and turn.tool not in SLOTS]
    answers = [turn.action for turn in episode.turns if turn.action is not None and not turn.tool]
    return Attempt(episode.outcome, " ".join(answers) if episode.outcome else "", len(calls))


def submatch_outcome(game: Game, whole: bool = False) -> str:
    """Return a finished match's outcome for its parent: of an attempt at a task, what that paid.

    Of a ``whole`` match of a game it is what it paid to all seats, in JSON.
    """
    if whole:
        return whole_outcome(game)
    if isinstance(game, TakesTasks):
        return f"{game.returns()[0]:g}"
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
