"""Estimators of turn values against exact values, a planted decisive turn, and what their numbers must sum to."""

import ast
import json
import random
from itertools import chain

import numpy as np
import pytest
from support.learning.trajectories import credit, trajectory
from support.source import FILES, ROOT

from games.common.errors import UsageError
from games.registry import make_game
from league.config import RolesConfig
from league.config.load import seat_roles
from league.lab.credit.matches import BatchPlan, play_batches
from league.theory.exact.exploitability import exact_form, uniform_table
from league.theory.exact.turn_values import turn_values
from learners.trajectories import Evidence, return_scale
from learners.values import ESTIMATORS, forget_policy, with_estimates
from learners.values.estimator import Estimated, How, ValueFacts
from learners.values.features import action_features
from learners.values.regression import FeatureWeights, weights_of
from learners.values.token_values import token_values

LEARNED = [name for name, estimator in ESTIMATORS.items() if estimator.how is How.LEARNED]
VALUED = [name for name in LEARNED if ESTIMATORS[name].kind is Estimated.VALUES]
ADDING = ["progress", "preferences"]


def learned(name, batch, **settings):
    """Return what an estimator learns from a batch, and its settings."""
    chosen = ESTIMATORS[name].settings(**settings)
    return ESTIMATORS[name].learn(batch, {}, chosen), chosen


def estimated(name, batch, state, settings):
    return ESTIMATORS[name].make(batch, state, settings)


@pytest.fixture(scope="module")
def played():
    """Return Kuhn poker and tiny Hanabi under uniform play: trajectories, values V and advantages by turn."""

    def play(game):
        form, table = exact_form(game), uniform_table(game)
        spec = make_game(game).spec
        turns = turn_values(form, [table.probabilities[key] for key in form.keys])
        [batch] = play_batches(table, seat_roles(RolesConfig(), spec), form.keys, BatchPlan(1200, 1, 1))
        scale = return_scale(spec)
        return batch.trajectories, turns.values[batch.states] / scale, turns.advantages[batch.actions] / scale

    return {game: play(game) for game in ("kuhn_poker", "tiny_hanabi")}


def levers(matches, seed=0):
    """Return matches of four turns in which the third alone decides: who turns left there wins."""
    rng, batch = random.Random(seed), []
    for match in range(matches):
        moves = [rng.choice(["left", "right"]) for _ in range(4)]
        one = trajectory(
            (0.0, 0.0, 0.0, 1.0 if moves[2] == "left" else -1.0),
            [f"Round: {k + 1}\nMoves: {' '.join(moves[:k])}" for k in range(4)],
            match=match,
            deal_seed=match,
        )
        turns = [turn._replace(action=move) for turn, move in zip(one.turns, moves, strict=True)]
        batch.append(one._replace(turns=tuple(turns)))
    return batch


def added(name, batch, numbers):
    """Return what each turn added: what the estimator says, or the steps between its values."""
    evidence = [with_estimates(Evidence(), name, row) for row in numbers]
    rule, settings = ("gae_turn", {"trace_decay": 0.0}) if name in VALUED else ("contribution", {})
    return credit(rule, batch, evidence=evidence, **settings).advantages


@pytest.mark.parametrize("name", VALUED)
def test_the_error_falls_with_data(played, name):
    trajectories, exact, _ = played["kuhn_poker"]
    errors = []
    for matches in (16, 1200):
        state, settings = learned(name, trajectories[: 2 * matches], shrink=4.0)
        found = list(chain.from_iterable(estimated(name, trajectories, state, settings)))
        errors.append(np.sqrt(np.mean((found - exact) ** 2)))
    assert errors[1] < 0.07 < errors[0]  # returns span 2


@pytest.mark.parametrize("name", [*VALUED, *ADDING])
def test_the_planted_decisive_turn_is_found(name):
    batch, fresh = levers(300), levers(20, seed=1)
    state, settings = learned(name, batch, shrink=1.0)
    for one, row in zip(fresh, added(name, fresh, estimated(name, fresh, state, settings)), strict=True):
        assert np.argmax(np.abs(row)) == 2, row
        assert row[2] * one.match_return > 0


def test_contributions_of_progress_sum_to_the_return(played):
    trajectories = played["kuhn_poker"][0]
    for state in ({}, learned("progress", trajectories[:600])[0]):
        settings = ESTIMATORS["progress"].settings()
        for one, row in zip(trajectories, estimated("progress", trajectories, state, settings), strict=True):
            if row:
                assert sum(row) == pytest.approx(one.match_return, abs=1e-9)


@pytest.mark.parametrize(("name", "game"), [("progress", "kuhn_poker"), ("sequential", "tiny_hanabi")])
def test_what_turns_added_is_near_their_exact_advantage_and_nearer_with_data(played, name, game):
    trajectories, _, exact = played[game]
    cosines = []
    for matches in (16, 1200):
        state, settings = learned(name, trajectories[: 2 * matches], shrink=4.0)
        numbers = estimated(name, trajectories, state, settings)
        found = np.array(list(chain.from_iterable(added(name, trajectories, numbers))))
        cosines.append(found @ exact / np.linalg.norm(found) / np.linalg.norm(exact))
    returns = np.array([t.match_return for t in trajectories for _ in t.turns])
    plain = returns @ exact / np.linalg.norm(returns) / np.linalg.norm(exact)
    assert cosines[1] > cosines[0]
    assert cosines[1] > plain


def test_preferences_find_more_of_the_planted_turn_with_data():
    fresh, cosines = levers(50, seed=1), []
    for matches in (6, 300):
        state, settings = learned("preferences", levers(matches), shrink=1.0)
        found = np.array(estimated("preferences", fresh, state, settings))
        exact = np.array([[0.0, 0.0, one.match_return, 0.0] for one in fresh])
        cosines.append((found * exact).sum() / np.linalg.norm(found) / np.linalg.norm(exact))
    assert cosines[1] > cosines[0]


def test_one_decisive_turn_has_the_margin_of_the_closed_form():
    """Two actions of one observation, F features each: the margin m solves sigmoid(-m) = shrink m / (F pairs).

    Contributions are s in units of return, so those of the two actions differ by what the returns do: 2. And s is a
    log-ratio of policies, so that the mean of e^s over what was played is 1.
    """
    batch = []
    for match in range(40):
        one = trajectory((1.0 if match % 2 else -1.0,), match=match, deal_seed=match // 2)
        batch.append(one._replace(turns=(one.turns[0]._replace(action="good" if match % 2 else "bad"),)))
    state, settings = learned("preferences", batch, shrink=2.0, steps=500)
    bad, good = (row[0] for row in estimated("preferences", batch[:2], state, settings))
    assert good - bad == pytest.approx(2.0, abs=1e-9)
    [part] = state.values()
    fitted = FeatureWeights.from_json(part["fitted"])
    features = [set(action_features(one.turns[0])) for one in batch[:2]]
    numbers = [weights_of(fitted, np.array(sorted(own), np.int64)).sum() for own in features]
    margin, different = numbers[1] - numbers[0], len(features[1] - features[0])
    assert 1.0 / (1.0 + np.exp(margin)) == pytest.approx(
        2.0 * margin / (different * 40), rel=1e-3
    )  # each deal is a pair twice
    assert np.mean(np.exp(np.array([bad, good]) * margin / 2.0)) == pytest.approx(1.0, abs=1e-6)


def test_sequential_advantages_sum_to_the_joint_one(played):
    """In every match to the same critic's value of the end less that of the start, which is the same for all."""
    trajectories = played["tiny_hanabi"][0]
    state, settings = learned("sequential", trajectories, shrink=1.0)
    sums, returns = {}, {}
    for one, row in zip(trajectories, estimated("sequential", trajectories, state, settings), strict=True):
        sums[one.match] = sums.get(one.match, 0.0) + sum(row)
        returns[one.match] = one.match_return
    mean = sum(returns.values()) / len(returns)
    joint = np.array([returns[match] - mean for match in sums])
    assert np.corrcoef(list(sums.values()), joint)[0, 1] > 0.95
    ends = {}  # equal matches have equal ends
    by_match = {}
    for one in trajectories:
        by_match.setdefault(one.match, []).append((one.seat, *((t.observation, t.action) for t in one.turns)))
    for match, said in by_match.items():
        ends.setdefault(tuple(sorted(said)), []).append(sums[match])
    assert max(max(values) - min(values) for values in ends.values()) < 1e-9


def check(game):
    estimator = ESTIMATORS["sequential"]
    estimator.check(ValueFacts(make_game(game).spec, ()), estimator.settings())


def test_only_a_team_has_sequential_advantages():
    with pytest.raises(UsageError, match="not paid alike"):
        check("kuhn_poker")


def test_values_of_tokens_meet_the_turns_at_the_boundaries():
    batch = [
        one._replace(turns=tuple(turn._replace(action=f"go {turn.action} now") for turn in one.turns))
        for one in levers(100)
    ]
    state, settings = learned("token_values", batch, gamma=0.9, shrink=1.0)
    values = estimated("token_values", batch, state, settings)
    untraced = credit("gae_turn", batch, evidence=[Evidence(values=v) for v in values], gamma=0.9, trace_decay=0.0)
    whole = token_values(batch, state, settings)
    for one, row, tokens, advantages in zip(batch, values, whole, untraced.advantages, strict=True):
        for k, at in enumerate(tokens):
            assert len(at) == 4  # before the first of three words, and after each
            assert at[0] == pytest.approx(row[k], abs=1e-12)
            assert at[-1] == pytest.approx(one.rewards[k] + 0.9 * (row[k + 1] if k < 3 else 0.0), abs=1e-12)
            assert sum(np.diff(at)) == pytest.approx(advantages[k], abs=1e-9)
    third = np.array([np.diff(tokens[2]) for tokens in whole])
    assert (np.argmax(np.abs(third), axis=1) == 1).all()  # the word that decides, not those around it


@pytest.mark.parametrize("name", LEARNED)
def test_what_was_learned_is_saved_and_read_back_bit_for_bit(played, name):
    trajectories = played["tiny_hanabi"][0]
    first, settings = learned(name, trajectories[:100], matches=60)
    loaded = json.loads(json.dumps(first))
    after = [ESTIMATORS[name].learn(trajectories[100:200], state, settings) for state in (first, loaded)]
    assert json.dumps(after[0]) == json.dumps(after[1])
    assert estimated(name, trajectories, after[0], settings) == estimated(name, trajectories, after[1], settings)
    assert json.dumps(first) == json.dumps(loaded)  # and nothing was changed in place


@pytest.mark.parametrize("name", LEARNED)
def test_a_policy_that_begins_anew_is_forgotten(played, name):
    trajectories = played["tiny_hanabi"][0][:40]
    state = {name: learned(name, trajectories)[0]}
    policy = trajectories[0].policy
    assert forget_policy(state, "another") == state
    assert forget_policy(state, policy) == {name: {}}


def test_an_unknown_estimator_is_refused_with_the_names():
    with pytest.raises(UsageError, match=r"'archr'.*archer"):
        ESTIMATORS["archr"]


def test_nobody_asks_which_estimator_one_is():
    """What differs between them is said by their entries (``how``, ``kind``, ``check``)."""
    for path in FILES:
        if ROOT / "learners" / "values" not in path.parents:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
            literals = {part.value for node in compared for part in ast.walk(node) if isinstance(part, ast.Constant)}
            assert not literals & set(ESTIMATORS), path
