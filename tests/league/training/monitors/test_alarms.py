"""A fault that is planted in a run's data rings, where it was planted; a run without one stays silent."""

import json
import random
from types import SimpleNamespace

import pytest
from support.learning.trajectories import trajectory, turn
from support.source import ROOT

from arena.records import TokenTrace
from games.common.section import Section
from games.registry import make_game
from league.config.learning import AlarmsConfig, TrainerConfig
from league.training.monitors.alarm import AlarmRule, Ledger
from league.training.monitors.alarms import ALARMS, check_alarms, forget_alarms
from league.training.monitors.history_alarms import DRIFTED, WINDOW, RoleStats, _judge_drift
from league.training.monitors.reply_alarms import count_repeats, reasoning_tokens
from learners.advantages import assign_credit
from learners.advantages.rae import Settings
from learners.trajectories import Evidence
from roles.cards import load_roles, with_overrides

GAME = "kuhn_poker"
SETTINGS = AlarmsConfig()
CHOICE = {GAME: tuple(load_roles(make_game(GAME).spec))}
FREE = {GAME: tuple(with_overrides(role, reply="free", on_illegal="forfeit") for role in CHOICE[GAME])}
FIRST, SECOND = (f"{GAME}/{role.name}" for role in CHOICE[GAME])
CONTEXT = SimpleNamespace(config=SimpleNamespace(alarms=SETTINGS, trainer=TrainerConfig()), roles=CHOICE)
ITERATIONS, PLANTED = 45, 25
JUDGED = SETTINGS.warmup + 2 * WINDOW  # the first iteration in which a role is judged
WORDS = [f"word{number}" for number in range(100)]
TEMPLATE = "I always say the same thing whatever my card is [bet]"


OF_STRATEGY = {"signal", "collapse"}


def match(deal, returns, replies=("[bet]", "[bet]")):
    """Return the trajectories of a match in which each seat replies once; every word of a reply is a token."""
    trajectories = []
    for seat, (total, reply) in enumerate(zip(returns, replies, strict=True)):
        length = len(reply.split())
        trace = TokenTrace("main", (1,), (2,) * length, (0.0,) * length, None)
        full = trajectory((total,), match=deal, deal_seed=deal, seat=seat, role=CHOICE[GAME][seat].name)
        trajectories.append(full._replace(turns=(turn(total, seat=seat, trace=trace)._replace(reply=reply),)))
    return trajectories


def run(iterations, baseline="role", roles=CHOICE, entropies=None):
    """Return each iteration's alarms by (name, subject), and metrics. Credit is rae's; the state goes through JSON."""
    settings = Settings(baseline=baseline)
    context = SimpleNamespace(config=CONTEXT.config, roles=roles)
    credit_state, state, ringing, measured = {}, {}, [], []
    for number, trajectories in enumerate(iterations, start=1):
        evidence = [Evidence()] * len(trajectories)
        credited = assign_credit(trajectories, evidence, credit_state, lambda *_: "rae", lambda _: settings)
        advantages, credit_state = credited.advantages, credited.state
        metrics = {"main/entropy": entropies[number - 1]} if entropies else {}
        alarms, numbers, state = check_alarms(context, state, number, trajectories, advantages, metrics)
        state = json.loads(json.dumps(state))
        ringing.append({(alarm.name, alarm.subject): alarm for alarm in alarms})
        measured.append({name: value for name, value in numbers.items() if name.split("/")[1] not in OF_STRATEGY})
    return ringing, measured


def names(ringing):
    """Return what rang, without the alarms about strategy: these replies are all alike (test_strategy_alarms)."""
    return {key for alarms in ringing for key in alarms if key[0] not in OF_STRATEGY}


def zero_sum(rng, chance, deals, length=lambda seat: 0):
    """Return one iteration: the first seat wins, +1 to −1, with a probability; the seats say this many words."""
    matches = [
        match(
            rng.getrandbits(40),
            (1.0, -1.0) if rng.random() < chance else (-1.0, 1.0),
            [talk(rng, length(seat)) for seat in range(2)],
        )
        for _ in range(deals)
    ]
    return [seat_trajectory for pair in matches for seat_trajectory in pair]


def cooperative(rng, chance, deals):
    """Return one iteration of a cooperative game: both seats get 1 with a probability, else −1."""
    draws = [1.0 if rng.random() < chance else -1.0 for _ in range(deals)]
    return [seat_trajectory for draw in draws for seat_trajectory in match(rng.getrandbits(40), (draw, draw))]


def talk(rng, words):
    return " ".join([*rng.choices(WORDS, k=words), f"[{rng.choice(['bet', 'pass'])}]"])


def test_one_baseline_for_two_unequal_seats_rings_for_both_until_it_is_mended():
    rng = random.Random(0)
    data = [zero_sum(rng, 0.85, 64) for _ in range(ITERATIONS)]
    ringing, measured = run(data, "game")
    assert names(ringing) == {("drift", FIRST), ("drift", SECOND)}
    assert {alarm.since for alarm in ringing[-1].values()} == {JUDGED}
    assert "mean of its advantages is +0." in ringing[-1]["drift", FIRST].message
    assert "mean of its advantages is -0." in ringing[-1]["drift", SECOND].message
    assert [line.get("alarms/drift") for line in measured] == [None] * (JUDGED - 1) + [1.0] * (ITERATIONS - JUDGED + 1)
    assert not names(run(data, "role")[0])


@pytest.mark.parametrize("deals", [4, 16, 64])
def test_a_baseline_for_each_role_never_rings_however_small_the_batch(deals):
    false = sum(
        bool(names(run(zero_sum(random.Random(f"{seed} {i}"), 0.75, deals) for i in range(ITERATIONS))[0]))
        for seed in range(1200 // (deals + 16))
    )
    assert false == 0


def test_a_baseline_that_lags_behind_what_is_learned_does_not_ring():
    """Judged by its mean alone, every one of these runs would: a baseline of 20 iterations lags 10 of these."""
    for seed in range(10):
        rng = random.Random(seed)
        data = [cooperative(rng, min(0.3 + i / 50, 0.99), 64) for i in range(ITERATIONS)]
        assert not names(run(data)[0])
        late = [played.match_return for iteration in data[20:25] for played in iteration]
        early = [played.match_return for iteration in data[:20] for played in iteration]
        assert sum(late) / len(late) - sum(early) / len(early) > DRIFTED


def with_exploiter(pairs, chance, rng):
    """Return an iteration in which a second policy has the first seat in every other match, and its own returns."""
    played = []
    for i, (first, second) in enumerate(zip(pairs[::2], pairs[1::2], strict=True)):
        total = 1.0 if rng.random() < chance else -1.0
        played += [first._replace(policy="probe", match_return=total) if i % 2 else first, second]
    return played


def test_two_policies_in_one_role_are_judged_apart():
    """Pooled, +0.7 of one and -0.7 of the other are no drift; apart, both drift, each under its own name."""
    rng, state, ringing = random.Random(3), {}, []
    for i in range(ITERATIONS):
        data = with_exploiter(zero_sum(rng, 0.85, 64), 0.15, rng)
        advantages = [[t.match_return if t.role == CHOICE[GAME][0].name else 0.0] for t in data]  # no baseline
        alarms, _, state = check_alarms(CONTEXT, state, i + 1, data, advantages, {})
        state = json.loads(json.dumps(state))
        ringing.append({(alarm.name, alarm.subject) for alarm in alarms if alarm.name not in OF_STRATEGY})
    assert ringing[JUDGED - 2 : JUDGED] == [set(), {("drift", FIRST), ("drift", f"{FIRST} (probe)")}]
    assert "mean of its advantages is -0." in next(a.message for a in alarms if "probe" in a.subject)
    own = with_exploiter(zero_sum(rng, 0.85, 64), 0.15, rng)
    mended = [[t.match_return - {"main": 0.7, "probe": -0.7}[t.policy]] if not t.seat else [0.0] for t in own]
    for i in range(ITERATIONS):
        alarms, _, state = check_alarms(CONTEXT, state, ITERATIONS + i, own, mended, {})
    assert not [alarm for alarm in alarms if alarm.name not in OF_STRATEGY]


def test_a_policy_that_begins_anew_is_judged_as_a_new_one_and_its_alarms_end():
    rng, state = random.Random(4), {}
    for i in range(ITERATIONS):
        data = with_exploiter(zero_sum(rng, 0.85, 64), 0.15, rng)
        advantages, metrics = [[t.match_return] for t in data], {"main/entropy": 0.0, "probe/entropy": 0.0}
        alarms, _, state = check_alarms(CONTEXT, state, i + 1, data, advantages, metrics)
    subjects = [FIRST, SECOND, f"{FIRST} (probe)", "main", "probe"]
    assert sorted(alarm.subject for alarm in alarms) == sorted(subjects)
    before = json.dumps(state)
    after = forget_alarms(state, "probe")
    assert json.dumps(state) == before
    alarms, _, state = check_alarms(CONTEXT, after, ITERATIONS + 1, data, advantages, metrics)
    assert sorted(alarm.subject for alarm in alarms) == sorted([FIRST, SECOND, "main"])
    for i in range(JUDGED - 1):
        assert f"{FIRST} (probe)" not in {alarm.subject for alarm in alarms}, "its warmup begins again"
        alarms, _, state = check_alarms(CONTEXT, state, ITERATIONS + 2 + i, data, advantages, metrics)
    assert f"{FIRST} (probe)" in {alarm.subject for alarm in alarms}
    assert forget_alarms({}, "probe")["ringing"] == []


def test_a_baseline_that_stops_following_rings_after_it_stops():
    rng = random.Random(1)
    state, ringing = {}, []
    for i in range(ITERATIONS):
        data = cooperative(rng, 0.5 if i < PLANTED else 0.8, 64)
        advantages = [[played.match_return] for played in data]  # the baseline is 0, as it should be until PLANTED
        alarms, _, state = check_alarms(CONTEXT, state, i + 1, data, advantages, {})
        ringing.append({alarm.subject: alarm.since for alarm in alarms})
    assert not any(ringing[:PLANTED])
    assert set(ringing[-1]) == {FIRST, SECOND}
    assert all(PLANTED < since <= PLANTED + 2 * WINDOW + 1 for since in ringing[-1].values())


@pytest.mark.parametrize(("moved", "rings"), [(0.0, True), (0.0520, True), (0.0530, False), (-0.2, True)])
def test_a_baseline_follows_that_closes_a_twentieth_of_its_distance_to_the_returns(moved, rings):
    """It was 1 + moved away from them, and is 1 away: 0.0526 of 1.0526 is a twentieth."""

    def stats(baseline):
        """400 turns on as many deals with a mean advantage of 1 and a standard deviation of 0.1."""
        return RoleStats(400, 400, 0.0, 0.0, 400, 400 * (1.0 + baseline), 400.0, 400 * 1.01, 0.0, 0, 0, 0)

    assert bool(_judge_drift(stats(0.0), stats(0.0), stats(moved), SETTINGS)) == rings


@pytest.mark.parametrize(("deals", "rings"), [(25, False), (400, True)])
def test_what_chance_may_do_is_told_by_the_deals_however_many_turns_they_have(deals, rings):
    """400 turns, their mean 0.4 standard deviations beyond ``drift``: 3/√25 = 0.6 may be chance, 3/√400 = 0.15."""
    mean = DRIFTED + 0.4
    stats = RoleStats(400, deals, 0.0, 0.0, 400, 400 * mean, 400 * mean, 400 * (1.0 + mean**2), 0.0, 0, 0, 0)
    assert bool(_judge_drift(stats, stats, stats, SETTINGS)) == rings


def test_returns_that_never_vary_do_not_ring_by_rounding():
    data = ([played for deal in range(8) for played in match(deal, (0.1, 0.7))] for _ in range(400))
    assert not names(run(data)[0])


def test_reasoning_that_shrinks_to_nothing_rings_for_its_role_alone():
    rng = random.Random(2)
    data = [zero_sum(rng, 0.5, 16, lambda seat, i=i: 2 if seat and i >= PLANTED else 30) for i in range(ITERATIONS)]
    ringing, measured = run(data, roles=FREE)
    assert names(ringing) == {("reasoning", SECOND)}
    assert PLANTED < ringing[-1]["reasoning", SECOND].since <= PLANTED + WINDOW
    assert "tokens a reply, from 30" in ringing[-1]["reasoning", SECOND].message
    assert measured[-1] == {"alarms/drift": 0.0, "alarms/reasoning": 1.0, "alarms/echo_trap": 0.0}


def echoing(rng, replies_fall, variance_falls):
    """Return a run whose replies become one template, whose returns become certain, or both, once it is planted."""
    for i in range(ITERATIONS):
        fallen, matches = i >= PLANTED, []
        for _ in range(16):
            sure = fallen and variance_falls and rng.random() < 0.95
            draw = 1.0 if sure or rng.random() < 0.5 else -1.0
            replies = [TEMPLATE if fallen and replies_fall else talk(rng, 20) for _ in range(2)]
            matches += match(rng.getrandbits(40), (draw, draw), replies)
        yield matches


@pytest.mark.parametrize("seed", range(3))
def test_the_echo_trap_is_repetition_with_falling_variance_and_neither_alone(seed):
    echo = {("echo_trap", FIRST), ("echo_trap", SECOND)}
    ringing, _ = run(echoing(random.Random(seed), True, True), roles=FREE)
    assert names(ringing) == echo
    assert PLANTED < ringing[-1]["echo_trap", FIRST].since <= PLANTED + WINDOW
    assert not names(run(echoing(random.Random(seed), True, False), roles=FREE)[0])
    assert not names(run(echoing(random.Random(seed), False, True), roles=FREE)[0])


def test_replies_that_are_choices_are_not_judged_by_their_words():
    ringing, measured = run(echoing(random.Random(0), True, True))
    assert not names(ringing)
    assert measured[-1] == {"alarms/drift": 0.0}


def test_free_replies_of_wild_lengths_ring_in_no_healthy_run():
    ringing = []
    for seed in range(12):
        rng = random.Random(seed)
        ringing += run(
            (
                zero_sum(rng, 0.6, 6, lambda seat, rng=rng: int(rng.lognormvariate(3 - seat, 1)))
                for _ in range(ITERATIONS)
            ),
            roles=FREE,
        )[0]
    assert not names(ringing)


def test_entropy_rings_while_it_is_outside_its_band():
    entropies = [0.5] * 20 + [0.001] * 10 + [0.5] * 20
    ringing, measured = run(([*match(0, (1.0, -1.0))] for _ in entropies), entropies=entropies)
    rings = [("entropy", "main") in alarms for alarms in ringing]
    assert rings == [False] * 24 + [True] * 6 + [False] * 20  # the mean of five updates is under 0.02 with the fifth
    assert ringing[29]["entropy", "main"].since == 25
    assert [line["alarms/entropy"] for line in measured[WINDOW - 1 :]] == [float(ring) for ring in rings[WINDOW - 1 :]]


def test_an_alarm_rings_on_while_its_game_is_not_due():
    rng = random.Random(0)
    data = [zero_sum(rng, 0.85, 64) for _ in range(JUDGED)] + [[], []]
    ringing, measured = run(data, "game")
    assert ringing[-1] == ringing[JUDGED - 1] != {}
    assert measured[-1] == {"alarms/drift": 1.0}


def test_repeats_are_counted_in_a_reply_and_between_replies():
    assert count_repeats(["a b c d e", "z a b c d"]) == (1, 4)  # abcd, bcde, zabc, and abcd again
    assert count_repeats(["x y x y x y x y"]) == (3, 5)
    assert count_repeats(["yes", "no", "yes"]) == (1, 3)


def test_reasoning_is_what_stands_before_the_last_mark():
    role = FREE[GAME][0]
    assert reasoning_tokens(role, "[pass] or [bet]", 15) == 10
    assert reasoning_tokens(role, "[bet]", 5) == 0
    assert reasoning_tokens(role, "hm ...", 6) == 6


def test_an_alarm_that_is_registered_after_the_run_was_configured_has_its_own_defaults(monkeypatch):
    class Own(Section):
        """When it rings."""

        odd: float = 2.5

    rule = AlarmRule(lambda number, settings: f"{number} {settings.odd}", Own, ledger=Ledger(lambda *_: ({"a": 1}, {})))
    monkeypatch.setitem(ALARMS, "odd", rule)
    [alarm], numbers, _ = check_alarms(CONTEXT, {}, 4, [], [], {})
    assert str(alarm) == "Alarm since iteration 4, odd of a: 1 2.5"
    assert numbers == {"alarms/odd": 1.0}


def test_an_alarm_of_one_batch_is_over_with_the_next():
    context, state, rang = CONTEXT, {}, []
    for iteration, metrics in enumerate(({"main/dropped": 1.0, "main/gap": 0.5}, {"main/gap": 0.1}), 1):
        alarms, _, state = check_alarms(context, state, iteration, (), (), metrics)
        rang.append([(alarm.name, alarm.subject, alarm.since) for alarm in alarms])
    assert rang == [[("dropped_batch", "main", 1)], []]


def test_the_page_lists_every_alarm():
    page = (ROOT / "docs/guide/league.md").read_text(encoding="utf-8")
    rows = "".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    assert [name for name in ALARMS.loaded() if f"`{name}`" not in rows] == []


def test_a_planted_spike_of_the_gradient_rings_at_once_and_is_over_with_the_next():
    state, rang = {}, []
    for iteration, norm in enumerate([1.0, 1.2, 0.9, 1.1, 1.0, 9.0, 30.0, 1.0], 1):
        alarms, _, state = check_alarms(CONTEXT, state, iteration, (), (), {"main/grad_norm": norm})
        rang += [(iteration, alarm.name, alarm.subject) for alarm in alarms]
    assert rang == [(7, "spike", "main")]
