"""Every Game as a PettingZoo AECEnv (Terry et al., 2021, arXiv:2009.14471).

    from games.pettingzoo import env
    table = env("kuhn_poker(players=3)")

An observation is a Dict of ``observation`` (the seat's information-state or observation tensor where
OpenSpiel has one, else the mask), ``action_mask`` (int8, over ``range(spec.num_actions)``; all zero
for a seat that is not to act) and ``text`` (of ``Game.observe``); with ``text=False`` it has arrays alone, which is
what other libraries' loaders take. An agent's rewards sum to its return. The info of the agent to act has the names
of its legal actions, ``action_names``, by id. The matches that a match opens for other roles are played by
``Teammates``. Simultaneous moves are in ``games.pettingzoo_parallel``; an environment of others is a game by
``games.outside.pettingzoo_game``.

A game that asks for free text has ``Text`` action spaces at all its turns: the action is what the seat says, and at a
turn with a list of choices it is the label of one. An observation is then a Dict of ``text`` and ``answer``, which says
what an answer looks like and is empty for a seat that is not to act; there is no mask.
"""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers

from games.common.errors import UsageError
from games.registry import make_game
from games.spec import Attempt, Choices, FreeText, Game, OpensSubmatches, Submatch, choice_game, tell_of_submatches
from games.tensors import seat_tensor

TEXT_LENGTH = 65_536  # characters; a bound that the text space must have, far above any observation
SPEECH_LENGTH = 4096  # characters of one free text, likewise; a game may read fewer
# The characters of observations: ASCII, and those of OpenSpiel's boards, arrows and playing cards.
_DRAWINGS = (range(0x1B, 0x1C), range(0x2190, 0x2600), range(0x2660, 0x2670), range(0x1F0A0, 0x1F100))
CHARSET = frozenset(string.printable).union(chr(code) for codes in _DRAWINGS for code in codes)


class Teammates(Protocol):
    """Plays the matches that a match opens for other roles, which are not agents of its environment."""

    def play(self, submatches: Sequence[Submatch], seed: int, first: int) -> Sequence[Attempt]:
        """Play matches side by side and return how they ended, in order.

        ``seed`` belongs to the match that opened them, and ``first`` how many it had opened before.
        """
        ...

    def close(self) -> None:
        """Free what plays them."""
        ...


def env(
    name: str, render_mode: str | None = None, teammates: Teammates | None = None, *, text: bool = True
) -> AECEnv[str, Any, Any]:
    """Return the environment in PettingZoo's usual wrappers; ``text=False`` leaves text out of observations.

    An illegal action ends the match with a warning and costs its seat ``spec.min_return``; an action
    outside the action space fails an assertion. Raises UsageError for a wrong name, and for a game whose matches open
    matches for other roles without ``teammates`` who play them.
    """
    inner = raw_env(name, render_mode, teammates, text=text)
    if inner.spec.free_text:  # the other wrappers want a mask, or a Discrete or Box space
        return wrappers.OrderEnforcingWrapper(_ForfeitIllegal(inner))
    legal_only = wrappers.TerminateIllegalWrapper(inner, illegal_reward=inner.spec.min_return)
    return wrappers.OrderEnforcingWrapper(wrappers.AssertOutOfBoundsWrapper(legal_only))


class raw_env(AECEnv[str, Any, Any]):  # type: ignore[misc]  # noqa: N801  # PettingZoo's name for it
    """The environment itself: ``step`` raises ValueError for an illegal action.

    ``reset(seed=s)`` starts the match of ``Game.reset(s)``; without a seed the next match's seed is
    drawn from a generator that the last seed initialised. ``options`` are accepted and have no effect.
    """

    def __init__(
        self, name: str, render_mode: str | None = None, teammates: Teammates | None = None, *, text: bool = True
    ) -> None:
        super().__init__()
        self.metadata = {"name": name, "render_modes": ["ansi"], "is_parallelizable": False}
        self.render_mode = render_mode
        self._game = make_game(name)
        self.spec = self._game.spec
        if self.spec.free_text and not text:
            raise UsageError(f"{name} asks for free text, which an observation without text cannot show: text=True.")
        self._text = text
        self._teammates, self._opened, self._match_seed = teammates, 0, 0
        if self.spec.submatch_games and teammates is None:
            raise UsageError(
                f"{name} opens matches of {', '.join(self.spec.submatch_games)}, whose seats are no agents of this "
                "environment: say who plays them, as league.pettingzoo_env(name, players={ROLE: PLAYER}) does."
            )
        self._tensor = seat_tensor(self._game)
        self._seeds = random.Random()
        self.possible_agents = [f"seat_{seat}" for seat in range(self.spec.seats)]
        self._seat = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self.agents: list[str] = []
        actions: gymnasium.spaces.Space[Any] = (
            gymnasium.spaces.Text(SPEECH_LENGTH, min_length=0, charset=CHARSET)
            if self.spec.free_text
            else gymnasium.spaces.Discrete(self.spec.num_actions)
        )
        self.action_spaces = dict.fromkeys(self._seat, actions)
        self.observation_spaces = {agent: self._observation_space() for agent in self._seat}

    @property
    def game(self) -> Game:
        """The match in progress, to be read only: a language model needs its texts."""
        return self._game

    def action_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        """Return the agent's action space: the ids of ``Game.actions``, or Text."""
        return self.action_spaces[agent]

    def observation_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        """Return the agent's observation space, a Dict."""
        return self.observation_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a new match."""
        if seed is not None:
            self._seeds = random.Random(seed)
        self._match_seed, self._opened = self._seeds.getrandbits(63) if seed is None else seed, 0
        self._game.reset(self._match_seed)
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._skip_agent_selection = None
        self._select()

    def step(self, action: Any) -> None:
        """Play an action id, or words, for the agent to act; None removes an agent whose match is over."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._game.apply(self._label(action))
        if self._teammates is not None and isinstance(self._game, OpensSubmatches):
            opened = self._game.submatches()
            if opened:
                tell_of_submatches(self._game, self._teammates.play(opened, self._match_seed, self._opened))
            self._opened += len(opened)
        self._cumulative_rewards[agent] = 0.0
        self.rewards = dict(zip(self.possible_agents, self._game.rewards(), strict=True))
        self._accumulate_rewards()
        self._select()

    def observe(self, agent: str) -> dict[str, Any]:
        """Return a new Dict observation of the position as the agent sees it."""
        seat = self._seat[agent]
        if self.spec.free_text:
            return {"text": self._game.observe(seat), "answer": self._answer(seat)}
        mask = np.zeros(self.spec.num_actions, dtype=np.int8)
        if seat == self._game.to_act():
            mask[list(choice_game(self._game).legal_ids())] = 1
        numbers = mask.astype(np.float32) if self._tensor is None else self._tensor.values(seat)
        seen: dict[str, Any] = {"observation": numbers, "action_mask": mask}
        return seen | ({"text": self._game.observe(seat)} if self._text else {})

    def forfeit(self) -> None:
        """End the match at the cost of the agent to act."""
        seat = self._game.to_act()
        assert seat is not None, "the match is over"
        loser = self.possible_agents[seat]
        self._cumulative_rewards[loser] = 0.0
        self.terminations = dict.fromkeys(self.agents, True)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.rewards[loser] = self.spec.min_return - self._game.returns()[seat]
        self._accumulate_rewards()
        self.agent_selection = self.agents[0]

    def render(self) -> str | None:
        """Return the observation of the agent to act, if the render mode is "ansi"."""
        return self._game.observe(self._seat[self.agent_selection]) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Close the teammates; there is no window."""
        if self._teammates is not None:
            self._teammates.close()

    def _select(self) -> None:
        seat = self._game.to_act()
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        if seat is None:
            self.terminations = dict.fromkeys(self.agents, True)
            self.agent_selection = self.agents[0]
        else:
            self.agent_selection = self.possible_agents[seat]
            if isinstance(actions := self._game.actions(), Choices):
                names = dict(zip(actions.ids, actions.labels, strict=True))
                self.infos[self.agent_selection] = {"action_names": names}

    def _label(self, action: Any) -> str:
        actions = self._game.actions()
        if isinstance(actions, FreeText):
            read = actions.read(action) if len(action) <= actions.most_characters else None
            if read is None:
                raise ValueError(f"{action[:80]!r} of {self.agent_selection} cannot be read; say {actions.form}")
            return read
        if self.spec.free_text:
            if action not in actions.labels:
                raise ValueError(f"{action[:80]!r} of {self.agent_selection} is not one of {list(actions.labels)}")
            return str(action)
        if action not in actions.ids:
            raise ValueError(f"action {action} of {self.agent_selection} is not legal here; legal: {list(actions.ids)}")
        return actions.labels[actions.ids.index(action)]

    def _answer(self, seat: int) -> str:
        """Return what an answer of the seat looks like; "" where it is not its turn."""
        if seat != self._game.to_act():
            return ""
        actions = self._game.actions()
        return actions.form if isinstance(actions, FreeText) else f"one of: {', '.join(actions.labels)}"

    def _observation_space(self) -> gymnasium.spaces.Dict:
        text = gymnasium.spaces.Text(TEXT_LENGTH, min_length=0, charset=CHARSET)
        if self.spec.free_text:
            return gymnasium.spaces.Dict({"text": text, "answer": text})
        actions = self.spec.num_actions
        shape = (actions,) if self._tensor is None else self._tensor.shape
        spaces: dict[str, gymnasium.spaces.Space[Any]] = {
            "observation": gymnasium.spaces.Box(-np.inf, np.inf, shape, np.float32),
            "action_mask": gymnasium.spaces.Box(0, 1, (actions,), np.int8),
        }
        return gymnasium.spaces.Dict(spaces | ({"text": text} if self._text else {}))


class _ForfeitIllegal(wrappers.BaseWrapper[str, Any, Any]):  # type: ignore[misc]
    """Ends a match with a warning where words cannot be read; it costs their seat ``spec.min_return``.

    What PettingZoo's TerminateIllegalWrapper does of actions that have a mask.
    """

    def step(self, action: Any) -> None:
        """Play, or end the match."""
        agent = self.agent_selection
        live = not (self.terminations[agent] or self.truncations[agent])
        if live and not self.action_space(agent).contains(action):
            raise AssertionError(f"the action of {agent} is not in its space, {self.action_space(agent)}")
        try:
            super().step(action)
        except ValueError as error:
            if not live:
                raise
            gymnasium.logger.warn("Illegal move made, game terminating with current player losing: %s", error)
            self.unwrapped.forfeit()
