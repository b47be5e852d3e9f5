"""Rules of descent, on learners whose every value is known: gradient descent on x², whose best rate is one step."""

import math
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from league.config import RunConfig
from league.config.matchmaking import DescentConfig
from league.lab.breeding import gate
from league.lab.breeding.gate import Gain, ranked
from league.lab.breeding.rules import cross, explored, generations, merge, mutate, revert
from league.lab.breeding.slot import Candidate, Slot
from league.population.storage.population import Origin
from league.theory.statistics import Estimate
from league.training.board.metrics_log import MetricsLog

RATE = "optimizer.learning_rate"
CONFIG = DescentConfig(mutate={RATE: (1e-6, 1e1)})


class Learners:
    """Members at points x, each of which takes steps x ← x − rate · 2x; what they are worth is −x²."""

    def __init__(self, rate, seed, count=6):
        self.rng = random.Random(seed)
        self.members = [Candidate(f"m{i}", Path(f"g/m{i}"), {RATE: rate}) for i in range(count)]
        self.members[1:] = [
            member._replace(settings=explored(member.settings, CONFIG, self.rng)) for member in self.members[1:]
        ]
        self.points = {member.run: 10.0 for member in self.members}
        self.elites = []

    def better(self, first, second):
        return Gain(self.points[second.run] ** 2 - self.points[first.run] ** 2, 0.0, 0.95)

    def generation(self):
        for member in self.members:
            for _ in range(3):
                step = self.points[member.run] * (1.0 - 2.0 * member.settings[RATE])
                self.points[member.run] = max(min(step, 1e6), -1e6)
        ranking = tuple(sorted(self.members, key=lambda member: self.points[member.run] ** 2))
        self.elites.append(ranking[0].settings[RATE])
        descents = [mutate(Slot(member, ranking, self.better, None, CONFIG, self.rng, None)) for member in self.members]
        points = {m.run: self.points[d.source.run] for m, d in zip(self.members, descents, strict=True)}
        self.members = [m._replace(settings=d.settings) for m, d in zip(self.members, descents, strict=True)]
        self.points = points
        return ranking, descents


@pytest.mark.parametrize("seed", range(5))
def test_population_based_training_finds_a_planted_rate_from_a_bad_start(seed):
    """A rate of 1e-6 leaves x at 10 for ever; those from 0.05 to 0.95 divide x² by 3.5 in a generation, or by more."""
    learners = Learners(1e-6, seed)
    for _ in range(15):
        learners.generation()
    assert 0.05 < learners.elites[-1] < 0.95
    assert min(map(abs, learners.points.values())) < 0.1


def test_the_upper_half_goes_on_and_the_lower_half_takes_over_only_who_is_better():
    learners = Learners(0.3, 0, count=4)
    learners.members = [
        m._replace(settings={RATE: rate}) for m, rate in zip(learners.members, (0.3, 0.2, 1e-6, 1e-6), strict=True)
    ]
    ranking, descents = learners.generation()
    assert [member.name for member in ranking[:2]] == ["m0", "m1"]
    assert [descent.source.name for descent in descents] == ["m0", "m1", "m0", "m1"]
    assert [descent.how for descent in descents[:2]] == ["", ""]
    assert descents[2].how.startswith("took over g/m0 (gain +")
    assert descents[2].parents == ("g/m0",)
    level = Slot(ranking[3], ranking, lambda a, b: Gain(0.2, 0.2, 0.95), None, CONFIG, random.Random(0), None)
    stayed = mutate(level)
    assert stayed.source == ranking[3]
    assert stayed.how.startswith("stayed, as g/m0 is no better") or stayed.how.startswith("stayed, as g/m1")


def test_settings_stay_in_their_ranges():
    rng, config = random.Random(1), DescentConfig(mutate={RATE: (1e-3, 1e-2)}, factor=100.0)
    drawn = [explored({RATE: 5e-3}, config, rng)[RATE] for _ in range(300)]
    assert min(drawn) == pytest.approx(1e-3)
    assert max(drawn) == pytest.approx(1e-2)
    assert len({round(math.log(value), 6) for value in drawn}) > 50


def test_settings_that_are_drawn_anew_are_drawn_by_their_order_of_magnitude():
    """From 1e-6 to 10 a third lies below 1e-6 · 10^(7/3), a third above 10 / 10^(7/3); a second setting has its own."""
    ranges = {RATE: (1e-6, 1e1), "objective.entropy": (0.5, 2.0)}
    rng, config = random.Random(2), DescentConfig(mutate=ranges, resample=1.0)
    drawn = [explored({"objective.entropy": 1.0, RATE: 5e-3}, config, rng) for _ in range(600)]
    for name, (low, high) in ranges.items():
        logs = sorted(math.log(one[name] / low) / math.log(high / low) for one in drawn)
        assert logs[0] >= 0.0
        assert logs[-1] <= 1.0
        for share in (1 / 3, 1 / 2, 2 / 3):
            assert sum(value < share for value in logs) / 600 == pytest.approx(share, abs=0.07)


@pytest.mark.parametrize("count", range(1, 8))
def test_the_lower_half_is_replaced_and_of_an_odd_number_the_middle_stays(count):
    members = [Candidate(f"m{i}", Path(f"g/m{i}"), {}) for i in range(count)]
    ranking = tuple(random.Random(count).sample(members, count))
    slots = {one.name: Slot(one, ranking, None, None, CONFIG, random.Random(0), None) for one in members}
    assert [slots[one.name].rank for one in ranking] == list(range(count))
    assert [slots[one.name].is_replaced for one in ranking] == [
        2 * place >= count + count % 2 for place in range(count)
    ]


class Shelf:
    """Runs whose policies' weights are known."""

    def __init__(self, weights):
        self._weights = weights

    def weights(self, run):
        return {name: {"w": torch.tensor(row)} for name, row in self._weights[run].items()}

    def root(self, run):
        return {name: {"w": torch.zeros(2)} for name in self._weights[run]}

    def played(self, run):
        return run / "matches"


def test_a_merger_weighs_parents_by_their_rank_policy_by_policy():
    """The best three of four, whatever the order of the slots, weigh 3/6, 2/6 and 1/6; the upper half continues."""
    members = [Candidate(f"m{i}", Path(f"g/m{i}"), {RATE: 0.1 * i}) for i in range(4)]
    ranking = tuple(members[i] for i in (2, 0, 3, 1))
    values = {2: (6.0, 0.0), 0: (0.0, 12.0), 3: (18.0, 6.0), 1: (600.0, 600.0)}
    shelf = Shelf({members[i].run: {"main": row, "probe": row[::-1]} for i, row in values.items()})
    config = DescentConfig(parents=3, merge="weighted")
    for member in members:
        found = merge(Slot(member, ranking, None, None, config, random.Random(0), shelf))
        if member in ranking[:2]:
            assert (found.source, found.weights, found.parents) == (member, None, ())
            continue
        assert (found.source, found.settings, found.origin) == (members[2], members[2].settings, Origin.MERGED)
        assert found.parents == ("g/m2", "g/m0", "g/m3")
        assert found.weights["main"]["w"].tolist() == pytest.approx([6.0, 5.0])
        assert found.weights["probe"]["w"].tolist() == pytest.approx([5.0, 6.0])


@pytest.mark.parametrize("seed", range(6))
def test_children_are_crossed_from_two_of_the_upper_half(seed, monkeypatch):
    """Of five the best three, whatever the order of the slots; without noise they are the mean of their parents."""
    monkeypatch.setattr("league.lab.breeding.rules.NOISE", 0.0)
    members = [Candidate(f"m{i}", Path(f"g/m{i}"), {RATE: 0.1 * i}) for i in range(5)]
    ranking = tuple(members[i] for i in (3, 1, 4, 0, 2))
    shelf = Shelf({one.run: {"main": (2.0**i, 0.0), "probe": (0.0, 3.0**i)} for i, one in enumerate(members)})
    slot = Slot(members[2], ranking, None, None, CONFIG, random.Random(seed), shelf)
    found = cross(slot)
    parents = [next(one for one in members if one.newest == name) for name in found.parents]
    assert len(set(found.parents)) == 2
    assert {one.name for one in parents} < {"m3", "m1", "m4"}
    assert (found.source, found.settings) == (parents[0], parents[0].settings)
    numbers = [members.index(one) for one in parents]
    assert found.weights["main"]["w"].tolist() == pytest.approx([sum(2.0**i for i in numbers) / 2, 0.0])
    assert found.weights["probe"]["w"].tolist() == pytest.approx([0.0, sum(3.0**i for i in numbers) / 2])


def test_every_child_of_a_generation_begins_anew_and_imitates_the_best():
    members = [Candidate(f"m{i}", Path(f"g/m{i}"), {RATE: 0.1 * i}) for i in range(3)]
    ranking = tuple(members[i] for i in (1, 2, 0))
    shelf = Shelf({one.run: {"main": (1.0, 1.0)} for one in members})
    for member in members:
        found = generations(Slot(member, ranking, None, None, CONFIG, random.Random(0), shelf))
        assert (found.source, found.settings, found.origin) == (member, member.settings, Origin.RESET)
        assert (found.imitate, found.parents) == (Path("g/m1/matches"), ("g/m1",))
        assert found.weights["main"]["w"].tolist() == [0.0, 0.0]


def test_exact_values_are_in_halves_of_a_games_range_as_last_measured(tmp_path):
    """A return of 8 of 0 to 10, and an exploitability of 0.3 of -2 to 2; what was measured before does not count."""
    config = RunConfig(games={"tiny_hanabi": {}, "kuhn_poker": {}})
    with MetricsLog(tmp_path) as board:
        board.write(0, {"tiny_hanabi/return": 1.0, "kuhn_poker/exploitability": 0.5})
        board.write(4, {"kuhn_poker/exploitability": 0.3, "kuhn_poker/return": 7.0})
        board.write(5, {"tiny_hanabi/return": 8.0, "tiny_hanabi/exploitability": 7.0})
    assert gate.exact_values(config, tmp_path) == pytest.approx({"tiny_hanabi": 1.6, "kuhn_poker": -0.15})
    assert gate.exact_values(RunConfig(games={"kuhn_poker": {}, "leduc_poker": {}}), tmp_path) is None


def test_runs_of_several_games_are_judged_by_the_mean_of_their_leads(monkeypatch, tmp_path):
    """Leads 0.2 ± 0.3 of 2 in Kuhn poker and 0.5 ± 0.4 of 1 in tic-tac-toe: in halves of their ranges 0.1 and 0.5."""
    leads = {"kuhn_poker": (0.2, 0.3), "tic_tac_toe": (0.5, 0.4)}

    def compare(players, *_):
        assert [name for name, _ in players] == [str(tmp_path / "one"), str(tmp_path / "two")]
        mean, error = leads[players[0][1]]
        return SimpleNamespace(lead=Estimate(mean, mean - 1.96 * error, mean + 1.96 * error))

    monkeypatch.setattr(gate, "exact_values", lambda *_: None)
    monkeypatch.setattr(gate, "resolve", lambda name, spec, _: (name, spec.name))
    monkeypatch.setattr(gate, "compare", compare)
    config = RunConfig(games={game: {} for game in leads})
    found = gate.judge(config, tmp_path / "one", tmp_path / "two", 0)
    assert found.gain == pytest.approx(0.3)
    assert found.error == pytest.approx((0.15**2 + 0.4**2) ** 0.5 / 2, rel=1e-4)


def test_go_back_returns_to_who_was_better_and_plays_other_matches():
    now, before = (Candidate("m0", Path(f"{name}/m0"), {}) for name in ("g001", "g000"))
    for gain, source in ((0.3, before), (-0.3, now)):
        verdict = Gain(gain, 0.0, 0.95)
        slot = Slot(now, (now,), lambda a, b, v=verdict: v, before, CONFIG, random.Random(0), None)
        descent = revert(slot)
        assert descent.source == source
        assert descent.reseed == (source is before)
        assert descent.parents == (("g000/m0",) if source is before else ())


def test_a_gain_is_one_only_beyond_its_error():
    assert Gain(0.2, 0.1, 0.95).better
    assert not Gain(0.16, 0.1, 0.95).better  # 1.6 errors; 1.645 are needed
    assert not Gain(0.0, 0.0, 0.95).better
    assert Gain(1e-6, 0.0, 0.95).better


def test_a_ranking_is_by_the_mean_gain():
    a, b, c = (Path(name) for name in "abc")
    gains = {(a, b): -1.0, (a, c): 0.5, (b, c): 2.0}
    verdicts = {pair: Gain(gain, 0.0, 0.95) for pair, gain in gains.items()}
    verdicts |= {pair[::-1]: Gain(-gain, 0.0, 0.95) for pair, gain in gains.items()}
    assert ranked([a, b, c], verdicts) == [b, a, c]


def test_every_rule_that_changes_origins_has_one():
    assert {Origin.MERGED.value, Origin.CROSSED.value} <= {origin.value for origin in Origin}
