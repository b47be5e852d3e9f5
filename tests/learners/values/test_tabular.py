"""Estimators without shrinkage are tables: what they say is worked out by plain averages over what was played.

Several policies, roles and games learn side by side, over several iterations, and forget what is too old.
"""

import random
from collections import defaultdict
from math import exp
from statistics import fmean

import pytest
from support.learning.trajectories import trajectory

from arena.records import TokenTrace
from learners.values import ESTIMATORS, forget_policy
from learners.values.token_values import token_values

GAMMA, RECENCY = 0.5, 0.25
KEYS = [("chess", "first", "main"), ("chess", "main", "main"), ("chess", "first", "main 2"), ("go", "main", "probe")]
LEFT, RIGHT = "go left now", "turn right"  # replies of three words and of two


def acting(one, actions):
    turns = [turn._replace(action=action) for turn, action in zip(one.turns, actions, strict=True)]
    return one._replace(turns=tuple(turns))


def walk(rng, key, match):
    """Return a match of 0 to 3 turns: what is seen is what was done so far, and every turn is paid."""
    game, role, policy = key
    moves = [rng.choice([LEFT, RIGHT]) for _ in range(rng.choice([0, 1, 2, 3, 3]))]
    states = [f"seen: {' '.join(moves[:k])}" for k in range(len(moves))]
    bonus = KEYS.index(key)
    paid = [rng.choice([0.0, 1.0]) + (bonus if move == LEFT else 0.0) for move in moves]
    one = trajectory(paid, states, game=game, role=role, policy=policy, match=match, deal_seed=rng.randrange(4))
    return acting(one, moves)


def iterations(seed, count=3, matches=24):
    """Return batches in which the keys are mixed."""
    rng = random.Random(seed)
    return [[walk(rng, rng.choice(KEYS), match) for match in range(matches)] for _ in range(count)]


def learned(name, batches, **settings):
    estimator, state = ESTIMATORS[name], {}
    chosen = estimator.settings(shrink=0.0, **settings)
    for batch in batches:
        state = estimator.learn(batch, state, chosen)
    return estimator.make(batches[-1], state, chosen)


def remembered(batches, matches, name="progress"):
    """Return by role and policy its newest matches, each with how many iterations ago it was played.

    Matches without a turn count, except for ``token_values``.
    """
    seen = defaultdict(list)
    for age, batch in reversed(list(enumerate(reversed(batches)))):
        for one in batch:
            if one.turns or name != "token_values":
                seen[one.game, one.role, one.policy].append((age, one))
    return {key: members[-matches:] for key, members in seen.items()}


def tabular_values(members, gamma, recency):
    """Return V by state: Q over all alike, V over what was done lately. No match has more than three turns."""
    q, v = {}, defaultdict(float)
    for _ in range(3):
        targets, weighed = defaultdict(list), defaultdict(list)
        for _, one in members:
            for turn, paid, after in zip(one.turns, one.rewards, [*one.turns, None][1:], strict=True):
                following = v[after.observation] if after else 0.0
                targets[turn.observation, turn.action].append(paid + gamma * following)
        q = {pair: fmean(values) for pair, values in targets.items()}
        for age, one in members:
            for turn in one.turns:
                weighed[turn.observation].append((recency**age, q[turn.observation, turn.action]))
        for state, pairs in weighed.items():
            v[state] = sum(w * value for w, value in pairs) / sum(w for w, _ in pairs)
    return v


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("matches", [4096, 9])
@pytest.mark.parametrize(("name", "own"), [("archer", {"recency": RECENCY}), ("token_values", {})])
def test_values_are_the_averages_of_the_formula(name, own, matches, seed):
    """Of token values, too: no token is discounted within its turn, and nothing is old."""
    batches = iterations(seed)
    found = learned(name, batches, gamma=GAMMA, matches=matches, sweeps=12, **own)
    recency = own.get("recency", 1.0)
    values = {
        key: tabular_values(members, GAMMA, recency) for key, members in remembered(batches, matches, name).items()
    }
    for one, row in zip(batches[-1], found, strict=True):
        table = values[one.game, one.role, one.policy]
        assert row == pytest.approx([table[turn.observation] for turn in one.turns], abs=1e-3)


@pytest.mark.parametrize(
    ("name", "value"), [("archer", 24 / 30 * 12 / 18), ("token_values", 12 / 18), ("progress", 24 / 30)]
)
def test_all_weights_are_pulled_to_nothing_alike(name, value):
    """Four times one turn of one word, paid 1, and 6 turns that pull each weight: with n features, 4 n / (4 n + 6).

    The state has three features, with the action they are six; V is fitted to what Q has learned.
    """
    batch = [acting(trajectory([1.0], match=match), ["go"]) for match in range(4)]
    settings = {"residual": 0.0} if name == "progress" else {}
    estimator = ESTIMATORS[name]
    chosen = estimator.settings(shrink=6.0, **settings)
    found = estimator.make(batch, estimator.learn(batch, {}, chosen), chosen)
    assert found == [(pytest.approx(value, abs=1e-4),)] * 4


def test_values_of_tokens_are_of_those_that_were_sampled():
    """Replies 5 6 and 5 7 7: after 5 half is to come, after 5 7 the rest; the words of the reply say nothing."""
    batch = []
    for match, (paid, ids) in enumerate([(1.0, (5, 6)), (0.0, (5, 7, 7))] * 4):
        one = trajectory([paid], match=match)
        trace = TokenTrace("main", (0,), ids, (0.0,) * len(ids), None)
        batch.append(one._replace(turns=tuple(turn._replace(trace=trace, action="same words") for turn in one.turns)))
    chosen = ESTIMATORS["token_values"].settings(shrink=0.0)
    [good], [poor], *_ = token_values(batch, ESTIMATORS["token_values"].learn(batch, {}, chosen), chosen)
    assert good == pytest.approx([0.5, 0.5, 1.0], abs=1e-3)
    assert poor == pytest.approx([0.5, 0.5, 0.0, 0.0], abs=1e-3)


@pytest.mark.parametrize("matches", [4096, 9])
@pytest.mark.parametrize("residual", [0.0, 0.25, 1.0])
def test_progress_adds_up_to_the_mean_of_equal_matches_and_a_share_of_the_luck(residual, matches):
    batches = iterations(5)
    found = learned("progress", batches, residual=residual, matches=matches)
    returns = defaultdict(list)
    for key, members in remembered(batches, matches).items():
        for _, one in members:
            returns[key, tuple((turn.observation, turn.action) for turn in one.turns)].append(one.match_return)
    checked = 0
    for one, row in zip(batches[-1], found, strict=True):
        path = tuple((turn.observation, turn.action) for turn in one.turns)
        if known := returns.get(((one.game, one.role, one.policy), path)):
            mean = fmean(known)
            expected = mean + residual * (one.match_return - mean) if row else 0.0
            assert sum(row) == pytest.approx(expected, abs=1e-3)
            checked += bool(row)
    assert checked > 5


@pytest.mark.parametrize("name", [name for name, one in ESTIMATORS.items() if one.forget])
def test_only_what_is_known_of_a_policy_is_forgotten(name):
    """Other policies and roles have its name in theirs, and teams have it in any seat."""
    batch = iterations(1)[0]
    teams = [("main", "probe"), ("probe", "main"), ("main 2", "probe"), ("probe", "probe")]
    if name == "sequential":
        batch = [one._replace(players=teams[one.match % 4]) for one in batch]
    estimator = ESTIMATORS[name]
    state = estimator.learn(batch, {}, estimator.settings())
    left = forget_policy({name: state, "critic": {"kept": 1}}, "main")
    assert left["critic"] == {"kept": 1}
    assert 1 < len(left[name]) < len(state)
    kept = [key for key in state if "main" not in (key.split("/")[1:] if name == "sequential" else key.split("/")[-1:])]
    assert left[name] == {key: state[key] for key in kept}


def coins(pays, counts, **fields):
    """Return matches of one turn, as many of each move as ``counts`` says, and paid by the move."""
    moves = [move for move, count in counts.items() for _ in range(count)]
    random.Random(1).shuffle(moves)
    return [acting(trajectory((pays[move],), match=n, **fields), [move]) for n, move in enumerate(moves)]


@pytest.mark.parametrize("scale", [0.1, 1.0, 7.0])
def test_preferences_are_in_units_of_the_return(scale):
    """Of two moves from one state the better adds what it earns more, whatever the weights and how often it is made.

    A second policy, which is paid the other way round, learns beside it.
    """
    counts = {"left": 5, "right": 9}
    batch = [
        *coins({"left": scale, "right": -scale}, counts, deal_seed=1),
        *coins({"left": -3.0 * scale, "right": scale}, counts, deal_seed=1, policy="probe"),
    ]
    batch = batch[::2] + batch[1::2]
    estimator = ESTIMATORS["preferences"]
    chosen = estimator.settings(shrink=1.0)
    state = estimator.learn(batch, {}, chosen)
    found = estimator.make(batch, state, chosen)
    by_move = {(one.policy, one.turns[0].action): row[0] for one, row in zip(batch, found, strict=True)}
    assert by_move["main", "left"] - by_move["main", "right"] == pytest.approx(2.0 * scale, rel=1e-6)
    assert by_move["probe", "left"] - by_move["probe", "right"] == pytest.approx(-4.0 * scale, rel=1e-6)
    for policy, key in (("main", "kuhn_poker/first/main"), ("probe", "kuhn_poker/first/probe")):
        slope = max(map(abs, state[key]["weights"][1])) / max(map(abs, state[key]["fitted"][1]))
        implicit = [counts[move] / 14 * exp(by_move[policy, move] / slope) for move in counts]  # phi = pi e^s
        assert sum(implicit) == pytest.approx(1.0)


def test_a_new_observation_is_preferred_for_the_sum_of_what_its_words_say():
    """Of an observation that was never met, words count where they stood; what was not met there counts nothing."""
    batch = []
    for match in range(32):
        state, sign = ("p r", "s q")[match % 2], (1.0, -1.0)[match // 2 % 2]
        one = trajectory((sign * (2.0 if state == "p r" else 1.0),), [state], match=match, deal_seed=match % 2)
        batch.append(acting(one, ["left" if sign > 0.0 else "right"]))
    estimator = ESTIMATORS["preferences"]
    chosen = estimator.settings(shrink=1.0)
    state = estimator.learn(batch, {}, chosen)
    unseen = [acting(trajectory((0.0,), [text]), ["left"]) for text in ("p q", "z z", "p z", "z q")]
    both, neither, first, second = (row[0] for row in estimator.make(unseen, state, chosen))
    assert both + neither == pytest.approx(first + second)
    assert min(first, second) > neither + 1e-3


def test_preferences_are_within_a_deal_and_never_turned_round():
    """Left is better on either deal, but was mostly chosen on the poor one: by returns over all matches it looks worse.

    So pairs are those of a deal, and their rewards, which fall as returns rise, explain nothing.
    """
    good = coins({"left": 11.0, "right": 10.0}, {"left": 1, "right": 3}, deal_seed=1)
    poor = coins({"left": -10.0, "right": -11.0}, {"left": 3, "right": 1}, deal_seed=2)
    estimator = ESTIMATORS["preferences"]
    chosen = estimator.settings(shrink=0.1)
    state = estimator.learn([*good, *poor], {}, chosen)
    assert {value for row in estimator.make([*good, *poor], state, chosen) for value in row} == {0.0}
    level = [one._replace(match_return=one.match_return + 20.0 * (one.deal_seed == 2)) for one in [*good, *poor]]
    state = estimator.learn(level, {}, chosen)  # with deals that pay nearly alike, left is better
    rows = estimator.make(level, state, chosen)
    assert all((row[0] > 0.0) == (one.turns[0].action == "left") for one, row in zip(level, rows, strict=True))


def team_match(rng, match, players):
    """Return the trajectories of one match of a team of two; who begins, and how turns alternate, is drawn.

    Beside the game's return one seat is paid a half, and the other pays it.
    """
    seats = [rng.randrange(2) for _ in range(rng.choice([2, 3, 4]))]
    moves = [rng.choice("xy") for _ in seats]
    worth = sum(move == "xy"[seat] for seat, move in zip(seats, moves, strict=True)) + rng.random()
    parts = []
    for seat in (0, 1):
        order = [k for k, one in enumerate(seats) if one == seat]
        fields = {"game": "tiny_hanabi", "role": f"seat {seat}", "seat": seat, "match": match, "players": players}
        states, fields["order"] = ["see"] * len(order), tuple(order)
        one = trajectory([0.0] * len(order), states, worth + seat - 0.5, policy=players[seat], **fields)
        parts.append(acting(one, [moves[k] for k in order]))
    return parts, list(zip(seats, moves, strict=True)), worth


@pytest.mark.parametrize("matches", [4096, 30])
def test_sequential_advantages_are_steps_between_means_of_what_was_said_so_far(matches):
    """A history is what all seats did in the order of the match, not seat by seat; two teams learn apart."""
    rng, batches, lines = random.Random(3), [], {}
    totals = {team: [] for team in [("main", "main"), ("main", "probe")]}
    for number in range(2):
        played = []
        for match in rng.sample(range(80), 80):
            players = rng.choice(list(totals))
            parts, line, worth = team_match(rng, match, players)
            played += parts
            lines[number, match] = line, worth
        batches.append(rng.sample(played, len(played)))
        for match in dict.fromkeys(one.match for one in batches[-1]):
            players = next(one.players for one in played if one.match == match)
            totals[players].append(lines[number, match])
    means = {}
    for players, past in totals.items():
        after = defaultdict(list)
        for line, worth in past[-matches:]:
            for count in range(len(line) + 1):
                after[tuple(line[:count])].append(worth)
        means[players] = {history: fmean(values) for history, values in after.items()}
    checked = 0
    for one, row in zip(batches[-1], learned("sequential", batches, matches=matches), strict=True):
        line, table = lines[1, one.match][0], means[one.players]
        for k, gain in zip(one.order, row, strict=True):
            steps = [table.get(tuple(line[:count])) for count in (k, k + 1)]
            if None not in steps:
                assert gain == pytest.approx(steps[1] - steps[0], abs=5e-3)
                checked += 1
    assert checked > 60


def test_a_teams_return_is_the_mean_over_its_seats_also_where_some_are_paid_alike():
    """Of three seats paid 0, 0 and 3 it is 1, not the mean of 0 and 3."""
    batch = []
    for match, moves in enumerate(["aaa", "bbb"] * 4):
        for seat, move in enumerate(moves):
            paid = 3.0 * (seat == 2) * (move == "a")
            fields = {"seat": seat, "match": match, "players": ("main",) * 3, "order": (seat,), "role": f"seat {seat}"}
            batch.append(acting(trajectory([paid], **fields), [move]))
    gains = [sum(row[0] for row in rows) for rows in zip(*[iter(learned("sequential", [batch]))] * 3, strict=True)]
    assert gains == pytest.approx([0.5, -0.5] * 4, abs=1e-3)  # from the mean, a half, to 1 and to 0
