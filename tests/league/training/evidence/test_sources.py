"""Sources of evidence: asked where a rule or a loss asks, a cell a trajectory, stored and read back in one place."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.learning.trajectories import trajectory

from games.common import plugins
from games.common.errors import UsageError
from games.common.section import Section
from league.config.context import run_context
from league.config.load import load
from league.training.evidence.source import AfterPlay, MonteCarloEstimates, Source
from league.training.evidence.sources import SOURCES, evidence_from_play, gather_evidence
from learners.advantages import RULES
from learners.advantages.rule import OF_PLAY, CreditRule, Need, unweighted
from learners.trajectories import Evidence, evidence_from_json, evidence_to_json

ROLES = ("first", "second")
BATCH = [trajectory((1.0,), role=ROLES[seat], seat=seat, match=match) for match in (0, 1) for seat in (0, 1)]


@pytest.fixture
def plugin(monkeypatch):
    """Return what registers a rule that needs a source of this function; other tests do not know it."""
    monkeypatch.setattr(plugins, "_registered", dict(plugins._registered))

    def register(**gathers):
        plugins.register("evidence", "marks", Source(gathers.pop("make", None), **gathers))
        plugins.register(
            "credit", "marked", CreditRule(lambda t, *_: unweighted([[0.0]] * len(t), {}), Section, needs={"marks"})
        )

    return register


def context_of(*overrides):
    return run_context(load("pocket-returns", [*overrides], games=["kuhn_poker"]), Path())


def test_every_need_is_of_play_or_a_source():
    needs = {need for rule in RULES.values() for need in rule.needs}
    assert needs <= set(Need)
    assert set(Need) - OF_PLAY <= set(SOURCES)
    for name in SOURCES:
        assert isinstance(getattr(Evidence, name), property), name


def test_a_source_is_asked_for_the_roles_whose_rule_needs_it_alone(plugin):
    asked = []

    def marks(_context, play):
        asked.append([(one.role, one.match) for one in play.trajectories])
        return [one.match or None for one in play.trajectories]

    plugin(make=marks)
    context = context_of('credit.rules={"kuhn_poker/second" = "marked"}')
    evidence = evidence_from_play(context, AfterPlay(BATCH, {}, {}))
    assert asked == [[("second", 0), ("second", 1)]]
    assert evidence == [Evidence(), Evidence(), Evidence(), Evidence(marks=1)]
    evidence_from_play(context_of(), AfterPlay(BATCH, {}, {}))
    assert len(asked) == 1


def test_a_source_of_the_learner_knows_what_play_told(plugin):
    plugin(learner=lambda _config, learning: [(known.values, learning.state.seen) for known in learning.evidence])
    config = context_of("credit.rule=marked").config
    told = [Evidence(values=(float(i),)) for i in range(4)]
    evidence = gather_evidence(config, SimpleNamespace(seen="it", policies={}, values={}), BATCH, told)
    assert [known.cells["marks"] for known in evidence] == [((float(i),), "it") for i in range(4)]
    assert [known.values for known in evidence] == [known.values for known in told]


def test_a_column_of_another_length_stops_the_run(plugin):
    plugin(make=lambda _context, play: play.trajectories[1:])
    with pytest.raises(ValueError, match="'marks' returned 3 cells for 4 trajectories"):
        evidence_from_play(context_of("credit.rule=marked"), AfterPlay(BATCH, {}, {}))


def test_a_source_that_does_not_exist_is_refused_before_the_run(plugin):
    plugin(make=lambda _context, play: play.trajectories)
    plugins.register("credit", "misspelt", CreditRule(lambda *_: None, Section, needs={"mark"}))
    with pytest.raises(UsageError, match=r"no source of evidence named 'mark'\. Did you mean marks"):
        load("pocket-returns", ["credit.rule=misspelt"], games=["kuhn_poker"])


def test_a_source_refuses_the_games_that_it_knows_nothing_of(plugin):
    def check(rule, facts):
        raise UsageError(f"{rule} knows nothing of {facts.game.name}.")

    plugin(make=lambda _context, play: play.trajectories, check=check)
    with pytest.raises(UsageError, match="marked knows nothing of kuhn_poker"):
        load("pocket-returns", ["credit.rule=marked"], games=["kuhn_poker"])


def test_estimates_belong_to_a_match_and_a_seat():
    estimates = MonteCarloEstimates({"values": {(1, 0): (0.5,)}})
    assert estimates.column("values", BATCH) == [None, None, (0.5,), None]
    assert estimates.column("contributions", BATCH) == [None] * 4


def test_evidence_of_older_runs_is_read():
    """Written when there were ten fields: nulls, a dictionary of counterfactuals, and what was heard at probes."""
    stored = {
        "values": None,
        "counterfactuals": {"expected": [0.25, -0.5], "best_fixed": 1.0},
        "rollout_tokens": 12.0,
        "contributions": None,
        "taught": [[0.25, 0.75], []],
        "heard": [[[1, 2], ["Ann", "Bob"], ["Bob"]]],
        "predicted": [["replies", [1, 2], [3]]],
    }
    evidence = evidence_from_json(json.loads(json.dumps(stored)))
    assert evidence.counterfactuals.expected == (0.25, -0.5)
    assert evidence.counterfactuals.best_fixed == 1.0
    assert evidence.rollout_tokens == 12.0
    assert evidence.taught == ((0.25, 0.75), ())
    assert evidence.probe_answers[0].truths == ("Bob",)
    assert evidence.predicted[0].text == (3,)
    assert set(evidence.cells) == {"counterfactuals", "rollout_tokens", "taught", "probe_answers", "predicted"}
    assert evidence_from_json(json.loads(json.dumps(evidence_to_json(evidence)))) == evidence
