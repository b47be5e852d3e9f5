"""Self-play from samples: play by arrays, exact figures and updates against OpenSpiel's and closed forms."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pyspiel
import pytest
import torch
from open_spiel.python import policy as openspiel_policy
from open_spiel.python.algorithms.expected_game_score import policy_value
from open_spiel.python.algorithms.exploitability import exploitability as openspiel_exploitability
from open_spiel.python.pytorch import ppo

from benchmarks.report.curves import learning_lines, value_at
from benchmarks.studies.self_play import from_samples as study
from benchmarks.studies.self_play import policy_gradients as harness
from benchmarks.studies.self_play.policy_gradients import Arrays, Learner, Minibatch

PPO = Learner("ppo", 0.1, 0.1, normalised=True)
MMD = Learner("mmd", 0.1, 0.1, normalised=False)


@pytest.fixture(scope="module", params=["kuhn_poker", "leduc_poker"])
def arrays(request):
    return Arrays(request.param)


@pytest.fixture(scope="module")
def kuhn():
    return Arrays("kuhn_poker")


def network_of(arrays, seed=0):
    """Return a network whose play is far from uniform."""
    network = harness.new_network(arrays, seed)
    with torch.no_grad():
        network.actor[-1].weight.mul_(200.0)
    return network


def played(arrays, network):
    with torch.no_grad():
        return harness.log_probs(network, arrays.tensors, arrays.legal)


def openspiel_table(arrays, logprobs):
    table = openspiel_policy.TabularPolicy(pyspiel.load_game(arrays.form.game))
    points = harness.decision_points(arrays.form.game, 50_000)
    for index, key in enumerate(arrays.form.keys):
        row = table.policy_for_key(points[key].pyspiel_state().information_state_string(key[0]))
        row[:] = 0.0
        for first in range(arrays.form.first[index], arrays.form.first[index] + len(arrays.form.legal[index])):
            row[arrays.action[first]] = np.exp(logprobs[first])
    return table


@pytest.mark.parametrize("seed", [0, 1])
def test_exploitability_and_returns_of_a_network_are_openspiels(arrays, seed):
    logprobs = arrays.normalised(arrays.flat(played(arrays, network_of(arrays, seed))))
    table = openspiel_table(arrays, logprobs)
    game = table.game
    assert arrays.exploitability(logprobs) == pytest.approx(openspiel_exploitability(game, table), abs=1e-9)
    scale = game.max_utility() / arrays.returns.max()
    expected = policy_value(game.new_initial_state(), [table, table])
    assert arrays.reach(logprobs) @ arrays.returns * scale == pytest.approx(expected, abs=1e-9)


def test_matches_by_arrays_are_as_long_and_as_paid_as_openspiels(arrays):
    """Played move by move by OpenSpiel with the same table; five standard errors."""
    logprobs = arrays.normalised(arrays.flat(played(arrays, network_of(arrays))))
    table, rng, matches = openspiel_table(arrays, logprobs), np.random.default_rng(1), 2_000
    by_openspiel = []
    for _ in range(matches):
        state, decisions = table.game.new_initial_state(), 0
        while not state.is_terminal():
            chances = state.chance_outcomes() if state.is_chance_node() else table.action_probabilities(state).items()
            decisions += not state.is_chance_node()
            actions, weights = zip(*chances, strict=True)
            state.apply_action(int(rng.choice(actions, p=np.divide(weights, sum(weights)))))
        by_openspiel.append((state.returns()[0], decisions))
    drawn = arrays.drawn(logprobs, 50_000, rng)
    scale = table.game.max_utility() / arrays.returns.max()
    by_arrays = np.stack([arrays.returns[drawn, 0] * scale, arrays.decisions[drawn]])
    error = np.std(by_openspiel, axis=0) / matches**0.5
    assert np.all(np.abs(np.mean(by_openspiel, axis=0) - by_arrays.mean(axis=1)) < 5.0 * error)
    assert arrays.length(logprobs) == pytest.approx(by_arrays[1].mean(), abs=0.05)


def test_uniform_kuhn_takes_two_and_a_quarter_decisions(kuhn):
    """Pass and bet, one match in four, has a third."""
    assert kuhn.length(kuhn.uniform()) == pytest.approx(2.25)


def test_dark_hex_tells_the_seat_and_the_number_of_moves_in_its_texts_alone_so_they_stand_beside_its_tensor():
    arrays = Arrays("dark_hex(board_size=2)")
    assert len(arrays.tensors.unique(dim=0)) == len(arrays.form.keys) == 134
    assert len(arrays.tensors[:, :-1].unique(dim=0)) < 134
    for row, (seat, text) in zip(arrays.tensors.tolist(), arrays.form.keys, strict=True):
        assert (row[-2], row[-1]) == (seat, int(text.split("\n")[2]))


def test_advantages_are_gae_over_a_seats_own_decisions(arrays):
    """By Schulman et al. (2016): the sum of (gamma lambda)^k delta, gamma = 1, match by match."""
    rng = np.random.default_rng(0)
    values, endings = rng.normal(size=len(arrays.form.keys)), rng.integers(0, len(arrays.returns), 50)
    found = dict.fromkeys(range(len(endings)), None)
    for place, ending in enumerate(endings):
        sequences, advantage, target = harness.advantages(arrays, endings[place : place + 1], values)
        found[place] = dict(zip(sequences.tolist(), zip(advantage, target, strict=True), strict=True))
        for seat in range(arrays.seats):
            passed = [int(arrays.form.last[ending, seat])]
            while passed[-1] >= arrays.seats:
                passed.append(int(arrays.parent[passed[-1]]))
            own = passed[-2::-1]  # first to last
            worth = [values[arrays.state[sequence]] for sequence in own] + [arrays.returns[ending, seat]]
            deltas = [later - now for now, later in itertools.pairwise(worth)]
            for step, sequence in enumerate(own):
                gae = sum(harness.GAE_LAMBDA**k * delta for k, delta in enumerate(deltas[step:]))
                assert found[place].pop(sequence) == pytest.approx((gae, gae + worth[step]))
        assert not found[place]


def plain_loss(learner, new, old, actions, advantage):
    """Decision by decision, as the papers have it: new, old [M, A]."""
    taken = torch.arange(len(actions))
    ratio = (new[taken, actions] - old[taken, actions]).exp()
    entropy = -(new.exp() * new).sum(1)
    if learner.method == "ppo":
        gained = torch.min(ratio * advantage, ratio.clamp(1 - learner.clip, 1 + learner.clip) * advantage)
        return (-gained - learner.entropy * entropy).mean()
    divergence = (new.exp() * (new - old)).sum(1)
    return (-ratio * advantage - learner.entropy * entropy + learner.kl * divergence).mean()


@pytest.mark.parametrize("learner", [PPO, MMD], ids=["ppo", "mmd"])
def test_decisions_summed_by_state_have_the_loss_and_gradient_of_one_by_one(learner):
    rng, draw = np.random.default_rng(3), torch.Generator().manual_seed(3)
    states, actions = rng.integers(0, 4, 400), rng.integers(0, 3, 400)
    advantage = rng.normal(size=400)
    old = torch.log_softmax(torch.randn(4, 3, generator=draw, dtype=torch.float64), 1)
    logits = (old + torch.randn(4, 3, generator=draw, dtype=torch.float64)).requires_grad_()

    def summed(values):
        sums = np.zeros((4, 3))
        np.add.at(sums, (states, actions), values)
        return torch.from_numpy(sums)

    batch = Minibatch(
        np.arange(4),
        torch.from_numpy(np.bincount(states).astype(float)),
        summed(np.maximum(advantage, 0.0)),
        summed(np.minimum(advantage, 0.0)),
        torch.zeros(4),
    )
    by_state = harness.policy_loss(learner, torch.log_softmax(logits, 1), old, batch)
    new = torch.log_softmax(logits, 1)[states]
    one_by_one = plain_loss(learner, new, old[states], torch.from_numpy(actions), torch.from_numpy(advantage))
    assert by_state.item() == pytest.approx(one_by_one.item(), abs=1e-12)
    gradients = [torch.autograd.grad(loss, logits)[0] for loss in (by_state, one_by_one)]
    assert torch.allclose(*gradients, atol=1e-12)


@pytest.mark.parametrize(
    ("chance", "sign", "moves"),
    [(0.9, 1, False), (0.9, -1, True), (0.1, 1, True), (0.1, -1, False), (0.55, 1, True), (0.55, -1, True)],
)
def test_the_clip_stops_the_gradient_beyond_its_bound_and_only_in_its_direction(chance, sign, moves):
    """Ratios 1.8, 0.2 and 1.1 of an action of probability 0.5."""
    learner = PPO._replace(entropy=0.0)
    old, new = torch.log(torch.tensor([[0.5, 0.5]])), torch.log(torch.tensor([[chance, 1.0 - chance]]))
    taken = torch.tensor([[float(sign), 0.0]])
    batch = Minibatch(np.zeros(1), torch.ones(1), taken.clamp(min=0.0), taken.clamp(max=0.0), torch.zeros(1))
    gradient = torch.autograd.grad(harness.policy_loss(learner, new.requires_grad_(), old, batch), new)[0]
    assert gradient[0, 0].item() == pytest.approx(-sign * chance / 0.5 if moves else 0.0)


@pytest.mark.parametrize(("entropy", "kl"), [(0.05, 1.0), (0.5, 0.2), (0.0, 3.0)])
def test_with_exact_advantages_the_minimum_of_mmd_is_its_closed_form(entropy, kl):
    """Sokota et al. (2023): (old exp(eta A) magnet^(alpha eta))^(1 / (1 + alpha eta)), eta = 1 / kl, uniform magnet."""
    learner = MMD._replace(entropy=entropy, kl=kl)
    old = torch.log(torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64))
    advantage = torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64)
    eta = 1.0 / kl
    power = (old.exp() * torch.exp(eta * advantage) * (1 / 3) ** (entropy * eta)) ** (1 / (1 + entropy * eta))
    closed = torch.log(power / power.sum())
    expected = old.exp() * advantage  # what the sums come to with all actions as often as they are played
    counts, zeros = torch.ones(1, dtype=torch.float64), torch.zeros(1)
    batch = Minibatch(np.zeros(1), counts, expected.clamp(min=0.0), expected.clamp(max=0.0), zeros)
    logits = closed.clone().requires_grad_()
    loss = harness.policy_loss(learner, torch.log_softmax(logits, 1), old, batch)
    assert torch.autograd.grad(loss, logits)[0] == pytest.approx(np.zeros((1, 3)), abs=1e-12)
    other = harness.policy_loss(learner, torch.log_softmax(closed + torch.tensor([[0.3, 0.0, 0.0]]), 1), old, batch)
    assert other > loss


def test_an_update_of_ppo_ends_in_the_weights_of_openspiels(kuhn):
    """Three epochs over one batch, so that ratios leave 1 and meet the clip. OpenSpiel gets each decision as a match of
    its own, whose reward is the target.
    """
    learner = PPO._replace(epochs=3, minibatches=1, learning_rate=0.02)
    ours, rng = network_of(kuhn), np.random.default_rng(0)
    endings = kuhn.drawn(kuhn.flat(played(kuhn, ours)), 300, rng)
    values = ours.critic(kuhn.tensors).squeeze(1).detach().double().numpy()
    sequences, _, targets = harness.advantages(kuhn, endings, values)
    states = kuhn.state[sequences]
    agent = ppo.PPO(
        (kuhn.tensors.shape[1],), kuhn.legal.shape[1], 1, num_envs=1, steps_per_batch=len(states), num_minibatches=1,
        update_epochs=3, learning_rate=0.02, gamma=1.0, clip_vloss=False, entropy_coef=0.1, agent_fn=ppo.PPOAgent,
    )  # fmt: skip
    agent.network.load_state_dict(ours.state_dict())
    agent.obs[:, 0], agent.legal_actions_mask[:, 0] = kuhn.tensors[states], kuhn.legal[states]
    agent.actions[:, 0] = torch.from_numpy(kuhn.action[sequences]).float()
    agent.logprobs[:, 0] = played(kuhn, ours)[states, kuhn.action[sequences]]
    agent.values[:, 0], agent.dones[:] = torch.from_numpy(values[states]).float(), 1.0
    agent.rewards[:, 0] = torch.from_numpy(targets).float()
    before = ours.actor[0].weight.detach().clone()
    optimizer = torch.optim.Adam(ours.parameters(), lr=0.02, eps=1e-5)
    harness.update(learner, kuhn, ours, optimizer, endings)
    agent.learn([SimpleNamespace(observations={"info_state": [np.zeros(kuhn.tensors.shape[1])]})])
    assert (ours.actor[0].weight - before).abs().max() > 0.02
    for theirs, found in zip(agent.network.parameters(), ours.parameters(), strict=True):
        assert torch.allclose(theirs, found, atol=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("label", ["PPO, entropy 0.2", "MMD, entropy 0.05"])
def test_both_methods_learn_kuhn_poker(kuhn, label):
    """Uniform play is exploited by 0.458."""
    course = harness.learn(kuhn, study.LEARNERS[label], 300_000, 101, [1e4, 1e5])
    assert course["exploitability"][-1] < 0.2
    assert course["decisions"][-1] >= 300_000 > course["decisions"][-2]


def test_a_seed_gives_its_course(kuhn, monkeypatch):
    monkeypatch.setattr(harness, "UPDATES", 5)
    first, again, other = (harness.learn(kuhn, MMD, 2_000, seed, [])["exploitability"] for seed in (102, 102, 103))
    assert first == again != other


def test_constants_go_from_the_first_to_the_last():
    learner = Learner("mmd", 0.2, 0.002, normalised=False, learning_rate=0.01)
    halfway = learner.at(0.5)
    assert (halfway.entropy, halfway.learning_rate) == pytest.approx((0.02, 0.005))
    assert learner.at(0.0) == learner


def test_a_kept_course_is_read_unless_its_constants_changed(tmp_path, monkeypatch):
    runs = []
    monkeypatch.setattr(study, "learn", lambda *words: runs.append(words) or {"exploitability": [float(len(runs))]})
    kept = tmp_path / "deep" / "run.json"
    for expected, budget in ((1.0, 100), (1.0, 100), (2.0, 200)):
        assert study.trained("kuhn_poker", PPO, budget, 0, kept)["exploitability"] == [expected]
    assert study.trained("kuhn_poker", PPO._replace(clip=0.3), 200, 0, kept)["exploitability"] == [3.0]
    assert json.loads(kept.read_text())["asked"]["learner"]["clip"] == 0.3


def test_matches_that_explore_take_as_many_decisions_as_their_policies_say(kuhn):
    """Two who pass take two; one who bets half as often as it explores adds a third, where it is the second seat."""
    passes = kuhn.normalised(np.where(kuhn.action == 1, -700.0, 0.0))
    for explore, expected in ((0.0, 2.0), (0.5, 2.0 + 0.5 * 0.25), (1.0, 2.25)):
        assert study.expected_length(kuhn, passes, explore) == pytest.approx(expected)


@pytest.mark.thorough
def test_the_language_models_decisions_are_counted_and_its_networks_have_as_many(tmp_path, monkeypatch):
    monkeypatch.setitem(study.SETTLED, "equal-leduc", study.Game("Kuhn poker", "kuhn_poker"))
    settings = study.load_config
    few = ("iterations=2", "snapshot_every=1", "games.kuhn_poker.matches=32")
    monkeypatch.setattr(study, "load_config", lambda *words, **games: settings(*words, *few, **games))
    result = study.measure_study("equal-leduc", [0], 1, tmp_path)
    [curve] = result["learning"]
    assert (curve["states"], curve["uniform"]) == (12, pytest.approx(11 / 24))
    settled, *networks = curve["conditions"]
    [run] = settled["runs"]
    assert run["decisions"][0] == 0
    assert 2 * 32 * 2.0 < run["decisions"][-1] < 2 * 32 * 3.0  # a match has two or three
    assert len(run["decisions"]) == len(run["exploitability"]) == 3
    assert [condition["name"] for condition in networks] == list(study.LEARNERS)
    for condition in networks:
        assert run["decisions"][-1] - 1 <= condition["runs"][0]["decisions"][-1] < run["decisions"][-1] + 12
    assert len(list(study.summary(result))) == 5


@pytest.mark.thorough
def test_the_study_of_networks_spends_its_budget_and_is_drawn(kuhn, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "GAMES", {"samples-kuhn": study.Game("Kuhn poker", "kuhn_poker")})
    monkeypatch.setattr(study, "DECISIONS", 400)
    monkeypatch.setattr(study, "MARKS", (100.0, 200.0))
    result = study.measure_study("samples-kuhn", [0, 1], 1, tmp_path)
    for condition in result["learning"][0]["conditions"]:
        for run in condition["runs"]:
            passed = zip((100, 200, 400), run["decisions"], strict=True)
            assert [mark <= step < mark + 20 for mark, step in passed] == [True] * 3
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    (tmp_path / "samples-kuhn.json").write_text(json.dumps({"result": result}))
    study.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_the_table_shows_ends_with_intervals_and_courses_at_equal_decisions():
    """Between 10^4 and 10^6 the logarithm of 10^5 is half the way; ends 0.2, 0.4: t(1, 0.975) = 12.706 times 0.1."""
    runs = [{"decisions": [0, 1e4, 1e6], "exploitability": [1.0, 0.6 + x, 0.2 + x]} for x in (0.0, 0.2)]
    short = [{"decisions": [0, 5e4], "exploitability": [1.0, 0.5]}]
    conditions = [{"name": "long", "runs": runs}, {"name": "short", "runs": short}]
    lines = learning_lines([{"game": "Chess", "states": 1234, "uniform": 0.9, "conditions": conditions}])
    assert lines[0] == "**Chess**, 1,234 information states; uniform play 0.900"
    assert lines[-2] == "| long | 1,000,000 | 0.300 (-0.971 to 1.571) | 0.500 | 0.300 | 2 |"
    assert lines[-1] == "| short | 50,000 | 0.500 | – | – | 1 |"
    assert np.isnan(value_at(short[0], 1e5))
