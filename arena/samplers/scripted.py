"""Players without a model: random, one action, a game's scripts, equilibrium, minimax and Monte Carlo tree search.

OpenSpiel is imported only when a player needs it, so that the command line starts fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from arena.records import DrawnChoice, Reply, ReplyRequest
from games.abilities import GivesBeliefs
from games.common.errors import UsageError
from games.spec import FreeText, GameSpec, HasScripts
from roles.replies import format_reply, read_free_text
from roles.role import ReplyForm

if TYPE_CHECKING:
    from games.openspiel.game import OpenSpielGame

MAX_HISTORIES = 100_000  # largest game tree that is solved: Leduc has 9,457 histories, liar's dice 294,883
MAX_VISITS = 10_000_000  # histories visited by one solution; about 20 seconds
MAX_ITERATIONS = 2_000
FIRST_CHECK = 100  # iterations before exploitability is first computed; then after each doubling
TARGET = 1e-4  # exploitability, as a share of the game's range of returns, at which a solution stops
_MISSED = (
    "league: equilibrium is only approximate in {name}: after {iterations:,} iterations of CFR+ a perfect opponent "
    "gains {gain:.2g} a match, averaged over seats; the target was {target:.2g}.\n"
)

Shares = Mapping[int, float]  # the probability of each action id
ActionValues = Mapping[tuple[int, str], Mapping[int, float]]  # by (seat, position), what each action id is worth
ExactPolicy = Mapping[tuple[int, str], Shares]  # by (seat, information state) of the game as this project keys it


class CfrPolicy(NamedTuple):
    """What CFR+ has found of a game's equilibrium."""

    shares: Mapping[str, Shares]  # by OpenSpiel's information-state string
    iterations: int
    gain: float  # what a perfect opponent gains a match, averaged over seats
    target: float  # the gain at which it stops

    @property
    def missed(self) -> bool:
        """Whether it ended before it was near enough."""
        return self.gain > self.target


class Random:
    """Draws legal actions uniformly; where free text is asked for, it plays the game's script ``random``."""

    alone, changes, tokens = True, 0, 0

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one uniformly drawn legal reply for each request. Raises UsageError for words that it cannot draw."""
        return [
            Reply(format_reply(request.role, request.legal[int(request.rng.random() * len(request.legal))]))
            if request.legal
            else Reply(self._words(request))
            for request in requests
        ]

    def choices(self, requests: Sequence[ReplyRequest]) -> list[DrawnChoice]:
        """See ``Draws``."""
        return [DrawnChoice([Reply(format_reply(one.role, action)) for action in one.legal]) for one in requests]

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return the uniform distribution over each request's legal actions."""
        return [(1.0 / len(request.legal),) * len(request.legal) for request in requests]

    def beliefs(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...] | None]:
        """Return the uniform distribution over each request's answers."""
        return [*self.distributions(requests)]

    def _words(self, request: ReplyRequest) -> str:
        if request.probe:
            return ""  # it writes nothing for a later prompt
        scripts = request.game.scripts() if isinstance(request.game, HasScripts) else {}
        if "random" not in scripts:
            raise UsageError(
                f"random cannot play {request.game.spec.name}: it draws from a list of legal actions, which free text "
                f"does not have. Use {_known(scripts)}."
            )
        return scripts["random"](request.rng)


class Always:
    """Always plays one action, in games where it is legal at every turn, or always says it where text is free."""

    def __init__(self, action: str) -> None:
        """Play ``action``."""
        self.action = action

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return the action for each request. Raises UsageError where it is not legal."""
        for request in requests:
            if request.probe:
                continue  # what it writes for a later prompt is never read as an action
            if request.form:
                self._check_words(request)
            elif self.action not in request.legal:
                raise UsageError(
                    f"always:{self.action} cannot play {request.game.spec.name}, where {', '.join(request.legal)} are "
                    "legal. Name an action that is legal at every turn."
                )
        return [Reply(format_reply(request.role, self.action, request.form)) for request in requests]

    def _check_words(self, request: ReplyRequest) -> None:
        """Raise UsageError if the position does not read what is always said as an action."""
        asked = request.game.actions()
        if not isinstance(asked, FreeText) or read_free_text(asked, self.action) is None:
            raise UsageError(
                f"always:{self.action} cannot play {request.game.spec.name}, which asks for {request.form} and cannot "
                "read that. Give text that it can read at every turn."
            )


class Script:
    """Plays one of the scripts that a game provides, such as ``optimal`` or ``poor``."""

    def __init__(self, name: str) -> None:
        """Play the script of this name."""
        self.name = name

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return the script's reply to each request. Raises UsageError for a game without such a script."""
        return [Reply(format_reply(request.role, self._action(request), request.form)) for request in requests]

    def beliefs(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...] | None]:
        """Return what the script believes, as its game knows; None where it believes nothing."""
        return [self._belief(request) for request in requests]

    def _belief(self, request: ReplyRequest) -> tuple[float, ...] | None:
        game, seat = request.game, request.role.seat
        known = game.belief(self.name, request.probe, seat) if isinstance(game, GivesBeliefs) else None
        return None if known is None else tuple([known.get(answer, 0.0) for answer in request.legal])

    def _action(self, request: ReplyRequest) -> str:
        game = request.game
        if request.probe:  # a text for a later prompt, which no script knows how to write
            return request.legal[0] if request.legal else ""
        scripts = game.scripts() if isinstance(game, HasScripts) else {}
        if self.name not in scripts:
            known = f"the scripts {', '.join(scripts)}" if scripts else "no scripts"
            use = _known(scripts) if request.form else "random"
            raise UsageError(f"scripted:{self.name} cannot play {game.spec.name}, which has {known}. Use {use}.")
        return scripts[self.name](request.rng)


class Equilibrium:
    """Plays the average policy of CFR+ (Tammelin, 2014, arXiv:1407.5042), as OpenSpiel computes it.

    In a two-seat zero-sum game that is a Nash equilibrium, up to ``TARGET`` or as near as ``MAX_VISITS`` brings it;
    with more seats CFR+ has no such guarantee. Where it ends above the target, an exact equilibrium takes its place if
    there is one, in all information states that it reaches by its own moves; in the others CFR+ plays on, because
    no play there can be exploited. Otherwise standard error shows how far it is. Each game is solved once.
    """

    alone, changes, tokens = True, 0, 0

    def __init__(self, exact: Callable[[GameSpec], ExactPolicy | None] | None = None) -> None:
        """``exact`` returns a game's exact equilibrium where it has one, for information states that it reaches."""
        self._solve_exactly = exact
        self._solutions: dict[str, tuple[CfrPolicy, ExactPolicy]] = {}

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request. Raises UsageError for a game that cannot be solved."""
        return [
            Reply(format_reply(request.role, request.rng.choices(request.legal, weights)[0]))
            for request, weights in zip(requests, self.distributions(requests), strict=True)
        ]

    def choices(self, requests: Sequence[ReplyRequest]) -> list[DrawnChoice]:
        """See ``Draws``; ``random.choices`` draws in the same way. Raises UsageError as ``sample`` does."""
        return [
            DrawnChoice([Reply(format_reply(one.role, action)) for action in one.legal], list(accumulate(weights)))
            for one, weights in zip(requests, self.distributions(requests), strict=True)
        ]

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return the policy over each request's legal actions. Raises UsageError as ``sample`` does."""
        return [self._distribution(request) for request in requests]

    def _distribution(self, request: ReplyRequest) -> tuple[float, ...]:
        game = _openspiel_game(request, "equilibrium")
        if game.spec.name not in self._solutions:
            self._solutions[game.spec.name] = self._solve(game.spec)
        policy, exact = self._solutions[game.spec.name]
        state = game.pyspiel_state()
        seat = state.current_player()
        shares = exact.get((seat, game.information_state(seat))) if exact else None
        shares = shares or policy.shares[state.information_state_string(seat)]
        return tuple([shares[action] for action in game.legal_ids()])

    def _solve(self, spec: GameSpec) -> tuple[CfrPolicy, ExactPolicy]:
        """Return CFR+'s policy, and what takes its place where it missed. Raises UsageError as ``solve_cfr``."""
        policy = solve_cfr(spec.name)
        if not policy.missed:
            return policy, {}
        exact = self._solve_exactly(spec) if self._solve_exactly else None
        if exact is None:
            sys.stderr.write(_MISSED.format(name=spec.name, **policy._asdict()))
        return policy, exact or {}


class Minimax:
    """Plays one of the best actions of a board game, by backward induction over its positions (Zermelo 1913).

    In a free reply it says first what each action comes to, so that a model that imitates it learns to compute before
    it acts: "1 loses, 2 draws, 3 wins, so [3]".
    """

    def __init__(self, values: Callable[[GameSpec], ActionValues]) -> None:
        """``values`` returns what each action is worth in each position of a game, and raises UsageError for a game
        that it cannot solve.
        """
        self._values = values
        self._solved: dict[str, ActionValues] = {}

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request, drawn among the best. Raises UsageError for a game it cannot solve."""
        return [Reply(self._reply(request)) for request in requests]

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return the policy over each request's legal actions: even among the best. Raises UsageError as ``sample``."""
        worths = [self._worth(request) for request in requests]
        return [tuple([(value == max(worth)) / worth.count(max(worth)) for value in worth]) for worth in worths]

    def _worth(self, request: ReplyRequest) -> list[float]:
        """Return what each legal action comes to."""
        game = _openspiel_game(request, "minimax")
        if game.spec.name not in self._solved:
            self._solved[game.spec.name] = self._values(game.spec)
        by_id = self._solved[game.spec.name][game.pyspiel_state().current_player(), game.information_state(0)]
        return [by_id[action] for action in game.legal_ids()]

    def _reply(self, request: ReplyRequest) -> str:
        worth = self._worth(request)
        best = [label for label, value in zip(request.legal, worth, strict=True) if value == max(worth)]
        reply = format_reply(request.role, request.rng.choice(best))
        if request.role.reply is ReplyForm.CHOICE:
            return reply
        said = [f"{label} {_outcome(value)}" for label, value in zip(request.legal, worth, strict=True)]
        return f"{', '.join(said)}, so {reply}"


def _outcome(value: float) -> str:
    return "wins" if value > 0.0 else "loses" if value < 0.0 else "draws"


class Mcts:
    """OpenSpiel's Monte Carlo tree search with random rollouts: UCT (Kocsis and Szepesvari, 2006).

    Every reply is a new search, seeded by the request, so that it does not depend on earlier ones.
    """

    def __init__(self, sims: int) -> None:
        """Search with ``sims`` simulations for each reply."""
        if sims < 1:
            raise UsageError(f"mcts:{sims} does not search: give one simulation or more, for example mcts:100.")
        self.sims = sims

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request. Raises UsageError for a game that cannot be searched."""
        return [Reply(format_reply(request.role, self._search(request))) for request in requests]

    def _search(self, request: ReplyRequest) -> str:
        import pyspiel

        game = _openspiel_game(request, f"mcts:{self.sims}")
        if not game.spec.perfect_information:
            raise UsageError(
                f"mcts needs perfect information, and {game.spec.name} has hidden information. "
                "Use equilibrium or random."
            )
        seed = request.rng.getrandbits(31)
        try:
            bot = pyspiel.MCTSBot(
                game.pyspiel_game, pyspiel.RandomRolloutEvaluator(1, seed), 2.0, self.sims, 100, True, seed, False
            )
        except pyspiel.SpielError as error:
            raise UsageError(f"mcts cannot play {game.spec.name}: {str(error).splitlines()[0]}") from error
        action = bot.step(game.pyspiel_state())
        return request.legal[game.legal_ids().index(action)]


def _known(scripts: Collection[str]) -> str:
    """Return who can play a game that asks for free text."""
    names = [f"scripted:{name}" for name in scripts]
    return f"{' or '.join(names)}, or a language model" if names else "a language model"


@cache
def solve_cfr(name: str) -> CfrPolicy:
    """Return a game's CFR+ average policy. Raises UsageError, saying why, for a game that CFR+ cannot solve here."""
    import pyspiel

    from games.openspiel.game import load_pyspiel

    game = load_pyspiel(name)
    histories = _check_solvable(name, game)
    span = game.max_utility() - game.min_utility()
    solver = pyspiel.CFRPlusSolver(game)
    done, check = 0, FIRST_CHECK
    most = max(1, min(MAX_ITERATIONS, MAX_VISITS // histories))
    while done < most:
        for _ in range(min(check, most) - done):
            solver.evaluate_and_update_policy()
        done, check = min(check, most), 2 * check
        policy = solver.tabular_average_policy()
        gain = pyspiel.nash_conv(game, policy) / game.num_players()
        if gain <= TARGET * span:
            break
    return CfrPolicy({key: dict(pairs) for key, pairs in policy.policy_table().items()}, done, gain, TARGET * span)


def _check_solvable(name: str, game: Any) -> int:
    """Return the number of histories of a ``pyspiel.Game``. Raises UsageError if CFR+ cannot solve the game."""
    kind = game.get_type()
    if kind.utility not in (kind.Utility.ZERO_SUM, kind.Utility.CONSTANT_SUM):
        raise UsageError(
            f"equilibrium is for games in which what one seat wins the others lose; {name} is not one. Use random, "
            "or a trained player."
        )
    if not kind.provides_information_state_string or kind.chance_mode == kind.ChanceMode.SAMPLED_STOCHASTIC:
        raise UsageError(
            f"equilibrium cannot solve {name}: OpenSpiel does not enumerate its chance events or information states."
        )
    count, stack = 0, [game.new_initial_state()]
    while stack:
        state = stack.pop()
        count += 1
        if count > MAX_HISTORIES:
            other = "mcts:100" if kind.information == kind.Information.PERFECT_INFORMATION else "random"
            raise UsageError(
                f"equilibrium solves games of up to {MAX_HISTORIES:,} histories, and {name} has more. Use {other}, or "
                "a smaller version of the game."
            )
        stack.extend(state.child(action) for action in state.legal_actions())
    return count


def _openspiel_game(request: ReplyRequest, player: str) -> OpenSpielGame:
    """Return the request's game, or the one in wrappers that change its words alone.

    Raises UsageError if it is not one of OpenSpiel's.
    """
    from games.openspiel.game import OpenSpielGame
    from games.openspiel.undealt import UndealtGame
    from games.wrappers.wrapper import unwrapped

    game = unwrapped(request.game)
    game = game.dealt() if isinstance(game, UndealtGame) else game
    if not isinstance(game, OpenSpielGame):
        use = "a script of it, or a language model" if request.form else "random"
        raise UsageError(f"{player} plays OpenSpiel's games only, and {request.game.spec.name} is not one. Use {use}.")
    return game
