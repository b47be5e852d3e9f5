"""A policy that gets other weights keeps nothing of its old ones: no baseline, critic, gathered turns or alarms."""

from types import SimpleNamespace

import pytest
import torch
from support.learning.trajectories import trajectory
from support.matches.kuhn import CHOICE, engine_with, kuhn_pocket, self_play

from league.config import RunConfig
from league.config.context import run_context
from league.population.results.payoffs import Result
from league.population.storage.members import MetaStrategy
from league.training.checkpoints.run_state import new_state
from league.training.learning.iteration import credit_turns
from league.training.snapshots.exploiter_cycle import reset_exploiter, reset_weights, save_initial_weights
from league.training.snapshots.freeze import Snapshots
from learners.trajectories import Evidence
from learners.trajectory_buffer import TrajectoryBuffer
from learners.update.critic import Critic
from learners.update.policy import Policy

CRITIC = SimpleNamespace(hidden_size=8, learning_rate=1e-2, steps=5, value_clip=None)
ROLES = ("kuhn_poker/first", "kuhn_poker/second")


def critic_of(lm):
    return Critic(lm.model.config.hidden_size, ROLES, CRITIC, seed=3)


@pytest.fixture
def state(tmp_path):
    """Return the state of a run whose exploiter, probe, has learned for a while, and its configuration."""
    lms = {name: kuhn_pocket(seed) for seed, name in enumerate(("main", "probe"))}
    policies = {
        name: Policy(name, lm, weight_decay=0.0, magnet=False, critic=critic_of(lm)) for name, lm in lms.items()
    }
    config = RunConfig(games={"kuhn_poker": {}}, policies={"probe": {"league_role": "main_exploiter"}})
    save_initial_weights(tmp_path, [policies["probe"]])
    state = new_state(config, tmp_path, policies)
    for _ in range(200):
        credited(config, state, {"main": 0.25, "probe": 0.8})
    matches = self_play(lms["probe"], 4, CHOICE)
    for policy in policies.values():
        policy.critic.fit(policy.lm, matches, [[1.0] * len(t.turns) for t in matches])
    state.pending = {name: TrajectoryBuffer(1, matches, [Evidence()] * len(matches)) for name in policies}
    state.alarms = {
        "roles": {f"kuhn_poker/first/{name}": {"warmup": [], "recent": [], "subject": name} for name in policies},
        "entropies": {name: [0.0] for name in policies},
        "windows": {f"kuhn_poker/first/{name}": [[4, 4, 4, "bet", 4, 3]] for name in policies},
        "ringing": [["entropy", name, "it fell", 3] for name in policies],
    }
    return config, state, matches


def credited(config, state, returns):
    """Return the mean advantage of each policy where it gets this return in every match of an iteration."""
    batch = [trajectory([total], policy=name) for name, total in returns.items() for _ in range(4)]
    advantages = credit_turns(config, state, batch, [Evidence()] * len(batch)).advantages
    return {name: sum(advantages[4 * i + k][0] for k in range(4)) / 4 for i, name in enumerate(returns)}


def test_the_mean_advantage_of_a_new_exploiter_is_what_it_earns(state, tmp_path):
    """The old one came to 0.8 a match. Of a new one that earns 0, every advantage would be -0.8, and -0.29 after 20."""
    config, state, _ = state
    state.policies["probe"].lm.model.lm_head.weight.data.mul_(2.0)
    state.population.add("main", 0, None, kuhn_pocket(1).save)
    state.payoffs.apply([Result("probe", "main", "kuhn_poker", "first", 10, 8.0, 8.0, 9.0, 3)])
    reset_exploiter(run_context(config, tmp_path), state, "probe")
    assert state.payoffs.pair_record("probe", "main", "kuhn_poker") == (0.5, 0.0), "the new one has met nobody"
    assert state.resets == {"probe": 3}
    assert credited(config, state, {"main": 0.25, "probe": 0.0}) == pytest.approx({"main": 0.0, "probe": 0.0}, abs=1e-3)
    models = (state.policies["probe"].lm.model, kuhn_pocket(1).model)
    for weight, initial in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(weight, initial)


def test_all_that_belonged_to_the_old_weights_goes_and_other_policies_keep_theirs(state):
    _, state, matches = state
    probe, main = state.policies["probe"], state.policies["main"]
    kept = {name: tensor.clone() for name, tensor in main.critic.tensors().items()}
    assert any(value for values in probe.critic.values(probe.lm, matches) for value in values)
    reset_weights(state, "probe", kuhn_pocket(5).parameters())
    assert all(value == 0.0 for values in probe.critic.values(probe.lm, matches) for value in values)
    new, fresh = probe.critic.tensors(), critic_of(probe.lm).tensors()
    assert new.keys() == fresh.keys(), "its optimiser has no state"
    assert all(torch.equal(new[name], fresh[name]) for name in fresh)
    assert all(torch.equal(kept[name], tensor) for name, tensor in main.critic.tensors().items())
    assert set(state.pending) == set(state.alarms["entropies"]) == {"main"}
    assert set(state.credit["rae"]) == set(state.alarms["roles"]) == {"kuhn_poker/first/main"}
    assert set(state.alarms["windows"]) == {"kuhn_poker/first/main"}
    assert state.alarms["ringing"] == [["entropy", "main", "it fell", 3]]
    probe.critic.fit(probe.lm, matches, [[1.0] * len(t.turns) for t in matches])
    reset_weights(state, "probe", kuhn_pocket(5).parameters())
    assert all(torch.equal(probe.critic.tensors()[name], fresh[name]) for name in fresh), "a second time, too"


def test_a_responder_that_goes_back_to_its_first_snapshot_begins_anew(state, tmp_path):
    config, state, _ = state
    main = state.policies["main"]
    for iteration in (0, 2):
        state.population.add("main", iteration, None, main.lm.save)
        main.lm.model.lm_head.weight.data.mul_(2.0)
    config = config.model_copy(update={"matchmaking": config.matchmaking.model_copy(update={"response_from": "first"})})
    snapshots = Snapshots(run_context(config, tmp_path), state, engine_with(), None)
    meta = MetaStrategy(weights={"main-000000": 1.0})
    snapshots._reset_responders(SimpleNamespace(game="kuhn_poker"), meta)
    assert torch.equal(main.lm.model.lm_head.weight, kuhn_pocket(0).model.lm_head.weight)
    assert set(state.credit["rae"]) == set(state.alarms["roles"]) == {"kuhn_poker/first/probe"}
    assert set(state.pending) == {"probe"}
