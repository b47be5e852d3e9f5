"""The study of stated predictions: conventions and their Bayesian by hand, and conditions that differ as named."""

from pathlib import Path

import pytest
import torch
from support.matches.kuhn import engine_with
from support.models.pocket import pocket

from arena.records import MatchRequest
from arena.scheduler import play
from benchmarks.studies.cooperation.conventions import CONVENTIONS, Convention, act_of, foreseen
from benchmarks.studies.cooperation.predictions import (
    ACTS,
    BESIDE,
    CONDITIONS,
    GAME,
    MET,
    OTHER,
    PLUGIN,
    bayes_right,
    configs,
    moved,
)
from games.common import plugins
from games.common.errors import UsageError
from games.registry import make_game
from league.training.evidence.stated import Stated
from roles.cards import load_roles
from roles.prompts import messages
from roles.role import Role


@pytest.mark.parametrize(
    ("name", "acts"),
    [
        ("left", "left left left"),
        ("alternate-right", "right left right"),
        ("follow-left", "left right right"),
        ("oppose-right", "right left left"),
    ],
)
def test_conventions_beside_one_who_plays_right_right(name, acts):
    """By hand: to follow is to play what the other has just played, to oppose the opposite of it."""
    own, other = [], []
    for act in acts.split():
        assert act_of(name, own, other) == act
        own, other = [*own, act], [*other, "right"]


def test_the_bayesian_by_hand():
    """Of eight, four begin with left; beside one who played right, left and oppose-left then play left again."""
    assert foreseen(CONVENTIONS, "Last round: none") == {"left": 0.5, "right": 0.5}
    assert foreseen(CONVENTIONS, "You: right\nOther: left") == {"left": 0.5, "right": 0.5}
    left = [name for name in CONVENTIONS if name != "alternate-left"]
    assert foreseen(left, "You: right\nOther: left") == pytest.approx({"left": 2 / 3, "right": 1 / 3})
    assert foreseen(CONVENTIONS, "You: right left\nOther: left left") == {"left": 0.5, "right": 0.5}
    assert foreseen(CONVENTIONS, "You: right right\nOther: left right") == {"left": 0.5, "right": 0.5}
    assert foreseen(CONVENTIONS, "You: right right left\nOther: left right right") == {"left": 1.0, "right": 0.0}
    assert bayes_right("Last round: none", Stated(0, "left", "left")) == 0.5
    assert bayes_right("You: right right left\nOther: left right right", Stated(0, "left", "left")) == 1.0


def test_the_convention_of_the_seat_is_played_whatever_its_card_shows():
    roles = tuple(
        Role(**{**dict(role), "prompt": "They: {plan}", "slots": BESIDE["slots"]})
        for role in load_roles(make_game(GAME).spec)
    )
    engines = {"a": Convention("alternate-left"), "b": Convention("follow-right")}
    (episode,) = play(
        [MatchRequest(0, make_game(GAME).spec.name, 0, 0, ("b", "a"), (False, False))],
        roles_of=lambda _: roles,
        engine_of=engines.__getitem__,
        make_game=make_game,
    )
    by_seat = [[turn.action for turn in episode.turns if turn.seat == seat and not turn.tool] for seat in (0, 1)]
    assert by_seat == [["right", "left", "right", "left", "right", "left"], ["left", "right"] * 3]
    with pytest.raises(UsageError, match="conventions are left, right"):
        Convention("middle")


def test_an_act_moves_as_far_as_its_probabilities_do_when_the_other_prediction_is_shown():
    role = load_roles(make_game(GAME).spec)[0]
    card = Role(**{**dict(role), **BESIDE})
    lm = pocket(texts=("They: left\nLast round: none\n>left", "They: right\n>right"))
    (episode,) = play(
        [MatchRequest(0, make_game(GAME).spec.name, 0, 0, ("m", "c"), (True, False))],
        roles_of=lambda _: (card, Role(**{**dict(card), "seat": 1, "name": "second"})),
        engine_of={"m": engine_with(m=lm), "c": Convention("left")}.__getitem__,
        make_game=make_game,
    )
    acts = [turn for turn in episode.turns if turn.seat == 0 and not turn.tool]
    by_hand = []
    for act in acts:
        said = act.observation.split("\n")[0].split()[-1]
        other = act.observation.replace(f"They: {said}", f"They: {OTHER[said]}")
        left = [chance_of_left(lm, card, shown) for shown in (act.observation, other)]
        by_hand.append(abs(left[0] - left[1]))
    assert moved(acts, (card,), lm) == pytest.approx(by_hand, abs=1e-5)
    assert max(by_hand) > 0.01


def chance_of_left(lm, card, observation):
    """Return the probability of left under the mask, from the logits where the two replies part."""
    trie = lm.trie(ACTS)
    assert trie.prefixes == ((),)
    prompt = lm.encode_prompt(messages(card, observation, ACTS))
    logits = lm.model(torch.tensor([prompt])).logits[0, -1, list(trie.branches[0])]
    return float(logits.softmax(0)[trie.paths[0][0][1]].detach())


def test_conditions_differ_in_what_they_are_named_for_alone(tmp_path):
    plugins.allow([PLUGIN])
    found = configs(tmp_path)
    assert list(found) == list(CONDITIONS)
    weights = [one.shaping.prediction.weight for one in found.values()]
    assert weights == [0.0, 0.0, 1.0, 1.0]
    cards = [load_roles(make_game(GAME).spec, Path(one.roles.cards))[1] for one in found.values()]
    assert [bool(card.slots) for card in cards] == [False, True, True, True]
    assert ["{observation}" in card.prompt for card in cards] == [True, True, True, False]
    assert {tuple(one.matchmaking.guests) for one in found.values()} == {tuple(f"convention:{name}" for name in MET)}
    assert all(one.settings.choices == ACTS for card in cards for one in card.slots)
    same = {"roles", "shaping"}
    assert len({one.model_dump_json(exclude=same) for one in found.values()}) == 1
