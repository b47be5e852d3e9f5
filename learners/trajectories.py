"""Episodes to trajectories: each trained seat's turns and scaled rewards, and the evidence that credit rules use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from arena.records import Episode, MatchRequest, Turn, flatten_episodes
from arena.replays import with_tuples
from games.common.seeds import derive_seed
from games.spec import GameSpec

if TYPE_CHECKING:
    from roles.role import Role


class Trajectory(NamedTuple):
    """One trained seat's part of one episode.

    A seat whose match ended before its first turn has no turns, but it has a return and counts in its group. Returns
    and rewards are divided by the game's scale (``to_trajectories``); both include what is paid beside the game.
    """

    game: str
    role: str
    policy: str  # the policy that is trained on it
    seat: int
    match: int  # the request's index
    deal_seed: int  # equal where matches begin alike: of the deal, or derived from it and a stored start's name
    players: tuple[str, ...]  # by seat  # [seats]
    turns: tuple[Turn, ...]  # [K]
    rewards: tuple[float, ...]  # by turn; they sum to the match's return where there is a turn  # [K]
    match_return: float
    parent: int | None = None  # the index of the match that opened this one for a sub-role
    root: int | None = None  # the index of the match that its rollout began with; None: this one
    branch: tuple[int, ...] = ()  # the request's: matches share their turns as far as their branches are equal
    root_game: str | None = None  # the game of the match that its rollout began with; None: this one
    order: tuple[int, ...] = ()  # how many turns of the match, of all seats, came before each turn  # [K]
    fork: tuple[int, ...] = ()  # the request's: the match that it was forked from, and how many turns came before
    preferred: float | None = None  # share of the group's other members that a judge ranks below it; None: not compared


class Counterfactuals(NamedTuple):
    """What a seat's other actions would have paid, given the moves that the other seats made."""

    expected: tuple[float, ...]  # the mean payoff of a turn's actions under the policy  # [K]
    best_fixed: float  # the payoff of the best single action, played at every turn


class ProbeAnswers(NamedTuple):
    """A probe of a trajectory's seat whose right answers are known."""

    prompt: tuple[int, ...]  # token ids of its policy  # [P]
    answers: tuple[str, ...]
    truths: tuple[str, ...]  # the right answers among them, one or more


class Predicted(NamedTuple):
    """What a trajectory's seat was shown next: another seat's turn, or what a tool returned."""

    source: str  # of ``SOURCES``
    # token ids of its policy: what the seat saw before, and the question of what comes next  # [P]
    prompt: tuple[int, ...]
    text: tuple[int, ...]  # token ids of what it was shown  # [T]


SOURCES = ("replies", "tools")


class TurnSelection(NamedTuple):
    """What the rules of ``learners.selection`` make of a trajectory's turns in the update."""

    weights: tuple[float, ...]  # a turn of weight w counts as w equal ones, 0 leaves it out  # [K]
    reasons: tuple[str, ...]  # the rule that left the turn out; "" for one that counts  # [K]
    advantages: tuple[float, ...]  # that are learned from  # [K]


@dataclass(frozen=True, slots=True, init=False)
class Evidence:
    """What is known about a trajectory beyond play: a cell for each source (``league.training.evidence``).

    A source that was not asked, or knows nothing of the trajectory, has no cell. A cell is a number, a string, None, or
    a tuple of cells, so that every cell can be stored; the properties type the cells of the league's own sources.
    """

    cells: Mapping[str, Any]

    def __init__(self, **cells: Any) -> None:
        object.__setattr__(self, "cells", {name: cell for name, cell in cells.items() if cell is not None})

    def with_cells(self, **cells: Any) -> Evidence:
        """Return the evidence with more cells, which replace those of the same sources."""
        return Evidence(**{**self.cells, **cells})

    @property
    def values(self) -> tuple[float, ...] | None:
        """An estimate of the return to go from each turn.  # [K]"""
        return self.cells.get("values")

    @property
    def contributions(self) -> tuple[float, ...] | None:
        """An estimate of what each turn added.  # [K]"""
        return self.cells.get("contributions")

    @property
    def counterfactuals(self) -> Counterfactuals | None:
        """What the seat's other actions would have paid."""
        cell = self.cells.get("counterfactuals")
        return None if cell is None else Counterfactuals(*cell)

    @property
    def rollout_tokens(self) -> float | None:
        """Tokens of all trained seats of the whole rollout, weighted."""
        return self.cells.get("rollout_tokens")

    @property
    def taught(self) -> tuple[tuple[float, ...], ...] | None:
        """What a teacher says about each turn; () where it is not asked.  # [K]

        Probabilities of the legal replies, each above 0 [A], or of a free reply the log-probs of its tokens, nats [T].
        """
        return self.cells.get("taught")

    @property
    def probe_answers(self) -> tuple[ProbeAnswers, ...]:
        """The probes that its seat was asked, where its policy learns to listen."""
        return tuple([ProbeAnswers(*probe) for probe in self.cells.get("probe_answers", ())])

    @property
    def critic_prompts(self) -> tuple[tuple[int, ...], ...] | None:
        """Token ids of its policy that a critic reads in place of each turn's prompt; None: the prompts.  # [K][P]"""
        return self.cells.get("critic_prompts")

    @property
    def influence(self) -> tuple[float | None, ...] | None:
        """How far each turn moved the next seat's choice among its replies, nats; None where unknown.  # [K]"""
        return self.cells.get("influence")

    @property
    def predicted(self) -> tuple[Predicted, ...]:
        """What others said and tools returned, where its policy learns to predict it."""
        return tuple([Predicted(*cell) for cell in self.cells.get("predicted", ())])

    @property
    def stated(self) -> tuple[float | None, ...] | None:
        """1 for each turn that is a prediction which came true, 0 for one that did not; else None.  # [K]"""
        return self.cells.get("stated")

    @property
    def selection(self) -> TurnSelection | None:
        """What rules of selection make of its turns; None where they change nothing."""
        cell = self.cells.get("selection")
        return None if cell is None else TurnSelection(*cell)

    @property
    def eligible(self) -> tuple[bool, ...] | None:
        """Whether each turn bears on something that came about; None where its game does not say.  # [K]"""
        return self.cells.get("eligible")

    @property
    def reply_credits(self) -> tuple[tuple[float, ...], ...] | None:
        """Where all legal replies are credited: each one's probability times its advantage, by the mask.  # [K][A]"""
        return self.cells.get("reply_credits")


def to_trajectories(
    episodes: Iterable[Episode],
    roles_of: Callable[[str], Sequence[Role]],
    scales: Mapping[str, float],
) -> list[Trajectory]:
    """Return the trajectories of all trained seats, in the order of the episodes' ``flatten_episodes``.

    ``scales`` has the divisor of rewards, by game.
    """
    trajectories = []
    roots: dict[int, int] = {}  # of submatches, by index
    games: dict[int, str] = {}  # of all matches, by index
    known: dict[tuple[int, int, float], _SeatTurns] = {}  # matches that went alike share their turns: by identity
    for episode in flatten_episodes(episodes):
        request = episode.request
        games[request.index], root = request.game, None
        if request.parent is not None:
            root = roots[request.index] = roots.get(request.parent, request.parent)
        roles, scale = roles_of(request.game), scales[request.game]
        for seat in (seat for seat, trained in enumerate(request.trained) if trained):
            key = id(episode.turns), seat, scale
            if (seat_turns := known.get(key)) is None:
                seat_turns = known[key] = _turns_of(episode.turns, seat, scale)
            trajectory = _of_seat(episode, seat, roles[seat].name, scale, seat_turns)
            trajectories.append(trajectory if root is None else trajectory._replace(root=root, root_game=games[root]))
    return trajectories


class _SeatTurns(NamedTuple):
    """A seat's turns, with its rewards divided by the game's scale."""

    order: tuple[int, ...]  # their indices among the match's turns  # [K]
    turns: tuple[Turn, ...]  # [K]
    rewards: tuple[float, ...]  # [K]


def _turns_of(turns: Sequence[Turn], seat: int, scale: float) -> _SeatTurns:
    """Return a seat's part of a match's turns."""
    order = tuple([index for index, turn in enumerate(turns) if turn.seat == seat])
    of_seat = tuple([turns[index] for index in order])
    if any(was_silent(turn) for turn in of_seat):
        of_seat = _without_silence(of_seat)
        order = tuple([index for index in order if not was_silent(turns[index])])
    return _SeatTurns(order, of_seat, tuple([turn.reward / scale for turn in of_seat]))


def _of_seat(episode: Episode, seat: int, role: str, scale: float, seat_turns: _SeatTurns) -> Trajectory:
    """Return a seat's part of an episode, rewards divided by ``scale``, without its place in a rollout."""
    request = episode.request
    order, turns, rewards = seat_turns
    match_return = episode.returns[seat] / scale
    if episode.shaping:
        shaping = [episode.shaping[index] for index in order]
        rewards = tuple([reward + bonus for reward, bonus in zip(rewards, shaping, strict=True)])
        match_return += sum(shaping)
    return Trajectory(
        request.game,
        role,
        request.players[seat],  # a policy in training plays under its own name
        seat,
        request.index,
        _beginning(request),
        request.players,
        turns,
        rewards,
        match_return,
        request.parent,
        branch=request.branch,
        order=order,
        fork=request.fork,
        preferred=episode.preferred[seat] if episode.preferred else None,
    )


def was_silent(turn: Turn) -> bool:
    """Return whether nothing was sampled or played in a turn: its program did not answer. There is nothing to learn."""
    return turn.trace is None and turn.action is None and not turn.reply


def _without_silence(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return the turns in which something was said; a silent turn's reward goes to the turn before, if there is one."""
    spoken: list[Turn] = []
    for turn in turns:
        if not was_silent(turn):
            spoken.append(turn)
        elif spoken:
            spoken[-1] = spoken[-1]._replace(reward=spoken[-1].reward + turn.reward)
    return tuple(spoken)


def _beginning(request: MatchRequest) -> int:
    """Return a number that is equal for matches that begin alike: stored starts may have one deal and other moves.

    Attempts at a task that a match opened are alike only among themselves, even if another match sets the same task.
    """
    if not request.start:
        return request.deal_seed
    opened = () if request.parent is None else (request.parent,)
    return derive_seed(request.deal_seed, "start", request.start, *opened)


def return_scale(spec: GameSpec) -> float:
    """Return half the range of a game's returns; dividing by it makes every game's returns span 2."""
    return max((spec.max_return - spec.min_return) / 2, 1e-9)


def evidence_to_json(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as JSON has it: cells by source, tuples as lists."""
    return dict(evidence.cells)


def evidence_from_json(record: dict[str, Any]) -> Evidence:
    """Return what ``evidence_to_json`` wrote, also in the older format of ten fields, some of them empty."""
    cells = {_FORMER.get(name, name): _as_cell(cell) for name, cell in record.items()}
    if isinstance(former := cells.get("counterfactuals"), dict):
        cells["counterfactuals"] = Counterfactuals(**with_tuples(former))
    return Evidence(**cells)


_FORMER = {"heard": "probe_answers"}  # sources whose cells are stored under another name in older runs


def _as_cell(value: Any) -> Any:
    """Return JSON data with all lists as tuples."""
    if not isinstance(value, list):
        return value
    return tuple(map(_as_cell, value)) if list in set(map(type, value)) else tuple(value)
