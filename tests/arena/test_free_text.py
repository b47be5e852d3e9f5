"""Free text as a kind of action: what is said, what is read, and who says in a sentence that it cannot play."""

import random
import warnings

import pytest
from pettingzoo.test import api_test, seed_test

import games.registry
from arena.cluster.messages import to_remote_requests, to_requests
from arena.records import EndReason, MatchRequest, Reply, ReplyRequest
from arena.samplers.human import Human
from arena.samplers.policy_net import num_features
from arena.samplers.scripted import Always, Equilibrium, Mcts, Random, Script
from arena.scheduler import play
from games.common.errors import NotEnumerable, UsageError
from games.pettingzoo import env, raw_env
from games.registry import make_game
from games.spec import choice_game
from roles.cards import load_roles, with_overrides
from roles.prompts import messages
from roles.replies import speaking
from tests.support.matches.talking import FORM, Mute, Telling


class Says:
    """Says its lines one after another, and keeps the requests."""

    def __init__(self, *lines):
        self.lines, self.requests = list(lines), []

    def sample(self, requests):
        self.requests += requests
        return [Reply(self.lines.pop(0)) for _ in requests]


@pytest.fixture(autouse=True)
def telling(monkeypatch):
    monkeypatch.setitem(games.registry.NATIVE, "telling", Telling)


def told(engine, seed=1, **overrides):
    roles = tuple(with_overrides(role, **overrides) for role in load_roles(Telling.spec))
    request = MatchRequest(0, "telling", seed, seed, ("a", "a"), (False,) * 2)
    [episode] = play([request], roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game)
    return episode


def test_a_turn_holds_what_was_said_and_what_was_read():
    engine = Says("<think>1 or 3?</think> I take 2, thank you.", "2")
    first, second = told(engine).turns
    assert (first.reply, first.action, first.legal) == ("<think>1 or 3?</think> I take 2, thank you.", "2", ())
    assert (second.reply, second.action, second.legal) == ("2", "2", ("1", "2", "3"))
    asked, chosen = engine.requests
    assert (asked.legal, asked.form, asked.role.reply) == ((), FORM, "free")
    assert (chosen.form, chosen.role.reply) == ("", "choice")
    assert hash(asked._replace(game=None, rng=None)) is not None
    assert to_requests(to_remote_requests([asked]))[0].form == FORM


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("nothing", "Your reply cannot be read."),
        ("2 or 3", "Your reply cannot be read."),
        ("2" + "!" * 200, "Your reply is longer than 200 characters."),
    ],
)
def test_words_that_say_no_one_action_are_illegal(said, reason):
    episode = told(Says(said))
    assert (episode.end, episode.offender, episode.turns[0].action) == (EndReason.FORFEIT, 0, None)
    engine = Says(said, "3!", "3")
    assert told(engine, on_illegal="retry").end is EndReason.FINISHED
    assert engine.requests[1].refusals[0].reason == f"{reason} Legal: {FORM}."


def test_thoughts_do_not_count_as_characters():
    assert told(Says(f"<think>{'hm ' * 500}</think>3", "3")).turns[0].action == "3"


def test_the_form_ends_the_request_and_no_answer_is_marked():
    role = speaking(with_overrides(load_roles(Telling.spec)[0], reply="free"))
    system, user = messages(role, "Yours: 2", (), (), FORM)
    assert user["content"].endswith(f"Answer with {FORM}.") or user["content"].endswith(f"Legal: {FORM}")
    assert "[" not in system["content"]
    bare = role.model_copy(update={"prompt": "{observation}"})
    assert messages(bare, "Yours: 2", (), (), FORM)[1]["content"] == f"Yours: 2\nAnswer with {FORM}."


def test_scripts_random_and_always_speak():
    assert all(told(Script("honest"), seed).returns == (1.0, 1.0) for seed in range(9))
    assert {told(Random(), seed).returns for seed in range(30)} == {(0.0, 0.0), (1.0, 1.0)}
    with pytest.raises(UsageError, match="always:hello cannot play telling, which asks for a number"):
        told(Always("hello"))


@pytest.mark.parametrize(
    ("engine", "sentence"),
    [
        (Equilibrium(), r"equilibrium plays OpenSpiel's games only, and telling is not one\. Use a script of it"),
        (Mcts(9), r"mcts:9 plays OpenSpiel's games only"),
        (Script("wise"), r"scripted:wise cannot play telling.*Use scripted:honest or scripted:random"),
    ],
)
def test_who_needs_a_list_says_so(engine, sentence):
    with pytest.raises(UsageError, match=sentence):
        told(engine)


def test_random_without_a_script_says_why_it_cannot_speak(monkeypatch):
    monkeypatch.setitem(games.registry.NATIVE, "telling", Mute)
    with pytest.raises(
        UsageError, match=r"draws from a list of legal actions, which free text does not have\. Use a lang"
    ):
        told(Random())


def test_a_game_of_words_is_no_game_of_choices():
    with pytest.raises(NotEnumerable, match="needs a list of legal actions, and telling asks for free text"):
        choice_game(make_game("telling"))
    with pytest.raises(NotEnumerable, match="An exploiter's network needs a list"):
        num_features(make_game("telling"))
    assert choice_game(make_game("kuhn_poker")).legal_actions() == ("pass", "bet")


def test_a_person_is_shown_the_form_and_types_a_line():
    shown, lines = [], iter(["what?", "I take 2"])
    role, game = speaking(load_roles(Telling.spec)[0]), make_game("telling")
    request = ReplyRequest("you", role, game, game.observe(0), (), (), random.Random(0), FORM)
    [reply] = Human(shown.append, lambda _: next(lines)).sample([request])
    assert reply.text == "I take 2"
    assert shown[1:] == [f"Answer with {FORM}.", "Your reply cannot be read."]


def test_pettingzoos_own_tests_with_text_actions():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api_test(env("telling"), num_cycles=5)
        seed_test(lambda: env("telling"), num_cycles=5)


def test_pettingzoo_reads_words_and_labels_and_ends_a_match_of_words_that_say_nothing():
    table = env("telling")
    table.reset(seed=1)
    assert table.observe("seat_0") == {"text": f"Yours: {table.unwrapped.game.secret}", "answer": FORM}
    assert table.observe("seat_1")["answer"] == ""
    table.step(f"It is {table.unwrapped.game.secret}")
    assert table.observe("seat_1")["answer"] == "one of: 1, 2, 3"
    table.step(table.unwrapped.game.secret)
    assert table.rewards == {"seat_0": 1.0, "seat_1": 1.0}
    table.reset(seed=1)
    table.step("hm")
    assert table.terminations == {"seat_0": True, "seat_1": True}
    bare = raw_env("telling")
    bare.reset(seed=1)
    with pytest.raises(ValueError, match="'hm' of seat_0 cannot be read; say a number from 1"):
        bare.step("hm")
