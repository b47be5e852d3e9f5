"""The critic against exact turn values of Kuhn poker, and what its targets and its state must satisfy."""

import copy
import statistics
from collections import defaultdict
from types import SimpleNamespace

import pyspiel
import pytest
import torch
from support.learning.trajectories import credit
from support.matches.kuhn import CHOICE, FREE, SPEC, engine_with, kuhn_pocket, roles_for, self_play

from games.common.errors import UsageError
from league.population.players.player import Player
from learners.trajectories import Evidence, return_scale
from learners.update.critic import Critic, critic_targets, squared_errors

ROLES = ("kuhn_poker/first", "kuhn_poker/second")


def settings(**changes):
    return SimpleNamespace(**{"hidden_size": 32, "learning_rate": 1e-2, "steps": 100, "value_clip": None, **changes})


def critic_of(lm, **changes):
    return Critic(lm.model.config.hidden_size, ROLES, settings(**changes), seed=0)


def exact_values(lm):
    """Return by (role, observation) what the seat earns from there on if the model plays both seats.

    The whole tree is counted out: each history weighs with its probability, chance and both seats' replies.
    """
    engine = engine_with(main=lm)
    player = Player("main", SPEC, engine, roles_for(), ((("main", 1.0),),) * 2)
    table = player.tabulate(0, 100).table.probabilities
    reach, worth = defaultdict(float), defaultdict(float)

    def walk(state, probability):
        if state.is_terminal():
            return state.returns()
        if state.is_chance_node():
            branches = state.chance_outcomes()
        else:
            seat = state.current_player()
            key = seat, state.information_state_string(seat)
            branches = list(zip(state.legal_actions(), table[key], strict=True))
        totals = [0.0, 0.0]
        for action, share in branches:
            returns = walk(state.child(action), probability * share)
            totals = [total + share * gain for total, gain in zip(totals, returns, strict=True)]
        if not state.is_chance_node():
            reach[key] += probability
            worth[key] += probability * totals[seat]
        return totals

    walk(pyspiel.load_game("kuhn_poker").new_initial_state(), 1.0)
    return {key: worth[key] / reach[key] / return_scale(SPEC) for key in reach}


def information_state(trajectory, turn):
    """Return OpenSpiel's key of an observation such as "Your card: K, Moves: pass bet"."""
    card, moves = (line.split(": ")[1] for line in turn.observation.split("\n"))
    spelled = "".join(move[0] for move in moves.split()) if moves != "none" else ""
    return trajectory.seat, f"{'JQK'.index(card)}{spelled}"


@pytest.fixture(scope="module")
def fixed():
    """Return a model that is not trained, 4,000 matches of it with itself, and its exact turn values."""
    lm = kuhn_pocket(3)
    return lm, self_play(lm, 4000, CHOICE), exact_values(lm)


@pytest.mark.thorough
@pytest.mark.parametrize("trace_decay", [1.0, 0.5])
def test_values_of_a_fixed_policy_are_the_exact_ones(fixed, trace_decay):
    """Within what 4,000 matches leave uncertain, whether targets are returns or lean on later values."""
    lm, trajectories, exact = fixed
    critic = critic_of(lm)
    for _ in range(12):
        values = critic.values(lm, trajectories)
        evidence = [Evidence(values=values_K) for values_K in values]
        advantages, *_ = credit("gae_turn", trajectories, None, evidence, trace_decay=trace_decay)
        fitted = critic.fit(lm, trajectories, critic_targets(values, advantages))
    values, returns_by_state = critic.values(lm, trajectories), defaultdict(list)
    for t, values_K in zip(trajectories, values, strict=True):
        for k, (turn, value) in enumerate(zip(t.turns, values_K, strict=True)):
            returns_by_state[information_state(t, turn)].append((value, sum(t.rewards[k:])))
    assert returns_by_state.keys() == exact.keys()
    for key, pairs in returns_by_state.items():
        returns = [later for _, later in pairs]
        error = statistics.stdev(returns) / len(returns) ** 0.5 if len(set(returns)) > 1 else 0.0
        assert pairs[0][0] == pytest.approx(exact[key], abs=4 * error + 0.02), key
    assert 0.0 < fitted["explained"] < 1.0


def test_values_start_at_zero_and_equal_turns_have_equal_values(fixed):
    lm, trajectories, _ = fixed
    critic = critic_of(lm)
    assert {value for values in critic.values(lm, trajectories[:50]) for value in values} == {0.0}
    assert [len(values) for values in critic.values(lm, trajectories)] == [len(t.turns) for t in trajectories]
    assert critic.values(lm, []) == []
    assert critic.fit(lm, [], []) == {}


def test_merged_targets_take_the_step_that_turns_one_by_one_take(fixed):
    """One step on merged targets against the gradient of the plain mean over turns, and its plain loss."""
    lm, trajectories, _ = fixed
    few = trajectories[:40]
    targets = [[0.1 * k - 0.3 * t.match_return for k in range(len(t.turns))] for t in few]
    critic = critic_of(lm, steps=1)
    with torch.no_grad():
        for head in critic._heads.values():
            head.value.weight.fill_(0.1)
    plain = copy.deepcopy(critic)
    metrics = critic.fit(lm, few, targets)
    turns = [
        (t, turn, target) for t, ts in zip(few, targets, strict=True) for turn, target in zip(t.turns, ts, strict=True)
    ]
    losses = []
    for t, turn, target in turns:
        state = lm.prompt_states([turn.trace.prompt_ids], 1000).detach()
        losses.append((plain._heads[f"kuhn_poker/{t.role}"](state)[0] - target) ** 2)
    loss = torch.stack(losses).mean()
    plain._optimizer = torch.optim.AdamW(plain._parameters().values(), lr=1e-2, weight_decay=0.0)
    loss.backward()
    for name, parameter in critic._parameters().items():
        assert torch.allclose(parameter.grad, plain._parameters()[name].grad, atol=1e-6), name
    assert metrics["loss"] == pytest.approx(loss.item(), abs=1e-6)


def test_fitting_values_leaves_the_policy_alone(fixed):
    lm, trajectories, _ = fixed
    before = [parameter.clone() for parameter in lm.model.parameters()]
    critic_of(lm, steps=3).fit(lm, trajectories[:20], [[1.0] * len(t.turns) for t in trajectories[:20]])
    assert all(torch.equal(old, new) for old, new in zip(before, lm.model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in lm.model.parameters())


def test_more_tokens_in_a_reply_change_no_value_and_no_advantage():
    """A free reply's trace is split into twice as many tokens: values and advantages are those of the turn."""
    lm = kuhn_pocket(1)
    trajectories = self_play(lm, 30, FREE)

    def split(turn):
        twice = [
            (half, log / 2)
            for token, log in zip(turn.trace.reply_ids, turn.trace.logprobs, strict=True)
            for half in (token, token)
        ]
        ids, logs = zip(*twice, strict=True)
        return turn._replace(trace=turn.trace._replace(reply_ids=ids, logprobs=logs))

    longer = [t._replace(turns=tuple(map(split, t.turns))) for t in trajectories]
    critic = critic_of(lm, steps=5)
    critic.fit(lm, trajectories, [[t.match_return] * len(t.turns) for t in trajectories])
    advantages = []
    for batch in (trajectories, longer):
        evidence = [Evidence(values=values_K) for values_K in critic.values(lm, batch)]
        advantages.append(credit("gae_turn", batch, None, evidence).advantages)
    assert advantages[0] == advantages[1]


def test_it_goes_on_from_its_saved_state_bit_for_bit(fixed):
    lm, trajectories, _ = fixed
    few = trajectories[:60]
    targets = [[t.match_return] * len(t.turns) for t in few]
    original = critic_of(lm, steps=3)
    original.fit(lm, few, targets)
    saved = {name: tensor.clone() for name, tensor in original.tensors().items()}
    again = critic_of(lm, steps=3)
    again.load_tensors(saved)
    original.fit(lm, few, targets)
    again.fit(lm, few, targets)
    assert original.values(lm, few) == again.values(lm, few)
    other = Critic(lm.model.config.hidden_size, ROLES, settings(hidden_size=8), seed=0)
    with pytest.raises(UsageError, match=r"does not fit: its kuhn_poker/first/hidden\.weight is of another shape"):
        other.load_tensors(saved)


def test_a_clipped_value_loss_takes_no_value_further_than_the_clip():
    """Values 0.3 and 0.05 from 0 with clip 0.1 and target 1: the first has left the clip, and has no gradient."""
    values = torch.tensor([0.3, 0.05], requires_grad=True)
    errors = squared_errors(values, torch.zeros(2), torch.ones(2), 0.1)
    assert errors.tolist() == pytest.approx([0.81, 0.9025])
    errors.sum().backward()
    assert values.grad.tolist() == pytest.approx([0.0, -1.9])
    assert squared_errors(values, torch.zeros(2), torch.ones(2), None).tolist() == pytest.approx([0.49, 0.9025])
