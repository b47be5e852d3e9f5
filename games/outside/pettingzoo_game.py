"""Any PettingZoo AEC environment with discrete actions as a Game (Terry et al., 2021, arXiv:2009.14471).

    make_game("pettingzoo:pettingzoo.classic.tictactoe_v3")
    make_game("pettingzoo:my_envs.auction(least=-5,longest=40,most=5,seats=3)")

The name is a module of PettingZoo's, a module of a plugin that the user chose, or an environment that a plugin has
registered. Parameters in parentheses that are not fields of ``Facts`` go to its constructor. From Python,
``PettingZooGame(name, make, facts, words)`` is a match of any environment.

At the border: agents that are out are stepped over; a seat's rewards are all that the environment paid it, until it was
out; a match ends when no agent is left, when the environment truncates it, or after ``Facts.longest`` turns. A copy is
the same seed and the same actions played again, in an environment of its own, whatever the library draws from.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import gymnasium
import numpy as np

from games.common import plugins
from games.common.errors import UsageError
from games.outside.facts import Facts, check_returns, with_named
from games.outside.names import OutsideName, read_name
from games.outside.pettingzoo_words import KNOWN, PLAIN, Words
from games.outside.private_random import PrivateRandom
from games.spec import Choices, GameSpec

CONSTRUCTORS = ("env", "raw_env", "parallel_env")  # of a module's environment, as PettingZoo calls them
EXAMPLE = "pettingzoo:pettingzoo.classic.tictactoe_v3"
_NOTHING, _UNKNOWN = Choices((), ()), Facts()


class _Rules(NamedTuple):
    """What all matches of one environment share."""

    make: Callable[[], Any]  # of an AECEnv
    facts: Facts
    words: Words
    spec: GameSpec
    agents: tuple[str, ...]  # by seat
    starts: tuple[int, ...]  # each agent's first action in its Discrete space


class PettingZooGame:
    """One match in a new environment from ``make``. Raises UsageError for one that cannot be a Game."""

    _rules: _Rules

    def __init__(self, name: str, make: Callable[[], Any], facts: Facts = _UNKNOWN, words: Words = PLAIN) -> None:
        self._start(_rules(name, make, facts, words))

    @classmethod
    def _of(cls, rules: _Rules) -> Self:
        match = cls.__new__(cls)
        match._start(rules)
        return match

    def _start(self, rules: _Rules) -> None:
        self._rules = rules
        self._env: Any = None  # None: to be made and played as far as ``_played``
        self.reset(0)

    @property
    def spec(self) -> GameSpec:
        """The facts about this game."""
        return self._rules.spec

    def reset(self, seed: int) -> None:
        """Start a new match; ``seed`` fixes every chance event in it."""
        if self._env is None:
            self._env = self._rules.make()
        self._seed, self._played = seed, tuple[int, ...]()
        self._random = PrivateRandom(seed)
        self._seen: tuple[tuple[str, ...], ...] = ((),) * len(self._rules.agents)  # lines by seat, of earlier turns
        self._last: tuple[str | None, ...] = (None,) * len(self._rules.agents)  # what a seat saw when it was out
        self._rewards = self._returns = (0.0,) * len(self._rules.agents)
        with self._random:
            self._env.reset(seed=seed % 2**31)  # environments hand it to generators that take no more
            self._settle()

    def to_act(self) -> int | None:
        """Return the seat whose turn it is, or None when the match is over."""
        return self._seat

    def actions(self) -> Choices:
        """Return the actions that the environment's mask leaves, all of them where it has none."""
        return self._choices

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions as distinct strings, in the order of their ids."""
        return self._choices.labels

    def legal_ids(self) -> tuple[int, ...]:
        """Return the ids of ``legal_actions()``, counted from 0."""
        return self._choices.ids

    def observe(self, seat: int) -> str:
        """Return what a seat sees, and, unless that shows all, what it saw and chose at its earlier turns."""
        now = self._last[seat]
        if now is None:
            now = self._words_of(self._live(), seat)
        return "\n".join((*self._seen[seat], now))

    def information_state(self, seat: int) -> str:
        """Return the seat, whether it is its turn, and what it sees."""
        return f"{seat} {self._seat == seat} {self.observe(seat)}"

    def apply(self, action: str) -> None:
        """Play a legal action. Raises ValueError for any other string."""
        if action not in self._choices.labels:
            raise ValueError(f"{action!r} is not legal here; legal: {list(self._choices.labels)}")
        self._play(self._choices.ids[self._choices.labels.index(action)], action)

    def rewards(self) -> tuple[float, ...]:
        """Return what the last action paid to each seat."""
        return self._rewards

    def returns(self) -> tuple[float, ...]:
        """Return what was paid to each seat so far."""
        return self._returns

    def least_returns(self) -> tuple[float, ...]:
        """Return the game's lowest return for each seat: to look further would play the match again for each course."""
        return (self.spec.min_return,) * self.spec.seats

    def copy(self) -> Self:
        """Return an independent match that stands here too; it is played again when it is first needed."""
        match = type(self).__new__(type(self))
        match.__dict__.update(self.__dict__)
        match._env = None
        return match

    def _live(self) -> Any:
        """Return the environment at this position."""
        if self._env is None:
            env, self._random = self._rules.make(), PrivateRandom(self._seed)
            with self._random:
                env.reset(seed=self._seed % 2**31)
                _step_over(env)
                for identity in self._played:
                    seat = self._rules.agents.index(env.agent_selection)
                    env.step(identity + self._rules.starts[seat])
                    _step_over(env)
            if self._at(env) != (self._seat, self._choices):
                raise UsageError(
                    f"{self.spec.name} does not repeat: the same seed and actions led elsewhere, so it draws from a "
                    "generator that its reset does not seed. Fix the environment."
                )
            self._env = env
        return self._env

    def _play(self, identity: int, label: str) -> None:
        env, seat = self._live(), self._seat
        assert seat is not None, "the match is over"
        if not self._rules.facts.perfect:
            seen = (*self._seen[seat], self._words_of(env, seat), f"You chose: {label}\n")
            self._seen = (*self._seen[:seat], seen, *self._seen[seat + 1 :])
        with self._random:
            env.step(identity + self._rules.starts[seat])
            self._rewards = tuple([float(env.rewards.get(agent, 0.0)) for agent in self._rules.agents])
            self._returns = tuple([sum(pair) for pair in zip(self._returns, self._rewards, strict=True)])
            self._played = (*self._played, identity)
            self._settle()
        if self._seat is None:
            check_returns(self.spec.name, self._rules.facts, self._returns)

    def _settle(self) -> None:
        """Step over agents that are out, and see whose turn it is."""
        _step_over(self._env, self._leave)
        self._seat, self._choices = self._at(self._env)

    def _leave(self, agent: str) -> None:
        """Keep what an agent that is out sees: it may not be asked again."""
        seat = self._rules.agents.index(agent)
        self._last = (*self._last[:seat], self._words_of(self._env, seat), *self._last[seat + 1 :])

    def _at(self, env: Any) -> tuple[int | None, Choices]:
        """Return whose turn it is where an environment stands, and the choices."""
        if not env.agents or len(self._played) >= self._rules.facts.longest:
            return None, _NOTHING
        seat = self._rules.agents.index(env.agent_selection)
        return seat, _choices(env, seat, self._rules)

    def _words_of(self, env: Any, seat: int) -> str:
        return self._rules.words.observation(env.observe(self._rules.agents[seat]), seat)


def pettingzoo_game(text: str) -> PettingZooGame:
    """Return a match of the environment with this name."""
    return PettingZooGame._of(_rules_of(str(read_name(text))))


@functools.cache
def _rules_of(text: str) -> _Rules:
    name = read_name(text)
    known = KNOWN.get(name.game)
    facts, own = with_named(Facts() if known is None else known.facts, name)
    make = functools.partial(_maker(name), **own)
    return _rules(text, make, facts, PLAIN if known is None or own else known.words)


def _maker(name: OutsideName) -> Callable[..., Any]:
    """Return the constructor that a name means, before anything is imported or called that nobody has chosen.

    Names come from strangers' files. They mean an environment that a plugin registered, or one of ``CONSTRUCTORS`` in a
    module of PettingZoo's or of a plugin that the person chose. Raises UsageError for all others.
    """
    module, _, constructor = name.game.rpartition(".")
    if constructor not in CONSTRUCTORS:
        module, constructor = name.game, CONSTRUCTORS[0]
    plugin = plugins.chosen_for(module)
    if plugin is not None:
        plugins.require([plugin])
    registered = [plugins.lookup("environments", written) for written in (name.game, f"{module}.{constructor}")]
    if made := next(filter(None, registered), None):
        return made  # type: ignore[no-any-return]
    if not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"There is no environment {name.game!r}: it is written as for import, {EXAMPLE}.")
    if plugin is None and not module.startswith("pettingzoo."):
        package = module.partition(".")[0]
        raise UsageError(
            f"{name} would run code of {module}, which is not part of PettingZoo and may be written by anyone. If "
            f"you trust that module, add --plugin {package}. From Python, register the environment with "
            "games.registry.register_environment."
        )
    try:
        found = getattr(importlib.import_module(module), constructor, None)
    except ImportError as error:
        if error.name is not None and not f"{module}.".startswith(f"{error.name}."):  # something that it needs itself
            raise UsageError(f"{name} needs the package {error.name}, which is not installed.") from None
        found = None
    if not callable(found) or (plugin is None and not str(getattr(found, "__module__", "")).startswith("pettingzoo.")):
        raise UsageError(
            f"There is no environment {name.game!r}: it is neither a module with a function env, raw_env or "
            f"parallel_env, as {EXAMPLE}, nor a function that a plugin has registered "
            "(games.registry.register_environment)."
        )
    return found  # type: ignore[no-any-return]


def _rules(name: str, make: Callable[[], Any], facts: Facts, words: Words) -> _Rules:
    """Return what matches share. Raises UsageError for an environment that cannot be a Game."""
    env = _made(name, make)
    agents = tuple(getattr(env, "possible_agents", ()))
    if not agents or not hasattr(env, "agent_selection"):
        raise UsageError(f"{name} is no AEC environment: it should have possible_agents, and an agent_selection.")
    spaces = [env.action_space(agent) for agent in agents]
    for agent, space in zip(agents, spaces, strict=True):
        if not isinstance(space, gymnasium.spaces.Discrete):
            raise UsageError(f"{name} cannot be a game of choices: the actions of {agent} are {space}, not Discrete.")
    spec = GameSpec(
        name=name,
        seats=len(agents),
        num_actions=max(int(space.n) for space in spaces),
        max_turns=facts.longest,
        min_return=float(facts.least),
        max_return=float(facts.most),
        utility=facts.motive,
        perfect_information=facts.perfect,
        has_chance=not facts.perfect,
    )
    return _Rules(make, facts, words, spec, agents, tuple(int(space.start) for space in spaces))


def _made(name: str, make: Callable[[], Any]) -> Any:
    """Return an environment, started. Raises UsageError if the library refuses."""
    try:
        with PrivateRandom(0):
            env = make()
            env.reset(seed=0)
    except (TypeError, ValueError, AssertionError, AttributeError) as error:
        raise UsageError(f"{name} cannot be made: {type(error).__name__}: {error}") from error
    return env


def _step_over(env: Any, leave: Callable[[str], None] = lambda _: None) -> None:
    """Remove agents that are out, and report each one first."""
    while env.agents and (env.terminations[env.agent_selection] or env.truncations[env.agent_selection]):
        leave(env.agent_selection)
        env.step(None)


def _choices(env: Any, seat: int, rules: _Rules) -> Choices:
    """Return the choices of the agent to act: by the mask of its observation or of its info."""
    agent = rules.agents[seat]
    seen, info = env.observe(agent), env.infos.get(agent, {})
    mask = seen.get("action_mask") if isinstance(seen, dict) else None
    if mask is None:
        mask = info.get("action_mask")
    count = int(env.action_space(agent).n)
    ids = range(count) if mask is None else np.flatnonzero(mask).tolist()
    names = info.get("action_names")
    labels = tuple(
        [str(names[identity + rules.starts[seat]]) if names else rules.words.action(identity) for identity in ids]
    )
    if not labels or len(set(labels)) < len(labels):
        what = "has two actions with the same name" if labels else "has no legal action in its mask"
        raise UsageError(f"{rules.spec.name}: {agent} is to act but {what}: {list(labels)}. Fix the environment.")
    return Choices(labels, tuple(ids))
