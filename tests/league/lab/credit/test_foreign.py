"""Advantage functions of other trainers, called as they stand: their arrays, their results, and what is refused."""

import inspect
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.learning.trajectories import trajectory

import league
from benchmarks.simulations.published_advantages import PUBLISHED, cells, row, verl_gae, verl_grpo
from games.common.errors import UsageError
from league.cli.dispatch import main
from league.lab.credit.foreign import GAP, foreign_rule, rows_of
from league.lab.credit.matches import BatchPlan
from learners.advantages import RULES
from learners.trajectories import Evidence

SMALL = BatchPlan(batch=64, batches=3)
BATCH = [
    trajectory([0.25, 1.0], deal_seed=1, match=0),
    trajectory([-1.0], deal_seed=2, match=1),
    trajectory([0.5], deal_seed=1, match=2),
    trajectory([], total=2.0, deal_seed=2, match=3),
]
KNOWN = [Evidence(values=values) for values in ((0.1, 0.2), (0.3,), (0.4,), ())]


def credited(function, signature, batch=BATCH, evidence=KNOWN):
    rule = foreign_rule(function, signature).rule
    return rule.make(batch, evidence, {}, None).advantages


def seen(signature, *parameters):
    """Return what a function of a trainer is given, by parameter; it returns ones."""
    got = {}

    def record(**given):
        got.update(given)
        return torch.ones_like(given["token_level_rewards"] if signature == "verl" else given["rewards"])

    kinds = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in parameters]
    record.__signature__ = inspect.Signature(kinds)
    assert credited(record, signature) == [[1, 1], [1], [1], []]
    return got


def test_verls_arrays_have_a_row_a_trajectory_and_a_token_a_turn():
    got = seen("verl", "token_level_rewards", "response_mask", "index", "values", "gamma", "lam")
    assert GAP == 2
    assert got["token_level_rewards"].tolist() == [[0.25, 0, 0, 1], [-1, 0, 0, 0], [0.5, 0, 0, 0], [2, 0, 0, 0]]
    assert got["response_mask"].tolist() == [[1, 0, 0, 1], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    expected = [[0.1, 0.2, 0.2, 0.2], [0.3, 0, 0, 0], [0.4, 0, 0, 0], [0] * 4]
    assert np.allclose(got["values"], expected)
    index = got["index"].tolist()
    assert index[0] == index[2] != index[1] == index[3]
    assert got["token_level_rewards"].dtype == torch.float32


def test_trls_rewards_stand_group_by_group_and_its_advantages_go_back_where_they_belong():
    assert seen("trl", "rewards", "num_generations")["rewards"].tolist() == [1.25, 0.5, -1.0, 2.0]
    assert credited(lambda rewards: rewards * 2, "trl") == [[2.5, 2.5], [-2.0], [1.0], []]
    assert seen("trl", "rewards", "num_generations")["num_generations"] == 2


def test_prime_rl_is_called_once_a_group_and_credits_rollouts_or_tokens():
    calls = []

    def by_token(inputs, scale=2.0):
        calls.append((inputs.completion_lengths, [len(rollout["trajectory"]) for rollout in inputs.rollouts]))
        return [[scale * i for i in range(length)] for length in inputs.completion_lengths]

    assert credited(by_token, "prime_rl") == [[0.0, 6.0], [0.0], [0.0], []]
    assert calls == [([4, 1], [2, 1]), ([1, 0], [1, 0])]
    rewards = credited(lambda inputs: [r["reward"] for r in inputs.rollouts], "prime_rl")
    assert rewards == [[1.25, 1.25], [-1.0], [0.5], []]
    assert credited(lambda inputs: inputs.broadcast([3.0, 4.0]), "prime_rl") == [[3, 3], [3], [4], []]
    older = credited(lambda inputs: SimpleNamespace(advantages=inputs.rewards - 1.0), "prime_rl")
    assert older == [[0.25, 0.25], [-2.0], [-0.5], []]


def test_a_function_of_our_own_signature_is_called_as_a_rule_is():
    own = credited(lambda trajectories, evidence, state, settings: [t.rewards for t in trajectories], "league")
    assert own == [[0.25, 1.0], [-1.0], [0.5], []]
    assert foreign_rule(RULES["mars"], "league").rule is RULES["mars"]


def test_rows_without_any_turn_are_rows():
    rows = rows_of([trajectory([], total=1.0)], [Evidence()], np.zeros(1, np.intp))
    assert rows.mask.tolist() == [[0.0]]
    assert rows.rewards.tolist() == [[1.0]]
    assert rows.lengths.tolist() == [0]


PAIRS = [
    ("GRPO, verl", "grpo"),
    ("GRPO, TRL", "grpo"),
    ("Dr. GRPO, verl", "dr_grpo"),
    ("reward − group mean, prime-rl", "dr_grpo"),
    ("MT-GRPO, by turn", "mt_grpo"),
]


@pytest.mark.parametrize("game", ["kuhn_poker", "stop_or_go"])
@pytest.mark.parametrize(("name", "ours"), PAIRS)
def test_a_published_formula_is_measured_as_our_rule_of_the_same_formula(name, ours, game):
    """Up to a factor of all advantages (the unbiased spread), the epsilon, and 32 bits."""
    function, signature = PUBLISHED[name]
    report = league.credit_check(function, signature, game=game, plan=SMALL, rules=[ours])
    assert len(report.rules) == 3
    given, own = report.rules[1].overall, report.rules[2].overall
    assert given.cosine.mean == pytest.approx(own.cosine.mean, abs=2e-3)
    assert given.noise == pytest.approx(own.noise, rel=2e-2)
    assert given.wrong_sign == pytest.approx(own.wrong_sign, abs=5e-3)


def test_gae_with_an_exact_critic_is_given_it_and_says_so():
    report = league.credit_check(verl_gae, game="kuhn_poker", plan=SMALL, rules=["gae_turn:trace_decay=1"])
    ours = report.rules[2].overall.cosine.mean
    assert report.rules[1].given_values
    assert report.rules[1].overall.cosine.mean == pytest.approx(ours, abs=0.01), "up to the mean that whitening takes"
    assert not league.credit_check(verl_grpo, game="kuhn_poker", plan=SMALL).rules[1].given_values


def test_the_bias_that_is_known_is_found_and_by_turn():
    """MT-GRPO in the two-turn game: the first turn is credited against the truth, and the second with it."""
    function, signature = PUBLISHED["MT-GRPO, by turn"]
    [_, measured] = league.credit_check(function, signature, game="stop_or_go", plan=SMALL).rules
    assert measured.turns[0].cosine.mean == pytest.approx(-1.0, abs=1e-3)
    assert measured.turns[0].sign is None
    assert measured.turns[1].cosine.mean == pytest.approx(1.0, abs=1e-3)
    assert measured.turns[1].sign <= 16
    assert cells(row("MT-GRPO, by turn", "stop_or_go", SMALL))[2] == "never"


@pytest.mark.parametrize(
    ("function", "signature", "said"),
    [
        (lambda rewards: rewards, "verl", "asks for 'rewards', but is offered token_level_rewards"),
        (lambda rewards: rewards[:3], "trl", r"shape \(3,\), but \(4,\) or \(4, 4\) was expected"),
        (lambda token_level_rewards: token_level_rewards[:, :2], "verl", r"shape \(4, 2\)"),
        (lambda token_level_rewards: None, "verl", "returned NoneType"),
        (lambda rewards: rewards / 0, "trl", "not finite"),
        (lambda rewards: rewards * 1j, "trl", "not one advantage a row or a token"),
        (lambda rewards: "advantages", "trl", "returned str"),
        (lambda rewards: sys.exit(0), "trl", "ended the program"),
        (lambda rewards: 1 / 0, "trl", r"raised ZeroDivisionError in line \d+ of test_foreign.py"),
        (lambda trajectories, evidence, state, settings: [[1.0]], "league", "one advantage for each turn"),
        (lambda trajectories, evidence, state, settings: 7, "league", "not lists of one number for each turn"),
        (verl_grpo, "verb", "signature"),
        (3, "verl", "is int, not a function"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(function, signature, said):
    with pytest.raises(UsageError, match=said):
        credited(function, signature)


GIVEN = """
from dataclasses import dataclass

@dataclass
class Out:
    advantages: object

def centred(inputs, scale=1.0) -> "Out":
    mean = sum(r["reward"] for r in inputs.rollouts) / len(inputs.rollouts)
    return Out([scale * (r["reward"] - mean) for r in inputs.rollouts])

def grpo(token_level_rewards, response_mask):
    return token_level_rewards.sum(-1)[:, None] * response_mask
"""


@pytest.fixture
def given(tmp_path):
    path = tmp_path / "own advantages.py"
    path.write_text(GIVEN, encoding="utf-8")
    return path


def test_the_command_measures_a_function_of_a_file(given, capsys):
    command = ["credit", "kuhn_poker", "--batch", "64", "--batches", "6", "--with", f"{given}:centred"]
    assert main([*command, "--signature", "prime_rl", "--rules", "dr_grpo", "--json"]) == 0
    exact, centred, dr_grpo = json.loads(capsys.readouterr().out)["rules"]
    assert (exact["rule"], centred["rule"], dr_grpo["rule"]) == ("exact", "centred", "dr_grpo")
    assert centred["cosine"] == pytest.approx(dr_grpo["cosine"], abs=1e-6)
    assert centred["matches_for_sign"] >= 1
    assert centred["roles"]["first"]["matches_for_sign"] >= 1
    assert main([*command, "--signature", "prime_rl"]) == 0
    text = capsys.readouterr().out
    assert "for a sign" in text
    assert "malt" not in text, "beside a function only the rules that were named"


def test_a_function_named_as_one_of_ours_is_told_from_it(given, capsys):
    command = ["credit", "kuhn_poker", "--batch", "64", "--batches", "3", "--with", f"{given}:grpo", "--rules", "grpo"]
    assert main([*command, "--json"]) == 0
    assert [rule["rule"] for rule in json.loads(capsys.readouterr().out)["rules"]] == ["exact", "grpo (given)", "grpo"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{file}:centered", "Did you mean centred?"),
        ("nowhere.py:f", "There is no file nowhere.py"),
        ("centred", "names no function"),
        ("{file}:", "names no function"),
        ("{broken}:f", "not valid Python, in line 1 of broken.py: invalid syntax"),
        ("{file}.txt:f", "There is no file"),
    ],
)
def test_a_function_that_is_not_there_is_refused(text, said, given, tmp_path, capsys):
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n", encoding="utf-8")
    assert main(["credit", "kuhn_poker", "--with", text.format(file=given, broken=broken)]) == 2
    assert said in capsys.readouterr().err


def test_a_signature_without_a_function_is_refused(capsys):
    assert main(["credit", "kuhn_poker", "--signature", "trl"]) == 2
    assert "name the function with --with" in capsys.readouterr().err


def test_a_grouped_function_is_refused_where_each_start_is_played_once(given, capsys):
    command = ["credit", "kuhn_poker", "--batch", "8", "--group", "1", "--with", f"{given}:centred"]
    assert main([*command, "--signature", "prime_rl"]) == 2
    assert "--group 1 plays each start once" in capsys.readouterr().err
