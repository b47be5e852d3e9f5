"""The objective and optimiser settings of one iteration's update."""

import pytest

from games.common.errors import UsageError
from league.config import RunConfig
from league.config.checks.config import check_config
from league.config.load import run_roles
from league.config.schedules import auxiliary_at, imitation_at, objective_at, reward_weight_at, steps_at
from learners.losses.objective import EntropyBand, Surrogate
from learners.normalisation import Normalisation


def config(**tables):
    return RunConfig(iterations=5, games={"kuhn_poker": {}}, **tables)


def test_every_setting_of_the_objective_is_passed_on():
    settings = {
        "name": "gspo",
        "normalisation": "sequence_mean",
        "length": 7,
        "clip_low": 0.01,
        "clip_high": 0.02,
        "dual_clip": 3.0,
        "dpo_beta": 0.3,
        "truncate": 2.0,
        "kl_old": 0.1,
        "kl_reference": 0.3,
        "kl_estimator": "k3",
        "entropy": 0.04,
        "epo": 0.5,
        "magnet": 0.2,
        "magnet_uniform": 0.25,
        "distill": 0.7,
    }
    run = config(objective=settings, teacher={"divergence": "forward"})
    objective, distill = objective_at(run, 1, "main"), auxiliary_at(run, 1)["distill"]
    assert (distill.weight, distill.divergence) == (0.7, "forward")
    assert objective.surrogate == Surrogate("gspo", {"clip_low": 0.01, "clip_high": 0.02, "dual_clip": 3.0})
    assert objective.normalisation == Normalisation("sequence_mean", 7)
    assert (objective.truncate, objective.kl_old, objective.kl_reference, objective.kl_estimator) == (2, 0.1, 0.3, "k3")
    assert objective.entropy == {"kuhn_poker": 0.04}
    assert objective.band == EntropyBand(0.5, 0.8, 1.2, 0.9)
    assert (objective.magnet, objective.magnet_uniform) == (0.2, 0.25)


def test_weights_go_geometrically_from_start_to_end():
    """Iterations 1, 3 and 5 of 5: start, the geometric mean, end."""
    run = config(objective={"kl_old": 0.4, "kl_old_end": 0.1, "entropy": 0.01, "entropy_end": 0.0001})
    assert [objective_at(run, i, "main").kl_old for i in (1, 3, 5)] == pytest.approx([0.4, 0.2, 0.1])
    assert [objective_at(run, i, "main").entropy["kuhn_poker"] for i in (1, 3, 5)] == pytest.approx(
        [0.01, 0.001, 0.0001]
    )


def test_the_phases_of_epo_end_by_role():
    ends = {"kuhn_poker/first": 0.1, "kuhn_poker/second": 0.0}
    run = config(objective={"epo": 0.4, "epo_end": 1.6, "epo_ends": ends})
    bands = [objective_at(run, i, "main").band for i in (1, 3, 5)]
    assert [band.weight for band in bands] == pytest.approx([0.4, 0.8, 1.6])
    assert [band.roles["kuhn_poker/first"] for band in bands] == pytest.approx([0.4, 0.2, 0.1])
    assert [band.roles["kuhn_poker/second"] for band in bands] == pytest.approx([0.4, 0.2, 0.0])
    assert not EntropyBand(0.0, roles={"kuhn_poker/first": 0.0}).on
    assert EntropyBand(0.0, roles={"kuhn_poker/first": 0.1}).on
    wrong = config(objective={"epo": 0.4, "epo_ends": {"kuhn_poker/third": 0.1}})
    with pytest.raises(UsageError, match=r"objective\.epo_ends takes keys"):
        check_config(wrong, run_roles(wrong))


def test_the_teachers_weight_goes_geometrically_or_by_the_root_of_the_iteration():
    geometric = config(objective={"distill": 1.0, "distill_end": 0.01})
    assert [auxiliary_at(geometric, i)["distill"].weight for i in (1, 3, 5)] == pytest.approx([1.0, 0.1, 0.01])
    root = config(objective={"distill": 1.0, "schedule": "mmd"})
    assert [auxiliary_at(root, i)["distill"].weight for i in (1, 4)] == pytest.approx([1.0, 0.5])


def test_a_policy_has_the_optimizers_settings_or_its_own():
    optimizer = {"learning_rate": 4e-4, "learning_rate_end": 1e-4, "inner_steps": 3}
    policies = {"fixed": {"learning_rate": 1e-2, "inner_steps": 5}, "falling": {"learning_rate": 1e-2}}
    policies["falling"]["learning_rate_end"] = 1e-4
    run = config(optimizer=optimizer, policies=policies)
    rates = {name: [steps_at(run, i, name).learning_rate for i in (1, 3, 5)] for name in ("main", "fixed", "falling")}
    assert rates["main"] == pytest.approx([4e-4, 2e-4, 1e-4])
    assert rates["fixed"] == pytest.approx([1e-2] * 3), "its own rate does not fall with the learner's"
    assert rates["falling"] == pytest.approx([1e-2, 1e-3, 1e-4])
    assert [steps_at(run, 1, name).inner_steps for name in ("main", "fixed", "falling")] == [3, 5, 3]


def test_a_games_own_entropy_weight_goes_to_its_own_end_and_the_magnets_to_its():
    """Iterations 1, 3 and 5 of 5; a game with a start of its own and no end stays there."""
    games = {
        "kuhn_poker": {"entropy": 0.4, "entropy_end": 0.1},
        "tiny_hanabi": {"entropy": 0.3},
        "leduc_poker": {"entropy_end": 0.05},
    }
    objective = {"entropy": 0.2, "entropy_end": 0.002, "magnet": 0.9, "magnet_end": 0.1}
    run = RunConfig(iterations=5, games=games, objective=objective)
    objectives = [objective_at(run, i, "main") for i in (1, 3, 5)]
    assert [o.entropy["kuhn_poker"] for o in objectives] == pytest.approx([0.4, 0.2, 0.1])
    assert [o.entropy["tiny_hanabi"] for o in objectives] == pytest.approx([0.3, 0.3, 0.3])
    assert [o.entropy["leduc_poker"] for o in objectives] == pytest.approx([0.2, 0.1, 0.05])
    assert [o.magnet for o in objectives] == pytest.approx([0.9, 0.3, 0.1])


def test_mirror_descents_schedule_goes_by_the_root_of_the_iteration():
    """Iterations 1, 4 and 9: what regularises is divided by 1, 2 and 3, the weight of the old policy multiplied."""
    objective = {"schedule": "mmd", "entropy": 0.6, "kl_old": 2.0, "magnet": 0.3}
    run = RunConfig(iterations=9, games={"kuhn_poker": {"entropy": 0.12}, "leduc_poker": {}}, objective=objective)
    objectives = [objective_at(run, i, "main") for i in (1, 4, 9)]
    assert [o.entropy["kuhn_poker"] for o in objectives] == pytest.approx([0.12, 0.06, 0.04])
    assert [o.entropy["leduc_poker"] for o in objectives] == pytest.approx([0.6, 0.3, 0.2])
    assert [o.kl_old for o in objectives] == pytest.approx([2.0, 4.0, 6.0])
    assert [o.magnet for o in objectives] == pytest.approx([0.3, 0.15, 0.1])


def test_a_magnet_pulls_in_the_loss_or_in_the_rewards():
    objective = {"magnet": 0.9, "magnet_end": 0.1}
    by_loss, by_rewards = (config(objective=objective | {"magnet_rule": rule}) for rule in ("loss", "rewards"))
    assert [objective_at(by_loss, i, "main").magnet for i in (1, 3, 5)] == pytest.approx([0.9, 0.3, 0.1])
    assert [reward_weight_at(by_loss, i) for i in (1, 3, 5)] == [0.0] * 3
    assert [objective_at(by_rewards, i, "main").magnet for i in (1, 3, 5)] == [0.0] * 3
    assert [reward_weight_at(by_rewards, i) for i in (1, 3, 5)] == pytest.approx([0.9, 0.3, 0.1])


def test_imitation_falls_evenly_to_nothing():
    settings = {"weight": 0.6, "matches": "m.jsonl", "since": 10, "until": 14}
    falling = config(imitation=settings)
    shares = [imitation_at(falling, iteration) for iteration in (1, 10, 11, 12, 13, 14, 20)]
    assert shares == pytest.approx([0.6, 0.6, 0.45, 0.3, 0.15, 0.0, 0.0])
    assert imitation_at(config(imitation=settings | {"until": None}), 20) == 0.6
