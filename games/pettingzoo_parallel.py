"""Games of simultaneous moves as PettingZoo ParallelEnvs: all agents act in one step.

    from games.pettingzoo_parallel import parallel_env
    table = parallel_env("goofspiel(num_cards=4)")

Observations and infos are those of ``games.pettingzoo``. In a round in which not all seats are asked, the mask of those
that are not is all zero, and their action, whatever it is, is ignored.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from pettingzoo import ParallelEnv

from games.common.errors import UsageError
from games.openspiel.game import OpenSpielGame
from games.pettingzoo import raw_env
from games.spec import Choices, choice_game

Observations = dict[str, dict[str, Any]]
Infos = dict[str, dict[str, Any]]


def parallel_env(name: str, render_mode: str | None = None, *, text: bool = True) -> parallel_raw_env:
    """Return the environment; ``step`` raises ValueError for an illegal action.

    Raises UsageError for a wrong name, and for a game whose seats move one after another.
    """
    return parallel_raw_env(name, render_mode, text=text)


class parallel_raw_env(ParallelEnv[str, Any, Any]):  # type: ignore[misc]  # noqa: N801  # as PettingZoo's names are
    """The environment itself; ``reset`` works as in ``raw_env``."""

    def __init__(self, name: str, render_mode: str | None = None, *, text: bool = True) -> None:
        self._table = raw_env(name, render_mode, text=text)
        game = self._table.game
        if not (isinstance(game, OpenSpielGame) and hasattr(game.pyspiel_state(), "simultaneous_game_state")):
            raise UsageError(
                f"The seats of {name} move one after another, so it is not a parallel environment: use "
                "games.pettingzoo.env. Simultaneous moves have, for example, goofspiel(num_cards=4) and matrix_rps."
            )
        self.metadata = {"name": name, "render_modes": ["ansi"], "is_parallelizable": True}
        self.render_mode = render_mode
        self.spec = self._table.spec
        self.possible_agents = self._table.possible_agents
        self.agents: list[str] = []
        self._asked: dict[str, Choices] = {}  # what each agent of this round may do

    def action_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        """Return the agent's action space."""
        return self._table.action_space(agent)

    def observation_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        """Return the agent's observation space, a Dict."""
        return self._table.observation_space(agent)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Infos]:
        """Start a new match; return each agent's observation and info."""
        self._table.reset(seed, options)
        self.agents = self.possible_agents[:]
        return self._observe()

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Play one round: the action of every agent that is asked, all chosen without knowing the others'."""
        rewards = dict.fromkeys(self.agents, 0.0)
        for agent in self._asked:
            self._table.step(actions[agent])
            for other, reward in self._table.rewards.items():
                rewards[other] += reward
        over = self._table.game.to_act() is None
        agents = self.agents
        observations, infos = self._observe()
        self.agents = [] if over else agents
        return observations, rewards, dict.fromkeys(agents, over), dict.fromkeys(agents, False), infos

    def render(self) -> str | None:
        """Return the observation of the first agent that is asked, if the render mode is "ansi"."""
        return self._table.render() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Do nothing: there is no window and no other process."""

    def _observe(self) -> tuple[Observations, Infos]:
        """Find who is asked in this round; return each agent's observation and info."""
        self._asked = self._round()
        observations = {agent: self._table.observe(agent) for agent in self.agents}
        infos: Infos = {agent: {} for agent in self.agents}
        for agent, choices in self._asked.items():
            mask = np.zeros(self.spec.num_actions, dtype=np.int8)
            mask[list(choices.ids)] = 1
            observations[agent]["action_mask"] = mask
            infos[agent] = {"action_names": dict(zip(choices.ids, choices.labels, strict=True))}
        return observations, infos

    def _round(self) -> dict[str, Choices]:
        """Return what each agent that is asked in this round may do, in the order in which the game asks them.

        Nobody observes what the others choose in a round, so on a copy any choice of theirs leads to the next one.
        """
        game = choice_game(self._table.game.copy())
        assert isinstance(game, OpenSpielGame)
        state = game.pyspiel_state()  # to be kept: what it gives out lies within it
        together = game.to_act() is not None and state.simultaneous_game_state().is_simultaneous_node()
        asked: dict[str, Choices] = {}
        last = -1
        while (seat := game.to_act()) is not None and seat > last:
            choices = game.actions()
            asked[self.possible_agents[seat]] = choices
            if not together:
                break
            game.apply(choices.labels[0])
            last = seat
        return asked
