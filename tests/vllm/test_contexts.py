"""vLLM's log-probs of texts and moves under rewritten contexts are the learner's."""

from statistics import fmean

from support.matches.contexts import gaps, matches, with_slots

from games.registry import make_game
from roles.cards import load_roles

[CARD] = load_roles(make_game("recall").spec)
FREE = {"rule": "summary", "entries": 1, "most_tokens": 6}
CHOSEN = {"rule": "summary", "entries": 1, "choices": ("red", "blue", "green", "gold")}


def test_the_learners_log_probs_are_those_of_what_was_seen(engine, adapters, record_property):
    for summary in (FREE, CHOSEN):
        episodes = matches("recall", [engine], (with_slots(CARD, earlier=summary),), number=8, players=("base",))
        turns = [turn for episode in episodes for turn in episode.turns]
        assert sum(bool(turn.tool) for turn in turns) >= 8
        found = gaps(adapters.base, [turn.trace for turn in turns])
        record_property("gap", max(found))
        assert fmean(found) < 1e-5  # nats a reply, as the metric ``gap`` counts it
        assert max(found) < 1e-4
