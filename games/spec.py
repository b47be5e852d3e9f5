"""What a game is: its facts as data (GameSpec), what a seat may do (Choices, FreeText), one match's moves (Game)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, Self, cast, runtime_checkable

from games.aliases import short_name
from games.common.errors import NotEnumerable


class Utility(StrEnum):
    """How the seats' returns relate (OpenSpiel's ``GameType.Utility``)."""

    ZERO_SUM = "zero_sum"
    CONSTANT_SUM = "constant_sum"
    GENERAL_SUM = "general_sum"
    IDENTICAL = "identical"

    @property
    def words(self) -> str:
        """A short name of the motive, a colon, and what it means for the seats."""
        return {
            Utility.ZERO_SUM: "zero-sum: what one seat wins the others lose",
            Utility.CONSTANT_SUM: "constant-sum: the seats share a fixed total",
            Utility.GENERAL_SUM: "general-sum: each seat has its own result",
            Utility.IDENTICAL: "common interest: all seats get the same",
        }[self]


@dataclass(frozen=True, slots=True)
class GameSpec:
    """Facts about a game that hold for every match of it.

    Returns are in the game's own units (chips, points). ``max_turns`` counts decisions of all
    seats together; chance moves are not turns.
    """

    name: str  # as the registry takes it: "kuhn_poker" or "kuhn_poker(players=3)"
    seats: int
    num_actions: int  # distinct action ids over the whole game; 0 for one that asks for free text
    max_turns: int
    min_return: float
    max_return: float
    utility: Utility
    perfect_information: bool
    has_chance: bool
    optimum: float | None = None  # best joint return per seat of a cooperative game, where known
    submatch_games: tuple[str, ...] = ()  # the games of its submatches; where there are any, its class OpensSubmatches
    free_text: bool = False  # whether any of its turns asks for words rather than for one of a list
    suite: str = ""  # the collection of games for evaluation that it belongs to; "" for none
    teams: tuple[tuple[int, ...], ...] = ()  # seats that win and lose together, and are one player's in an evaluation
    inner: str = ""  # the game that it wraps, whose role cards its seats have; "" for none
    alone: str = ""  # the game in which one player does a team's whole work, on the same deals; "" for none
    reward_names: tuple[str, ...] = ()  # of what it pays besides its return; where there are any, it PaysNamedRewards
    # most seconds of a move, for a game that another system plays: it is made alongside all other play, and a match
    # whose move fails or takes longer begins again; None: moves are made here
    elsewhere: float | None = None
    card_seats: tuple[int, ...] = ()  # by seat, the seat of ``inner`` whose card it has; () for its own

    @property
    def alias(self) -> str:
        """The short name by which people know the game; ``name`` where that is short itself."""
        return short_name(self.name)

    @property
    def competitive(self) -> bool:
        """Whether what one seat wins the others lose, so that to be hard to exploit is to play well."""
        return self.utility in (Utility.ZERO_SUM, Utility.CONSTANT_SUM)

    @property
    def exploitability_note(self) -> str:
        """What an exploitability of 0 says: in a game of common interest babbling has it too."""
        if self.competitive:
            return "0 is a Nash equilibrium"
        return "what a seat gains by deviating alone; 0 does not mean that play is good"


class Choices(NamedTuple):
    """A list of which a seat chooses one: distinct strings, with their ids in ``range(spec.num_actions)``."""

    labels: tuple[str, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FreeText:
    """Words that a seat is asked for. What it says is read as one action, or it is an illegal reply."""

    most_characters: int  # of what is said, thoughts not counted; more is illegal
    form: str  # what an answer looks like, as a noun phrase: 'an offer such as "2 apples for 1 pear", or "accept"'
    read: Callable[[str], str | None]  # pure: the one action that ``apply`` takes, or None
    # Pure: why ``read`` gives None, as a sentence to the seat, which quotes nothing of the text.
    why: Callable[[str], str] | None = None
    thinks: bool = False  # what stands before "Answer:" is thought, not said; ``form`` tells the seat


class Reading(NamedTuple):
    """What a text is read as: one action, or the reason why it is none."""

    action: str | None
    why: str = ""  # a sentence to the seat; "" with an action


@runtime_checkable
class Game(Protocol):
    """One match in progress. The referee is the only caller of ``apply``.

    Each game object draws chance from its own generator, seeded by ``reset``: equal seeds and equal
    actions give equal matches, whatever else runs in the process. Simultaneous moves are requested
    seat by seat, and no seat observes what the others chose in the same round.
    """

    @property
    def spec(self) -> GameSpec:
        """The facts about this game."""
        ...

    def reset(self, seed: int) -> None:
        """Start a new match; ``seed`` fixes every chance event in it."""
        ...

    def to_act(self) -> int | None:
        """Return the seat whose turn it is, or None when the match is over."""
        ...

    def actions(self) -> Choices | FreeText:
        """Return what the seat to act may do: one of a list (of nothing when over), or free text.

        Only a game whose spec says ``free_text`` asks for free text; it may do so at some turns and not at others.
        """
        ...

    def observe(self, seat: int) -> str:
        """Return as text all that ``seat`` knows: a seat with perfect recall needs no more."""
        ...

    def information_state(self, seat: int) -> str:
        """Return a key that is equal for exactly those positions that ``seat`` cannot distinguish."""
        ...

    def apply(self, action: str) -> None:
        """Play a label of ``actions()``, or what its ``read`` gave. Raises ValueError for any other string."""
        ...

    def rewards(self) -> tuple[float, ...]:
        """Return what the last ``apply`` paid to each seat, with what the submatches that it opened did."""  # [seats]
        ...

    def returns(self) -> tuple[float, ...]:
        """Return the sum of all rewards so far, by seat."""  # [seats]
        ...

    def copy(self) -> Self:
        """Return an independent match in the same position, with its generator in the same state."""
        ...


GAME_METHODS = ("reset", "to_act", "actions", "observe", "information_state", "apply", "rewards", "returns", "copy")


class ChoiceGame(Game, Protocol):
    """A Game that asks for one of a list at every turn, as all that counts, masks or searches needs it to."""

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions of the seat to act as distinct strings; empty when over."""
        ...

    def legal_ids(self) -> tuple[int, ...]:
        """Return the ids, in ``range(spec.num_actions)``, of ``legal_actions()``, in that order."""
        ...


def choice_game(game: Game, need: str = "What is asked of it here") -> ChoiceGame:
    """Return the game as one of choices. Raises NotEnumerable, naming what needs a list, for one of free text."""
    if game.spec.free_text:
        raise NotEnumerable(
            f"{need} needs a list of legal actions, and {game.spec.name} asks for free text, which has none: "
            "play matches of it, or take a variant of choices where it has one."
        )
    return cast(ChoiceGame, game)


def labels(game: Game) -> tuple[str, ...]:
    """Return the strings of which the seat to act chooses one; () where the match is over or asks for free text."""
    actions = game.actions()
    return actions.labels if isinstance(actions, Choices) else ()


class Submatch(NamedTuple):
    """A match for other roles that a match opens; the one that opens it is its parent."""

    game: str
    task: str  # the text that it starts with
    start: bool = False  # whether the task is a stored start's, so that it is compared with other attempts at it alone
    # (seat, slot, text): what fills slots of cards in a whole match of the game on its parent's deal; it pays as usual
    given: tuple[tuple[int, str, str], ...] = ()
    draws: int | None = None  # players draw as in other submatches of this number; None: of its place

    def drawn_as(self, place: int) -> int:
        """Return the number of the draws of a submatch that is opened at a place, from 0 on."""
        return place if self.draws is None else self.draws


def whole_outcome(game: Game) -> str:
    """Return what the parent learns of a whole match that it opened (``Submatch.given``): all returns, in JSON."""
    return json.dumps(list(game.returns()))


@runtime_checkable
class OpensSubmatches(Protocol):
    """A Game whose matches open submatches for other roles, any number of times, in order or side by side.

    Its ``spec.submatch_games`` names their games.
    """

    def submatches(self) -> tuple[Submatch, ...]:
        """Return the submatches that the last action opened, to be played side by side; () for none."""
        ...

    def record_outcomes(self, outcomes: Sequence[str]) -> None:
        """Take the outcomes of ``submatches()``, in that order: all that this match ever learns of them."""
        ...

    def submatch_returns(self) -> tuple[tuple[float, ...], ...]:
        """Return what each submatch pays to its seats, in the order of opening; called when this match is over."""
        ...


class Attempt(NamedTuple):
    """A submatch that is over, as far as its parent may know it."""

    outcome: str  # "" where it was forfeited
    answer: str = ""  # the actions of its seats, one after another
    calls: int = 0  # of tools


@runtime_checkable
class ReadsAttempts(Protocol):
    """A Game whose matches open submatches and learn what was answered there, not the outcomes alone."""

    def record_attempts(self, attempts: Sequence[Attempt]) -> None:
        """Take the attempts at ``submatches()``, in that order, in place of ``record_outcomes``."""
        ...


def tell_of_submatches(game: OpensSubmatches, attempts: Sequence[Attempt]) -> None:
    """Tell a match how the submatches ended that its last action opened."""
    if isinstance(game, ReadsAttempts):
        game.record_attempts(attempts)
    else:
        game.record_outcomes([attempt.outcome for attempt in attempts])


@runtime_checkable
class IsSubmatch(Protocol):
    """A Game that other matches open. It is reset with its parent's deal seed.

    The parent decides what it pays, so once ``start_submatch`` was called its own rewards are 0.
    """

    def start_submatch(self, task: str) -> None:
        """Start with the parent's task; called once after ``reset``."""
        ...

    def outcome(self) -> str:
        """Return what the parent learns of this match, once it is over."""
        ...


@runtime_checkable
class Enumerable(Protocol):
    """A ChoiceGame that lists chance outcomes with their probabilities, so that its values can be computed exactly.

    ``information_state`` must show all that the seat saw and did before: best responses need perfect recall.
    """

    def undealt(self) -> Self:
        """Return a new match before chance's first move. Neither it nor its copies ever draw chance themselves."""
        ...

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return the outcomes of the chance move that is next, with probabilities that sum to one; () for none."""
        ...

    def apply_chance(self, outcome: str) -> None:
        """Let chance have one of ``chance_outcomes()``."""
        ...


@runtime_checkable
class HasTools(Protocol):
    """A Game that has tools for the roles whose cards allow them."""

    def tools(self) -> Mapping[str, Callable[..., str]]:
        """Return functions by name, for this match. They change nothing."""
        ...

    def legal_calls(self) -> tuple[str, ...]:
        """Return the calls that a role with ``choice`` replies finds among its legal replies now."""
        ...

    def record_call(self, call: str, output: str) -> None:
        """Take a call of the seat to act and its output, for the observations from now on."""
        ...


@runtime_checkable
class HasJudge(Protocol):
    """A Game in which one seat judges the others and the truth is known, so that the judge can be measured."""

    def judge(self) -> int | None:
        """Return the seat that judges; None where the game itself does."""
        ...

    def agreement(self) -> float:
        """Return the share of verdicts that agree with the truth; called when the match is over."""
        ...

    def position_bias(self) -> float | None:
        """Return the judge's preference for the side shown first, −1 to 1, by its verdicts on both orders; 0: none.

        None where it was asked in one order only. Called when the match is over.
        """
        ...


@runtime_checkable
class HasOutcomes(Protocol):
    """A Game that knows the returns its seats could have had, against which their actual returns are measured."""

    def possible_returns(self) -> Collection[tuple[float, ...]]:
        """Return the returns by seat that a match dealt as this one can end with, whatever the seats know."""
        ...


@runtime_checkable
class HasScripts(Protocol):
    """A Game with scripted players of its own, such as an optimal and a poor one."""

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return by name a function that gives the action, or call, of the seat to act."""
        ...
