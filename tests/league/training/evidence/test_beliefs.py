"""A run whose seats are asked what they believe: the same run to the last bit until something is paid for it."""

import json
from types import SimpleNamespace

import pytest
from support.learning.trajectories import trajectory
from support.processes.runs import TINY, contents
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import league
from arena.records import Belief
from arena.replays import load_episodes
from games.common.errors import UsageError
from games.registry import make_game
from league.config.load import load
from league.config.schedules import term_weight_at
from league.training.board.metrics_log import figures_of
from league.training.evidence.beliefs import probe_answers
from learners.beliefs import bits
from roles.cards import load_roles

SMALL = "hidden_roles(seats=3,days=1,form=1)"
GAME = TINY.replace("games.kuhn_poker.matches = 64", f'games."{SMALL}".matches = 24')
SPEAKING = "beliefs.speaking.weight=1.0"


def config(tmp_path, *overrides, text=GAME):
    path = tmp_path / "tiny.toml"
    path.write_text(text)
    return load(str(path), ["iterations=2", "snapshot_every=2", "board.time=0", "evaluation.matches=0", *overrides])


def train(tmp_path, name, *overrides):
    return league.train(config(tmp_path, *overrides), tmp_path / name)


def learned(run):
    """Return weights, results and the like: all that play and learning have made, but not what was asked beside it."""
    made = ("population/", "results.sqlite", "state/tables", "mixtures.jsonl", "payoffs.json", "ratings.json")
    return {name: data for name, data in contents(run.path).items() if name.startswith(made)}


def weights(run):
    return {name: data for name, data in learned(run).items() if name.endswith("model.safetensors")}


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    return train(tmp_path_factory.mktemp("asked"), "asked", "beliefs.ask=true")


def test_asking_changes_nothing_that_is_played_or_learned(tmp_path, asked):
    plain = train(tmp_path, "plain")
    assert learned(asked) == learned(plain)
    assert len(weights(plain)) > 1
    for before, after in zip(plain.iterations(), asked.iterations(), strict=True):
        same = [name for name in before if not name.startswith(("time/", "memory/", "seconds", "tokens", "mfu"))]
        assert {name: after[name] for name in same} == {name: before[name] for name in same}
    last = asked.iterations()[-1]
    assert 0.0 < last[f"{SMALL}/belief/villager_1"] < 1.0
    assert {f"{SMALL}/belief/villager_2/{number}" for number in range(4)} <= set(last)
    assert {f"{SMALL}/information/wolf", f"{SMALL}/information/1"} <= set(last)
    assert last[f"{SMALL}/unasked"] == 0.0
    assert not any("/belief/" in name for line in plain.iterations() for name in line)


def test_a_seat_learns_from_the_probes_that_it_was_asked_itself():
    """Two seats were asked, one of them once where no answer is known to be right; the wolf has another policy."""
    spec = make_game(SMALL).spec
    roles = load_roles(spec, probes=True)
    names = ("Ann", "Bob", "Cleo")

    def belief(seat, after, truths=("Ann",)):
        return Belief("wolf", seat, after, f"seat {seat} at {after}", names, truths, (0.5, 0.25, 0.25))

    beliefs = (belief(2, 0), belief(1, 0, ("Bob", "Cleo")), belief(2, 1, ()), belief(1, 1), belief(2, 2))
    lm = SimpleNamespace(encode_prompt=lambda chat: tuple(map(ord, chat[-1]["content"])))
    seated = [trajectory([0.0], game=SMALL, seat=seat, role=roles[seat].name, match=7) for seat in (2, 1, 0)]
    seated[-1] = seated[-1]._replace(policy="frozen")
    play = SimpleNamespace(
        trajectories=seated, policies={"main": SimpleNamespace(lm=lm)}, matches={7: SimpleNamespace(beliefs=beliefs)}
    )
    two, one, wolf = probe_answers(SimpleNamespace(roles={SMALL: roles}), play)
    assert wolf is None
    kept = [(2, 0, ("Ann",)), (2, 2, ("Ann",))], [(1, 0, ("Bob", "Cleo")), (1, 1, ("Ann",))]
    for found, asked in zip((two, one), kept, strict=True):
        assert [answer.truths for answer in found] == [truths for *_, truths in asked]
        assert all(answer.answers == names for answer in found)
        texts = ["".join(map(chr, answer.prompt)) for answer in found]
        assert [text.splitlines()[0] for text in texts] == [f"seat {seat} at {after}" for seat, after, _ in asked]


def test_weight_0_is_the_unshaped_run_bit_for_bit(tmp_path, asked):
    off = train(tmp_path, "off", "beliefs.ask=true", "beliefs.speaking.weight=0.0", "beliefs.gain.weight=0.0")
    on = train(tmp_path, "on", SPEAKING)

    def everything(run):
        return {name: data for name, data in contents(run.path).items() if name != "config.toml"}

    assert everything(off) == everything(asked)
    assert weights(on) != weights(off)
    assert f"{SMALL}/shaping/wolf" not in off.iterations()[-1]


def test_what_beliefs_paid_is_kept_with_the_match(tmp_path):
    run = train(tmp_path, "on", SPEAKING, "beliefs.gain.weight=0.5", f'beliefs.speaking.roles={{"{SMALL}/wolf"=-2.0}}')
    kept = [episode for path in sorted((run.path / "episodes").glob("*.jsonl")) for episode in load_episodes(path)]
    assert kept
    for episode in kept:
        assert len(episode.shaping) == len(episode.turns)
        of = {seat: {one.after: one.in_truth for one in episode.beliefs if one.seat == seat} for seat in (1, 2)}
        change = sum(of[seat][1] - of[seat][0] for seat in (1, 2)) / 2
        assert episode.turns[0].seat == 0 or change is not None
        first = episode.turns[0].seat
        if first == 0:
            assert episode.shaping[0] == pytest.approx(-2.0 * change)
        wolf = [paid for paid, turn in zip(episode.shaping, episode.turns, strict=True) if turn.seat == 0]
        assert wolf[1:] == [0.0], "nobody is paid for a vote"
        gained = bits(of[1][len(episode.turns)]) - bits(of[1][0])
        spoke = next(place for place, turn in enumerate(episode.turns) if turn.seat == 1)
        others = of[2][spoke + 1] - of[2][spoke]
        mine = [paid for paid, turn in zip(episode.shaping, episode.turns, strict=True) if turn.seat == 1]
        assert sum(mine) == pytest.approx(others + 0.5 * gained)


@pytest.mark.slow
def test_a_run_with_shaping_resumes_bit_for_bit(tmp_path):
    settings = config(tmp_path, SPEAKING, "iterations=4", "beliefs.speaking.weight_end=0.1")
    whole = league.train(settings, tmp_path / "whole")
    league.train(settings, tmp_path / "stopped", watch=lambda iteration, _: iteration == 2)
    resumed = league.resume(tmp_path / "stopped")
    assert weights(resumed) == weights(whole)
    for name in (f"{SMALL}/shaping/wolf", f"{SMALL}/belief/villager_1"):
        assert [line.get(name) for line in resumed.iterations()] == [line.get(name) for line in whole.iterations()]


def test_the_board_shows_beliefs_and_utterances(tmp_path):
    run = train(tmp_path, "shown", "beliefs.ask=true", "board.time=1")
    assert f"2_what_does_it_do/beliefs/{SMALL}" in figures_of(run.path)
    events = EventAccumulator(str(run.path / "tb"))
    events.Reload()
    (utterances,) = [tag for tag in events.Tags()["tensors"] if tag.startswith("utterances/")]
    (told, *_) = events.Tensors(utterances)
    assert b"the most convincing utterance" in told.tensor_proto.string_val[0]


def test_weights_are_annealed(tmp_path):
    settings = config(tmp_path, "iterations=5", "beliefs.speaking.weight=1.0", "beliefs.speaking.weight_end=0.0001")
    found = [term_weight_at(settings, settings.beliefs.speaking, iteration) for iteration in range(1, 6)]
    assert found == pytest.approx([1.0, 0.1, 0.01, 0.001, 0.0001])
    assert term_weight_at(settings, settings.beliefs.gain, 3) == 0.0


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            ['beliefs.speaking.roles={"kuhn_poker/first"=1.0}'],
            "beliefs.speaking.roles takes keys of the form game/role",
        ),
        ([SPEAKING, "kuhn"], "beliefs.speaking.weight asks seats what they believe, but no role of kuhn_poker has a"),
        (["beliefs.ask=true", "kuhn"], "beliefs.ask asks seats what they believe, but no role of kuhn_poker has a"),
        (["beliefs.speaking.weight=-1"], "beliefs.speaking.weight"),
    ],
)
def test_what_could_not_be_asked_or_paid_is_refused_with_a_sentence(tmp_path, overrides, sentence):
    text = TINY if "kuhn" in overrides else GAME
    with pytest.raises(UsageError, match=sentence.replace("[", "\\[")):
        config(tmp_path, *(one for one in overrides if one != "kuhn"), text=text)


CARD = """
game = "{game}"
{roles}
[[probe]]
name = "{name}"
question = "Who?"
answers = ["Ann", "Bob"]
when = "{when}"
"""


def with_card(tmp_path, game, seats, name="wolf", when="turns"):
    folder = tmp_path / "cards"
    folder.mkdir()
    roles = "".join(
        f'[[role]]\nname = "r{seat}"\nseat = {seat}\nsystem = "You play."\nprompt = "{{observation}}"\n'
        for seat in range(seats)
    )
    (folder / "card.toml").write_text(CARD.format(game=game, roles=roles, name=name, when=when))
    return f"roles.cards={json.dumps(str(folder))}"


def test_belief_in_what_no_game_knows_is_not_paid_for(tmp_path):
    cards = with_card(tmp_path, "kuhn_poker", 2)
    with pytest.raises(UsageError, match="pays for belief in the truth, which no game of kuhn_poker knows"):
        config(tmp_path, cards, "beliefs.gain.weight=1.0", text=TINY)
    assert config(tmp_path, cards, "beliefs.ask=true", text=TINY).beliefs.asked


def test_speaking_needs_probes_after_every_turn(tmp_path):
    cards = with_card(tmp_path, SMALL, 3, when="ends")
    with pytest.raises(UsageError, match="are asked only at the start and end of a match"):
        config(tmp_path, cards, SPEAKING)


def test_listening_at_weight_0_is_the_run_without_it_bit_for_bit(tmp_path, asked):
    off = train(tmp_path, "off", "beliefs.ask=true", "beliefs.listening.weight=0.0")
    on = train(tmp_path, "on", "beliefs.listening.weight=1.0", f'beliefs.listening.roles={{"{SMALL}/wolf"=0.0}}')
    assert learned(off) == learned(asked)
    assert weights(on) != weights(off)
    assert "main/listening/loss" not in off.iterations()[-1]
    assert on.iterations()[-1]["main/listening/loss"] > 0.0
    assert "wolf/listening/loss" not in on.iterations()[-1], "the card asks villagers"


@pytest.mark.slow
def test_who_listens_learns_what_is_true(tmp_path):
    settings = ["iterations=30", "snapshot_every=30", "optimizer.learning_rate=3e-3", "beliefs.listening.weight=1.0"]
    lines = train(tmp_path, "on", *settings).iterations()
    first, last = lines[1]["main/listening/loss"], lines[-1]["main/listening/loss"]
    assert last < first - 0.05
    assert last < 1.0  # a clue that is right 6 times in 10, of two others: 0.67 nats; guessing among three is 1.10


@pytest.mark.slow
def test_learner_processes_listen_the_same(tmp_path):
    here = train(tmp_path, "here", "beliefs.listening.weight=1.0").iterations()[-1]
    there = train(tmp_path, "there", "beliefs.listening.weight=1.0", 'async_learners.processes="each"').iterations()[-1]
    assert there["main/listening/loss"] == pytest.approx(here["main/listening/loss"], abs=1e-5)
