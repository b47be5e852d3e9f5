"""A match step by step: the board, each seat's observations, messages and actions, and the credit in training."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from arena.records import EndReason, Episode, Turn
from arena.submatches import positions as played_positions
from games.abilities import MarksPublic
from games.common.errors import UsageError
from games.outside.as_played import is_outside
from games.registry import make_game
from games.spec import Game
from league.lab.reports.svg import COLOURS, Line, line_chart
from league.population.storage.sampled_matches import SampledMatch, TurnAdvantages
from learners.beliefs import histories
from roles.replies import THINK_CLOSE

_OPENING = re.compile(r"(<[^<>]*>|[\[({<*`\"']+)\s*$")  # of a marked answer: "[", "<answer>", …


class Views(NamedTuple):
    """What the seats observe in a position."""

    shown: tuple[str, ...]  # by seat  # [seats]
    public: frozenset[str]  # lines that are common knowledge


class Token(NamedTuple):
    """A token of a reply, as recorded: its id and the log-probability with which it was sampled."""

    id: int
    logprob: float  # nats


class Private(NamedTuple):
    """What one seat sees beyond the public lines."""

    seat: int
    role: str
    text: str


class BoardView(NamedTuple):
    """A position, if it could be set up again; otherwise only what the seat to act was shown."""

    public: str  # the lines that all seats see; "" if there are none, or other seats' views are not known
    private: tuple[Private, ...]  # of the seats that see more
    complete: bool  # whether all seats' views are known


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of a match."""

    number: int  # from 1
    seat: int
    role: str
    player: str
    board: BoardView  # before the turn
    sees: str  # what the seat was shown
    legal: tuple[str, ...]
    reasoning: str  # of the reply, the text before the answer
    reply: str
    action: str | None  # None: the reply was illegal
    tool: str
    reward: float  # in the game's units
    tokens: tuple[Token, ...]  # none: the player is not a language model
    advantage: float | None  # None: the seat does not learn, or credit was not computed
    left_out: str = ""  # why it was not learned from, by a rule of selection

    @property
    def logprob(self) -> float | None:
        """The log-probability of the whole reply, in nats; None without tokens."""
        return math.fsum(token.logprob for token in self.tokens) if self.tokens else None

    @property
    def outcome(self) -> str:
        """The fate of the reply, in a few words."""
        if self.action is None:
            return "illegal reply"
        return f"calls {self.action}" if self.tool else f"plays {self.action}"


class BeliefCurves(NamedTuple):
    """The curves of one probe: the seats that were asked, and each one's belief in the truth over the match's turns."""

    probe: str
    lines: tuple[Line, ...]  # of each asked seat; xs: how many turns came before; ys: probability of the truth
    svg: Markup


@dataclass(frozen=True, slots=True)
class MatchReplay:
    """A match, step by step."""

    index: int  # of the match in its run or file; of a submatch, among its parent's
    game: str
    players: tuple[str, ...]  # by seat
    roles: tuple[str, ...]  # by seat; "seat 0" for one without a turn
    trained: tuple[bool, ...]  # by seat
    returns: tuple[float, ...]  # in the game's units, by seat
    end: EndReason
    offender: int | None  # the seat that forfeited
    outcome: str  # what the parent of a submatch learned about it
    task: str  # the arguments that opened a submatch
    deal_seed: int
    sample_seed: int
    rule: str  # that drew the match
    iteration: int | None  # of the run
    kept_as: tuple[str, ...]  # why the run kept it
    steps: tuple[Step, ...]
    last_board: BoardView  # when the match is over
    beliefs: tuple[BeliefCurves, ...]  # by probe; none where nobody was asked
    children: tuple[MatchReplay, ...]

    @property
    def title(self) -> str:
        """The match in one line."""
        players = " – ".join(f"{role} {player}" for role, player in zip(self.roles, self.players, strict=True))
        return f"Match {self.index}: {self.game}, {players}"

    @property
    def ending(self) -> str:
        """How the match ended, in a sentence."""
        if self.end is EndReason.FINISHED:
            return "The match is over."
        return f"The match is over: {self.roles[self.offender or 0]} forfeits."


def to_replay(sample: SampledMatch) -> MatchReplay:
    """Return a kept match step by step."""
    left_out = sample.left_out or [[""] * len(turns) for turns in sample.advantages]
    return _replay(sample.episode, sample, iter(zip(sample.advantages, left_out, strict=True)))


def _replay(
    episode: Episode, sample: SampledMatch, credit: Iterator[tuple[TurnAdvantages, Sequence[str]]]
) -> MatchReplay:
    own_credit = zip(*next(credit), strict=True)  # in the order of flatten_episodes: this match's, then submatches'
    request = episode.request
    views = positions(episode)
    spoken = {turn.seat: turn.role for turn in episode.turns}
    roles = tuple(spoken.get(seat, f"seat {seat}") for seat in range(len(request.players)))
    steps = tuple(
        _step(number, turn, to_board(view, roles, turn), *of_turn)
        for number, (turn, view, of_turn) in enumerate(zip(episode.turns, views[:-1], own_credit, strict=True), 1)
    )
    return MatchReplay(
        index=request.index,
        game=request.game,
        players=request.players,
        roles=roles,
        trained=request.trained,
        returns=episode.returns,
        end=episode.end,
        offender=episode.offender,
        outcome=episode.outcome,
        task=request.task,
        deal_seed=request.deal_seed,
        sample_seed=request.sample_seed,
        rule=request.rule,
        iteration=sample.iteration,
        kept_as=sample.kept_as,
        steps=steps,
        last_board=to_board(views[-1], roles, None),
        beliefs=belief_curves(episode, roles),
        children=tuple([_replay(child, sample, credit) for child in episode.children]),
    )


def _step(number: int, turn: Turn, board: BoardView, advantage: float | None, left_out: str) -> Step:
    trace = turn.trace
    tokens = () if trace is None else tuple(map(Token, trace.reply_ids, trace.logprobs))
    return Step(
        number=number,
        seat=turn.seat,
        role=turn.role,
        player=turn.player,
        board=board,
        sees=turn.observation,
        legal=turn.legal,
        reasoning=reasoning(turn.reply, turn.action),
        reply=turn.reply,
        action=turn.action,
        tool=turn.tool,
        reward=turn.reward,
        tokens=tokens,
        advantage=advantage,
        left_out=left_out,
    )


def reasoning(reply: str, action: str | None) -> str:
    """Return the text of a reply before its answer: its thoughts, and the text up to the last mention of the action.

    The record has no answer marks, which belong to the role. A reply that is only its answer has no reasoning.
    """
    thoughts, close, answer = reply.rpartition(THINK_CLOSE)
    if close:
        return (thoughts + close + _before(answer, action)).strip()
    return _before(reply, action).strip()


def _before(text: str, action: str | None) -> str:
    """Return the words before the last mention of the action, without the mark that opens the answer."""
    index = -1 if action is None else text.casefold().rfind(action.casefold())
    return _OPENING.sub("", text[: max(index, 0)])


def to_board(views: Views | None, roles: Sequence[str], turn: Turn | None) -> BoardView:
    """Return a position from each seat's view of it; if these are not known, from what was shown for a turn.

    A line is public if every seat sees it and the game says that it is common knowledge.
    """
    if views is None:
        shown = () if turn is None else (Private(turn.seat, turn.role, turn.observation),)
        return BoardView("", shown, complete=False)
    lines = [view.splitlines() for view in views.shown]
    public = [line for line in lines[0] if line in views.public]
    private = (
        Private(seat, roles[seat], "\n".join(line for line in seat_lines if line not in public))
        for seat, seat_lines in enumerate(lines)
    )
    return BoardView("\n".join(public), tuple(part for part in private if part.text.strip()), complete=True)


def positions(episode: Episode) -> list[Views | None]:
    """Return each seat's view before each turn and at the end, by replaying the match from its seed.

    None from the point where the game departs from the record: its rules have changed, are missing, or called something
    outside, such as a tool or a judge. A game of another library is not made: reading a match does not run its code.
    """
    if is_outside(episode.request.game):
        return [None] * (len(episode.turns) + 1)
    views: list[Views | None] = []
    try:
        game = make_game(episode.request.game)
        for turn, _ in zip((*episode.turns, None), played_positions(game, episode), strict=True):
            if turn is not None and (game.to_act() != turn.seat or game.observe(turn.seat) != turn.observation):
                break
            views.append(_views(game))
            if turn is not None and turn.tool:
                break
    # What OpenSpiel's rules raise at a position is a RuntimeError.
    except (UsageError, ValueError, RuntimeError, StopIteration, NotImplementedError):
        pass
    return [*views, *[None] * (len(episode.turns) + 1 - len(views))]


def _views(game: Game) -> Views:
    shown = tuple(game.observe(seat) for seat in range(game.spec.seats))
    seen_by_all = set.intersection(*[set(view.splitlines()) for view in shown])
    return Views(shown, frozenset(line for line in seen_by_all if _is_public(game, line)))


def _is_public(game: Game, line: str) -> bool:
    """Return whether a line that every seat is shown is common knowledge; without the game's own statement, only on
    boards.
    """
    if game.spec.seats == 1 or not line.strip():
        return True
    return game.is_public(line) if isinstance(game, MarksPublic) else game.spec.perfect_information


def belief_curves(episode: Episode, roles: Sequence[str]) -> tuple[BeliefCurves, ...]:
    """Return the curves of each probe that was asked; ``roles`` are those of all seats."""
    lines: dict[str, list[Line]] = {}
    for (probe, seat), beliefs in histories(episode).items():
        turns, truth = [belief.after for belief in beliefs], [belief.in_truth or 0.0 for belief in beliefs]
        lines.setdefault(probe, []).append(Line(roles[seat], turns, truth, colour=seat % COLOURS))
    return tuple(
        BeliefCurves(
            probe,
            tuple(mine),
            line_chart(mine, f"belief in the truth, probe {probe}", y_range=(0.0, 1.0)),
        )
        for probe, mine in lines.items()
    )
