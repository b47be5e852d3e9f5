"""The contrastive loss: closed forms of hand-made states, its gradient by differences, and who is whose pair."""

import math
import random
from types import SimpleNamespace

import pytest
import torch
from support.models.pocket import pocket

from arena.records import TokenTrace, Turn
from games.common.errors import UsageError
from league.config import RunConfig
from league.config.checks.config import check_config
from league.config.checks.learners import check_optimizer
from league.config.load import run_roles
from league.config.schedules import auxiliary_at
from learners.batching import TrainBatch
from learners.losses.batch_loss import BatchLoss
from learners.losses.contrast import CONTRAST, ContrastConfig, contrast_losses, contrast_rows, partner_of
from learners.losses.objective import Objective, Surrogate
from learners.losses.term import UpdateFacts
from learners.metric_sums import MetricSums
from learners.trajectories import Evidence, Trajectory

E1, E2 = [2.0, 0.0], [0.0, 0.5]  # at right angles, and of different lengths: only angles count


def log_share(positive, negatives):
    return math.log(math.exp(positive) + sum(map(math.exp, negatives))) - positive


def test_states_at_right_angles_have_the_closed_form():
    """Partners 7, 3, 7, 3, 7, 5: unequal groups, out of order, and the last is alone: a negative of all, no anchor."""
    losses, chance = contrast_losses(torch.tensor([E1, E2, E1, E1, E2, E2]), [7, 3, 7, 3, 7, 5], 0.5)
    near, far = 2.0, 0.0  # cosine / t
    first = (log_share(near, [far, near, far]) + log_share(far, [far, near, far])) / 2  # pairs 2 and 4 of turn 0
    second = log_share(far, [far, far, near, near])  # turn 1: its pair 3, its negatives 0, 2, 4, 5
    fourth = log_share(far, [near, near, far, far])  # turn 3: its pair 1
    fifth = log_share(far, [near, far, near])  # turn 4: its pairs 0 and 2 alike
    assert losses.tolist() == pytest.approx([first, second, first, fourth, fifth], rel=1e-6)
    assert chance.tolist() == pytest.approx([math.log(count) for count in (4, 5, 4, 5, 4)], rel=1e-6)


def test_by_chance_a_turn_has_the_logarithm_of_one_and_its_negatives():
    losses, chance = contrast_losses(torch.tensor([E1] * 5), [1, 0, 1, 0, 0], 0.1)
    assert losses.tolist() == pytest.approx(chance.tolist())
    assert chance.tolist() == pytest.approx([math.log(4), math.log(3), math.log(4), math.log(3), math.log(3)])


@pytest.mark.parametrize("partners", [[4, 4, 4], [1, 2, 3], [1]])
def test_one_partner_alone_or_partners_met_once_cost_nothing(partners):
    states = torch.randn(len(partners), 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    losses, _ = contrast_losses(states, partners, 0.1)
    assert losses.shape == (0,)
    assert float(losses.sum().detach()) == 0.0
    losses.sum().backward()
    assert not states.grad.any()


def test_the_gradient_is_that_of_finite_differences():
    states = torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: contrast_losses(x, [2, 0, 1, 2, 2, 0, 9], 0.3)[0], states)


def trajectory(prompts, partner, seat=0, game="g"):
    traces = [TokenTrace("main", prompt, (1,), (0.0,), ("a", "b")) for prompt in prompts]
    turns = tuple(Turn(seat, f"r{seat}", "main", "shown", ("a", "b"), "a", "a", 0.0, trace) for trace in traces)
    players = ("main", partner) if seat == 0 else (partner, "main")
    return Trajectory(game, f"r{seat}", "main", seat, 0, 0, players, turns, (0.0,) * len(turns), 0.0)


def facts_of(trajectories, weights=None, seed=0):
    evidence = [Evidence()] * len(trajectories)
    weights = [1.0] * len(trajectories) if weights is None else weights
    return UpdateFacts(
        None, trajectories, evidence, [], weights, {}, seed_of=lambda stream: sum(stream.encode()) + seed
    )


MATCHES = [
    trajectory([(1, 2), (1, 2, 3)], "zoe"),
    trajectory([(5,), (1, 2)], "amy"),
    trajectory([(6,)], "zoe"),
    trajectory([(7,)], "bob"),
    trajectory([(8,)], "amy", seat=1),
    trajectory([(9,)], "zoe", seat=1),
    trajectory([(10,)], "amy", seat=1),
    trajectory([(11,), (12,)], "zoe", seat=1, game="alone"),
]


def test_turns_are_contrasted_with_those_of_their_role_and_equal_prompts_are_computed_once():
    rows = contrast_rows(facts_of(MATCHES), ContrastConfig(weight=0.7, temperature=0.2, roles={"g/r1": 3.0}))
    first, second = rows.contrasts  # of the third role, all turns have one partner
    assert rows.temperature == 0.2
    assert first[:2] == ("g", "r0")
    assert first.prompts == ((1, 2), (1, 2, 3), (5,), (6,), (7,))
    assert first.prompt_of == (0, 1, 2, 0, 3, 4)
    assert first.partners == (0, 0, 1, 1, 0, 2)
    assert second[:2] == ("g", "r1")
    assert second.partners == (0, 1, 0)
    # five turns of r0 and two of r1 have pairs of both kinds
    assert (first.weight, second.weight) == pytest.approx((0.7 / 7, 3.0 * 0.7 / 7))


def test_nothing_of_the_partner_is_read_but_who_it_was():
    rows = contrast_rows(facts_of(MATCHES), ContrastConfig(weight=1.0))
    seen = {prompt for match in MATCHES for prompt in (turn.trace.prompt_ids for turn in match.turns)}
    assert {prompt for contrast in rows.contrasts for prompt in contrast.prompts} <= seen
    renamed = [match._replace(players=tuple(f"x{name}" for name in match.players)) for match in MATCHES]
    assert contrast_rows(facts_of(renamed), ContrastConfig(weight=1.0)) == rows


def test_partners_at_a_larger_table_are_the_same_wherever_they_sit():
    tables = [("main", "amy", "bob"), ("main", "bob", "amy"), ("main", "amy", "main"), ("main", "amy", "bob")]
    matches = [trajectory([(n,)], "")._replace(players=players) for n, players in enumerate(tables)]
    assert contrast_rows(facts_of(matches), ContrastConfig(weight=1.0)).contrasts[0].partners == (0, 0, 1, 0)
    assert partner_of(matches[1]) == ("amy", "bob")


def test_nothing_is_added_at_weight_0_and_trajectories_of_weight_0_are_left_out():
    assert contrast_rows(facts_of(MATCHES), ContrastConfig(weight=0.0)) is None
    assert contrast_rows(facts_of(MATCHES), ContrastConfig(weight=1.0, roles={"g/r0": 0.0, "g/r1": 0.0})) is None
    rows = contrast_rows(facts_of(MATCHES, [1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0]), ContrastConfig(weight=1.0))
    (only,) = rows.contrasts
    assert only.partners == (0, 0, 1, 1, 2)
    assert only.weight == pytest.approx(1 / 4)


def test_at_most_so_many_turns_are_drawn_each_once_and_the_same_by_the_same_seed():
    matches = [trajectory([(n,)], f"p{n % 3}") for n in range(40)]
    drawn, again = (contrast_rows(facts_of(matches), ContrastConfig(weight=1.0, turns=12)) for _ in range(2))
    (only,) = drawn.contrasts
    assert drawn == again
    assert drawn != contrast_rows(facts_of(matches, seed=1), ContrastConfig(weight=1.0, turns=12))
    assert len(only.prompt_of) == len(set(only.prompts)) == 12
    kinds = {
        p: {prompt[0] % 3 for prompt, q in zip(only.prompts, only.partners, strict=True) if q == p} for p in (0, 1, 2)
    }
    assert sorted(map(sorted, kinds.values())) == [[0], [1], [2]]


def test_each_role_has_its_own_draw_of_so_many_turns():
    """Two roles and two games of forty turns each: twelve of each are drawn, and not the same twelve places."""
    tables = [(0, "g"), (1, "g"), (0, "k")]
    matches = [trajectory([(n,)], f"p{n % 3}", seat, game) for n in range(40) for seat, game in tables]
    rows = contrast_rows(facts_of(matches), ContrastConfig(weight=1.0, turns=12))
    assert [len(one.prompt_of) for one in rows.contrasts] == [12, 12, 12]
    assert len({frozenset(one.prompts) for one in rows.contrasts}) == 3


@pytest.fixture(scope="module")
def lm():
    return pocket()


@pytest.fixture(scope="module")
def played(lm):
    rng = random.Random(3)
    texts = [f"Round {n}: {rng.choice('JQK')} {rng.choice('abc')}" for n in range(6)]
    prompts = [lm.encode_prompt([{"role": "user", "content": text}]) for text in texts]
    prompts[4] = prompts[0]  # computed once, and met with two partners
    partners = ("zoe", "amy", "zoe", "bob", "amy", "amy")
    return [trajectory([prompt], partner) for prompt, partner in zip(prompts, partners, strict=True)]


def batch_loss(lm, rows, **options):
    batch = TrainBatch("main", (), (), 0, (), {"contrast": rows})
    return BatchLoss(lm, None, batch, Objective(Surrogate("reinforce"), {}), max_tokens=8192, **options)


def test_the_loss_of_a_batch_is_that_of_the_states_that_a_probe_reads(lm, played):
    rows = contrast_rows(facts_of(played), ContrastConfig(weight=0.5, temperature=0.3))
    sums = MetricSums()
    found = sum(batch_loss(lm, rows, minibatches=4).losses(0, sums))
    prompts = [match.turns[0].trace.prompt_ids for match in played]
    states = torch.cat(
        [lm.model(torch.tensor([prompt]), output_hidden_states=True).hidden_states[-1][:, -1] for prompt in prompts]
    )
    losses, chance = contrast_losses(states, [0, 1, 0, 2, 1, 1], 0.3)
    assert float(found.detach()) == pytest.approx(0.5 * float(losses.mean().detach()), rel=1e-4)
    metrics = CONTRAST.metrics(sums)
    assert metrics["contrast/loss"] == pytest.approx(float(losses.mean().detach()), rel=1e-4)
    assert metrics["contrast/chance"] == pytest.approx(float(chance.mean()), rel=1e-6)
    weight = lm.model.model.embed_tokens.weight
    mine, plain = (torch.autograd.grad(loss, weight)[0] for loss in (found, 0.5 * losses.mean()))
    assert torch.allclose(mine, plain, atol=1e-5)
    assert mine.any()


def test_games_with_roles_of_one_name_are_contrasted_apart(lm, played):
    """The same turns in two games, and in one of them with other partners, are each game's own loss."""
    others = [one._replace(game="h", players=("main", name)) for one, name in zip(played, "aabbcc", strict=True)]
    alone = [contrast_rows(facts_of(matches), ContrastConfig(weight=1.0)) for matches in (played, others)]
    both = contrast_rows(facts_of([*played, *others]), ContrastConfig(weight=1.0))
    first, second, found = (
        float(sum(batch_loss(lm, rows).losses(0, MetricSums())).detach()) for rows in (*alone, both)
    )
    assert first != pytest.approx(second, rel=1e-2)
    assert found == pytest.approx((5 * first + 6 * second) / 11, rel=1e-4)  # bob is met once


def test_a_step_against_its_gradient_lowers_the_loss_by_the_slope(lm, played):
    rows = contrast_rows(facts_of(played), ContrastConfig(weight=1.0, temperature=0.3))
    loss, parameters = batch_loss(lm, rows), [*lm.parameters().values()]
    gradients = torch.autograd.grad(sum(loss.losses(0, MetricSums())), parameters, allow_unused=True)
    gradients = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, gradients, strict=True)]
    norm, values = math.sqrt(sum(float(g.pow(2).sum()) for g in gradients)), []
    for step in (1e-3, -2e-3, 1e-3):  # there, to the other side, and back
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter += step / norm * gradient
            values.append(float(sum(loss.losses(0, MetricSums()))))
    assert (values[0] - values[1]) / 2e-3 == pytest.approx(norm, rel=0.03)


def test_a_contrast_is_not_divided_over_minibatches_or_processes(lm, played):
    rows = contrast_rows(facts_of(played), ContrastConfig(weight=0.5))
    asked = []

    def local_units(units, batch_rows):
        asked.append([len(batch_rows[index].prompt) for unit in units for index in unit])
        return []

    loss = batch_loss(lm, rows, minibatches=4, process_group=SimpleNamespace(local_units=local_units))
    assert asked == [[sum(len(prompt) for prompt in rows.contrasts[0].prompts)]]
    assert [*loss.losses(0, MetricSums())] == []


def test_a_remote_trainer_is_refused(lm, played):
    rows = contrast_rows(facts_of(played), ContrastConfig(weight=0.5))
    with pytest.raises(UsageError, match="weight reads hidden states"):
        batch_loss(lm, rows, waist=SimpleNamespace())


def test_the_settings_are_checked_and_the_weight_falls_over_the_run():
    run = RunConfig(games={"signalling": {}}, iterations=3, contrast={"weight": 1.0, "weight_end": 0.01})
    assert [auxiliary_at(run, i)["contrast"].weight for i in (1, 2, 3)] == pytest.approx([1.0, 0.1, 0.01])
    wrong = run.model_copy(update={"contrast": ContrastConfig(weight=1.0, roles={"signalling/nobody": 1.0})})
    with pytest.raises(UsageError, match=r"contrast\.roles takes keys of the form game/role"):
        check_config(wrong, run_roles(wrong))
    sharded = run.model_copy(update={"optimizer": run.optimizer.model_copy(update={"sharded": True, "processes": 2})})
    with pytest.raises(UsageError, match=r"contrast adds passes to an update"):
        check_optimizer(sharded, {})
