"""Probes: a scripted Bayesian's are Bayes' rule, an engine's are its exact tables, and play does not notice them."""

import copy
import math

import pytest
import torch
from support.models.pocket import pocket

from arena.errors import EngineError
from arena.lm.language_model import LanguageModel
from arena.probes.asking import ProbeLog, ask
from arena.records import Belief, MatchRequest, Reply, ReplyRequest
from arena.replays import episode_from_record, episode_to_record, load_episodes, save_episodes
from arena.samplers.scripted import Random, Script
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from roles.cards import load_roles, with_overrides
from roles.prompts import messages
from roles.replies import probed

LISTED, WORDS, SMALL = "hidden_roles(form=1)", "hidden_roles", "hidden_roles(seats=3,days=1,form=1)"
NAMES = ("Ann", "Bob", "Cleo", "Dan", "Eve")


def requests(game, players, count):
    seats = make_game(game).spec.seats
    seated = (players * seats)[:seats]
    return [
        MatchRequest(i, game, derive_seed(7, i, "deal"), derive_seed(7, i, "sample"), tuple(seated), (False,) * seats)
        for i in range(count)
    ]


def run(game, engines, count=8, probes=True, **changes):
    engine_of = engines.__getitem__ if isinstance(engines, dict) else lambda _: engines
    return play(
        requests(game, list(engines) if isinstance(engines, dict) else ["a"], count),
        roles_of=lambda name: load_roles(make_game(name).spec, probes=probes),
        engine_of=engine_of,
        make_game=make_game,
        **changes,
    )


def by_bayes(seat, observation):
    """Return each name's probability of being the wolf's by the closed form, read off what a villager sees."""
    lines = observation.splitlines()
    me = lines[0].removeprefix("You are ").partition(",")[0]
    clue = lines[1].removeprefix("Your clue: ").partition(".")[0]
    right = 1 / 4 + 0.2 * (1 - 1 / 4)
    claims = {me: clue}
    for line in lines[2:]:
        speaker, _, said = line.partition(": ")
        if speaker in NAMES and said.startswith('"I suspect '):
            claims.setdefault(speaker, said.strip('"').removeprefix("I suspect "))
    out = {line.split(" is out and was a ")[0].split()[-1] for line in lines if "was a villager" in line}
    caught = {line.split(" is out and was a ")[0].split()[-1] for line in lines if "was a wolf" in line}
    weights = {}
    for wolf in NAMES:
        weights[wolf] = 0.0 if wolf == me or wolf in out or (caught and wolf not in caught) else 1.0
        for speaker, claim in claims.items():
            if speaker == wolf:
                weights[wolf] *= 0.0 if claim == wolf else 1 / 4
            else:
                weights[wolf] *= right if claim == wolf else (1 - right) / 3
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}


def test_the_probes_of_a_scripted_bayesian_are_bayes_rule():
    episodes = run(LISTED, Script("bayes"), 40)
    checked = 0
    for episode in episodes:
        for belief in episode.beliefs:
            assert belief.seat > 0, "the card asks villagers"
            expected = by_bayes(belief.seat, belief.observation)
            assert dict(zip(belief.answers, belief.probabilities, strict=True)) == pytest.approx(expected, abs=1e-9)
            assert belief.in_truth == pytest.approx(expected[belief.truths[0]], abs=1e-9)
            checked += 1
    assert checked > 1000


def test_every_villager_is_asked_before_the_first_turn_and_after_every_turn():
    for episode in run(LISTED, Script("bayes"), 5):
        for seat in range(1, 5):
            asked = [belief.after for belief in episode.beliefs if belief.seat == seat]
            assert asked == list(range(len(episode.turns) + 1))
        first = episode.beliefs[0]
        wolf = next(turn for turn in episode.turns if turn.seat == 0).observation.partition(",")[0][8:]
        assert (first.probe, first.after, first.answers, first.truths) == ("wolf", 0, NAMES, (wolf,))


def test_a_position_is_asked_about_once_however_often_a_reply_is_refused_there():
    """Every seat is refused twice before it says something: the positions are 0, 3, 6 … and the end."""

    class Stubborn:
        beliefs = Script("bayes").beliefs

        def sample(self, wanted):
            said = Script("bayes").sample(wanted)
            return [reply if len(one.refusals) == 2 else Reply("Hm.") for one, reply in zip(wanted, said, strict=True)]

    cards = load_roles(make_game(SMALL).spec, probes=True)
    roles = tuple(with_overrides(role, reply="free", on_illegal="retry", retries=2) for role in cards)
    engine = Stubborn()
    episodes = play(
        requests(SMALL, ["a"], 3), roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game
    )
    for episode in episodes:
        assert [turn.action is None for turn in episode.turns] == [True, True, False] * (len(episode.turns) // 3)
        for seat in (1, 2):
            asked = [belief.after for belief in episode.beliefs if belief.seat == seat]
            assert asked == list(range(0, len(episode.turns) + 1, 3))


def test_probes_never_change_what_scripts_play():
    for game, script in (
        (LISTED, "good"),
        (WORDS, "bayes"),
        ("signalling", "random"),
        ("hidden_roles(seats=6)", "good"),
    ):
        asked, not_asked = run(game, Script(script)), run(game, Script(script), probes=False)
        assert all(episode.beliefs for episode in asked)
        assert [episode._replace(beliefs=()) for episode in asked] == not_asked


def played_by_models(game, folder, probes, in_flight):
    """Return two iterations of matches between live weights and a snapshot; the live weights move in between."""
    live = pocket(texts=LONG)
    engine = TorchLM(loaded=1)
    engine.add("live", live)
    for name in ("s1", "s2"):
        engine.register(name, folder / name)
    episodes = []
    for _ in range(2):
        engine.refresh()
        players = {"live": engine, "s1": engine, "s2": engine}
        episodes += run(game, players, 6, probes, in_flight=in_flight)
        with torch.no_grad():
            live.model.model.norm.weight.mul_(1.1)
    return episodes, engine.tokens


LONG = tuple(role.system for role in load_roles(make_game(SMALL).spec))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("snapshots")
    for seed in (1, 2):
        model = pocket(seed, texts=LONG)
        LanguageModel(copy.deepcopy(model.model), pocket(texts=LONG).tokenizer).save(path / f"s{seed}")
    return path


@pytest.mark.parametrize("in_flight", [3, 64])
@pytest.mark.parametrize("game", [SMALL, "signalling(rounds=2,form=1)"])
def test_probes_never_change_what_models_play_to_the_last_bit(game, folder, in_flight):
    asked, tokens = played_by_models(game, folder, True, in_flight)
    not_asked, tokens_before = played_by_models(game, folder, False, in_flight)
    assert all(episode.beliefs for episode in asked)
    assert [episode._replace(beliefs=()) for episode in asked] == not_asked, "log-probs included"
    assert tokens == tokens_before


def test_a_models_belief_is_its_exact_distribution_over_the_answers():
    lm = pocket(texts=LONG)
    engine = TorchLM()
    engine.add("a", lm)
    role = load_roles(make_game(SMALL).spec, probes=True)[1]
    (episode,) = run(SMALL, engine, 1)
    belief = next(one for one in episode.beliefs if one.seat == 1 and one.after == 2)
    chat = messages(probed(role, role.probes[0]), belief.observation, belief.answers)
    assert chat[-1]["content"] == f"{belief.observation}\nWho is the wolf? Answer with a name."
    tries = [lm.trie(belief.answers)]
    (chunk,) = lm.plan_choice([lm.encode_prompt(chat)], tries, 8192)
    with torch.no_grad():
        expected = lm.choice_logprobs(chunk, tries, 1.0).replies[0].exp().tolist()
    assert belief.probabilities == pytest.approx(expected, abs=1e-5)
    assert math.fsum(belief.probabilities) == pytest.approx(1.0, abs=1e-12)


def test_a_player_that_cannot_be_asked_is_left_out_and_said_so():
    class Unasked:
        def sample(self, wanted):
            return Script("bayes").sample(wanted)

    engines = {"wolf": Script("bayes"), "unasked": Unasked(), "random": Random()}
    (episode,) = run(SMALL, engines, 1)
    of_seat = {seat: [belief for belief in episode.beliefs if belief.seat == seat] for seat in (1, 2)}
    (told,) = of_seat[1]
    assert (told.after, told.probabilities, told.in_truth) == (0, (), None)
    assert {belief.probabilities for belief in of_seat[2]} == {(1 / 3,) * 3}


def test_each_seat_that_cannot_be_asked_is_said_once_and_each_is_asked_as_the_weights_that_played():
    """Two matches: in the second the players are pinned to weights of their own, and one of them has no answer."""
    roles = load_roles(make_game(SMALL).spec, probes=True)
    logs = [ProbeLog(roles, ("wolf", "a", "b")) for _ in range(2)]
    game = make_game(SMALL)
    for log in logs:
        for turns in (0, 1):
            log.end(game, turns)

    class Mute(Script):
        asked = ()

        def beliefs(self, wanted):
            self.asked = [(one.player, one.role.seat) for one in wanted]
            return [None if one.player in ("a", "b@2") else (0.5, 0.25, 0.25) for one in wanted]

    mute = Mute("bayes")
    plain, pinned = ask([(logs[0], None), (logs[1], {"a": "a@1", "b": "b@2"})], lambda _: mute)
    assert mute.asked == [("a", 1), ("b", 2)] * 2 + [("a@1", 1), ("b@2", 2)] * 2
    assert [(one.seat, one.after, bool(one.probabilities)) for one in plain] == [
        (1, 0, False), (2, 0, True), (2, 1, True),
    ]  # fmt: skip
    assert [(one.seat, one.after, bool(one.probabilities)) for one in pinned] == [
        (1, 0, True), (2, 0, False), (1, 1, True),
    ]  # fmt: skip
    nobody = ask([(logs[0], {"b": "b@2"})], lambda _: mute)[0]
    assert [(one.seat, one.after) for one in nobody] == [(1, 0), (2, 0)]


def test_a_script_without_a_belief_is_left_out_too():
    position = make_game("tic_tac_toe")
    role = load_roles(position.spec)[0]
    request = ReplyRequest("a", role, position, "", ("1", "2"), (), None, probe="wolf")
    assert Script("bayes").beliefs([request]) == [None]


def test_an_engine_that_fails_is_named():
    class Broken(Random):
        def beliefs(self, wanted):
            raise ValueError("no table")

    with pytest.raises(EngineError, match=r"Broken failed on \d+ probes of a: ValueError: no table"):
        run(SMALL, Broken(), 1)

    class Short(Random):
        def beliefs(self, wanted):
            return []

    with pytest.raises(EngineError, match=r"Short gave 0 beliefs for \d+ probes of a"):
        run(SMALL, Short(), 1)


def test_beliefs_are_stored_and_read_back_equal(tmp_path):
    episodes = run(SMALL, Script("good"), 3)
    episodes[0] = episodes[0]._replace(shaping=(0.25,) * len(episodes[0].turns))
    save_episodes(tmp_path / "episodes.jsonl", episodes)
    assert load_episodes(tmp_path / "episodes.jsonl") == episodes


def test_episodes_of_before_probes_still_load():
    (episode,) = run(SMALL, Script("good"), 1, probes=False)
    record = episode_to_record(episode)
    assert "beliefs" not in record
    assert "shaping" not in record
    assert episode_from_record(record) == episode


def test_the_belief_in_the_truth_is_that_of_all_right_answers():
    belief = Belief("wolf", 1, 0, "", ("Ann", "Bob", "Cleo"), ("Ann", "Cleo"), (0.5, 0.25, 0.25))
    assert belief.in_truth == 0.75
    assert belief._replace(truths=()).in_truth is None


CARD = """
game = "{game}"
[[role]]
name = "wolf"
seat = 0
system = "You are the wolf."
prompt = "{{observation}}"
[[role]]
name = "one"
seat = 1
system = "You are a villager."
prompt = "{{observation}} Legal: {{legal}}"
[[role]]
name = "two"
seat = 2
system = "You are a villager."
prompt = "{{observation}}"
[[probe]]
name = "wolf"
question = "Who is it? One of {{answers}}."
{more}
"""


def with_card(tmp_path, more):
    (tmp_path / "card.toml").write_text(CARD.format(game=SMALL, more=more))
    return load_roles(make_game(SMALL).spec, tmp_path, probes=True)


def test_a_probe_is_data_of_a_card(tmp_path):
    roles = with_card(tmp_path, 'asked = ["one"]\nwhen = "ends"\nanswers = ["Ann", "Bob"]')
    assert [len(role.probes) for role in roles] == [0, 1, 0]
    chat = messages(probed(roles[1], roles[1].probes[0]), "You see.", ("Ann", "Bob"))
    assert chat[-1]["content"] == "You see.\nWho is it? One of Ann, Bob."
    episodes = play(
        requests(SMALL, ["a"], 1), roles_of=lambda _: roles, engine_of=lambda _: Script("bayes"), make_game=make_game
    )
    turns = len(episodes[0].turns)
    assert [(belief.seat, belief.after, belief.answers) for belief in episodes[0].beliefs] == [
        (1, 0, ("Ann", "Bob")),
        (1, turns, ("Ann", "Bob")),
    ]


def test_a_right_answer_that_a_card_does_not_list_is_none(tmp_path):
    """The wolf is one of three; where the card lists the other two, nothing that it lists is right."""
    roles, seen = with_card(tmp_path, 'answers = ["Bob", "Ann"]'), set()
    asked = requests(SMALL, ["a"], 12)
    for episode in play(asked, roles_of=lambda _: roles, engine_of=lambda _: Script("bayes"), make_game=make_game):
        wolf = next(turn for turn in episode.turns if turn.seat == 0).observation.partition(",")[0].split()[-1]
        for belief in episode.beliefs:
            assert belief.answers == ("Bob", "Ann")
            assert belief.truths == ((wolf,) if wolf in belief.answers else ())
        seen.add(wolf)
    assert seen == {"Ann", "Bob", "Cleo"}


def test_only_the_matches_that_are_to_be_asked_are():
    odd = run(SMALL, Script("bayes"), 4, asks=lambda request: request.index % 2 == 1)
    assert [bool(episode.beliefs) for episode in odd] == [False, True, False, True]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ('asked = ["three"]', "There is no role named 'three'"),
        ('answers = ["Ann"]', "answers must be two or more different ones"),
        ('when = "always"', "when"),
        ("colour = 1", "colour"),
    ],
)
def test_a_wrong_probe_is_refused_with_a_sentence(tmp_path, more, sentence):
    with pytest.raises(UsageError, match=sentence):
        with_card(tmp_path, more)


def test_a_question_that_reaches_for_another_field_is_refused(tmp_path):
    text = CARD.format(game=SMALL, more="").replace("{answers}", "{observation}")
    (tmp_path / "card.toml").write_text(text)
    with pytest.raises(UsageError, match=r"question uses the field \{observation\}"):
        load_roles(make_game(SMALL).spec, tmp_path, probes=True)


def test_scripts_beliefs_in_signalling_are_what_their_words_mean():
    for episode in run("signalling", Script("good"), 4):
        for belief in episode.beliefs:
            heard = belief.after % 2 or belief.after == len(episode.turns)
            assert belief.in_truth == (1.0 if heard else pytest.approx(1 / 3))
