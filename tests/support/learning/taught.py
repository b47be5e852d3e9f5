"""Short runs that are taught, and what their teachers say."""

from __future__ import annotations

from pathlib import Path

from arena.records import MatchRequest, flatten_episodes
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from games.registry import make_game
from league.config.context import run_context
from league.config.load import load
from league.population.players.engines import Engines
from league.training.evidence.teachers import Teachers
from league.training.learning.policies import start_policies
from learners.trajectories import Evidence, to_trajectories
from support.processes.runs import TINY, contents


def config(tmp_path, *overrides):
    """Return the settings of a run of two iterations, with overrides."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return load(str(path), ["iterations=2", "snapshot_every=1", *overrides])


def learned(run):
    """Return what is in a run's files, but for its configuration."""
    return {name: data for name, data in contents(run.path).items() if name != "config.toml"}


def advised(settings, matches=64):
    """Return trajectories of a new policy's matches with itself, and the evidence that its teachers give."""
    context = run_context(settings, Path())
    policies, roles = start_policies(context), context.roles
    with Engines() as engines:
        engine = TorchLM()
        for name, policy in policies.items():
            engine.add(name, policy.lm)
        requests = [
            MatchRequest(i, "kuhn_poker", i, 2 * i, tuple(r.policy for r in roles["kuhn_poker"]), (True, True))
            for i in range(matches)
        ]
        episodes = play(requests, roles_of=roles.__getitem__, engine_of=lambda _: engine, make_game=make_game)
        trajectories = to_trajectories(flatten_episodes(episodes), roles.__getitem__, {"kuhn_poker": 1.0})
        teachers = Teachers(context, engines, policies)
        advised = teachers.advise({episode.request.index: episode for episode in episodes}, trajectories)
        return trajectories, [Evidence(taught=said) for said in advised]
