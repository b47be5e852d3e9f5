"""The advantage of every reply in the game as matches have shown it: exact once they have shown all of it."""

import json

import pytest
from support.matches.kuhn import engine_with, kuhn_matches, kuhn_pocket, played, roles_for

from league.training.evidence.counterfactuals import PromptKey, reply_probabilities
from league.training.evidence.exact_advantages import exact_advantages
from learners.trajectories import to_trajectories
from learners.values import ESTIMATORS

KUHN = "kuhn_poker"
EMPIRICAL = ESTIMATORS["empirical"]


@pytest.fixture(scope="module")
def kuhn():
    """Return Kuhn poker's thirty courses, each once, under uneven play: episodes, trajectories, engine, roles."""
    engine, roles = engine_with(main=kuhn_pocket(sharpness=3.0)), roles_for()
    episodes = played(engine, kuhn_matches(1200, ("main", "main")), 64, roles)
    courses = {tuple((turn.observation, turn.reply) for turn in episode.turns): episode for episode in episodes}
    assert len(courses) == 30
    episodes = list(courses.values())
    return episodes, to_trajectories(episodes, lambda _: roles, {KUHN: 2.0}), engine, roles


def asking(engine):
    lm = engine.model_of("main")

    def probabilities(states):
        keys = [PromptKey(one.prompt, one.mask, one.temperature) for one in states]
        found = reply_probabilities(lm, keys)
        return [found[key] for key in keys]

    return probabilities


def credits_of(trajectories, engine, state=None, **settings):
    """Return the credits of all replies by trajectory, and the state as it is read back from a file."""
    columns, after = EMPIRICAL.make(trajectories, state or {}, asking(engine), EMPIRICAL.settings(**settings))
    return columns["reply_credits"], json.loads(json.dumps(after))


def test_a_game_that_was_seen_whole_has_its_exact_advantages(kuhn):
    """Every course once: what follows a reply then has chance's frequencies, though play was uneven."""
    episodes, trajectories, engine, roles = kuhn
    found, _ = credits_of(trajectories, engine)
    expected = exact_advantages(KUHN, roles, engine, episodes, trajectories, 2.0)
    for rows, turns in zip(found, expected, strict=True):
        assert len(rows) == len(turns.reply_credits)
        for row, right in zip(rows, turns.reply_credits, strict=True):
            assert row == pytest.approx(right, abs=1e-6)
