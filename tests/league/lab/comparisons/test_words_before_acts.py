"""Whether words before an act matter: players whose dependence on them is known in closed form, and a model by hand."""

import random
from statistics import fmean

import pytest
import torch
from support.models.pocket import pocket

from arena.records import Reply, TokenTrace
from arena.samplers.scripted import Random
from games.common.errors import UsageError
from games.registry import make_game
from league.cli import main
from league.lab.comparisons.words import (
    CHANGES,
    Prefix,
    SpokenTurn,
    check_speaks,
    cut,
    measure_words,
    model_scores,
    model_words,
    permuted,
    spoken_turns,
    words_before,
    words_of,
)
from league.population.evaluation.head_to_head import compare
from league.population.players.player import Player
from roles.cards import load_roles
from roles.role import Conduct, OnIllegal, ReplyForm

SPEC = make_game("kuhn_poker").spec
CARDS = load_roles(SPEC)
FORFEIT = Conduct(on_illegal=OnIllegal.FORFEIT)
ROLES = tuple(role.model_copy(update={"reply": ReplyForm.FREE, "conduct": FORFEIT}) for role in CARDS)
LEGAL = ("pass", "bet")
THINKS = "I think pass then bet "  # five words, the last of which is the act


def turn(words=THINKS, card="J", match=0, **changes):
    values = {"player": "p", "match": match, "role": ROLES[0], "observation": f"Your card: {card}", "legal": LEGAL}
    return SpokenTurn(**{**values, "prompt": (1, ord(card)), "words": words, **changes})


def copies(prefixes):
    """Act as the last word says; where it names no act, as likely one as the other."""
    last = [(prefix.words.split() or [""])[-1] for prefix in prefixes]
    return [tuple(float(word == act) for act in LEGAL) if word in LEGAL else (0.5, 0.5) for word in last]


def ignores(prefixes):
    return [(0.3, 0.7) if "J" in prefix.turn.observation else (0.9, 0.1) for prefix in prefixes]


def again(turns, _):
    return [one.words for one in turns]


def measured(turns, scores, speaks=again, seed=0):
    report = measure_words("p", turns, scores, speaks, seed)
    return report, {row.name: row for row in report.rows}


def test_a_player_that_ignores_its_words_gives_exactly_zero():
    turns = [turn(f"{'a b c d ' * (n % 3)}bet ", "JQK"[n % 3], n // 2) for n in range(12)]
    report, rows = measured(turns, ignores)
    assert set(rows) == {*CHANGES, "fresh"}
    assert all(row.moved.mean == 0.0 and row.changed.mean == 0.0 and row.turns == 12 for row in rows.values())
    assert rows["same"].moved == (0.0, 0.0, 0.0)
    assert (report.turns, report.with_words) == (12, 12)


def test_a_player_that_copies_its_last_word_moves_as_far_as_worked_by_hand():
    """Of "I think pass then bet" three words end on the other act, two, one and none on neither."""
    turns = [turn(match=n) for n in range(3)] + [turn("so pass ", "Q", 3)]
    turns += [turn(THINKS, "Q", 4, role=ROLES[1])]  # no other position of its role
    _, rows = measured(turns[:3] + turns[4:], copies)
    assert [rows[name].moved.mean for name in ("same", "three quarters", "half", "a quarter", "none")] == [
        *(0.0, 1.0, 0.5, 0.5, 0.5)
    ]
    assert [rows[name].changed.mean for name in ("same", "three quarters", "half", "none")] == [0.0, 1.0, 1.0, 1.0]
    assert "replaced" not in rows
    _, rows = measured(turns, copies)
    assert (rows["replaced"].moved.mean, rows["replaced"].turns) == (1.0, 4)
    assert rows["half"].moved.mean == pytest.approx(0.5)
    report, _ = measured(turns, copies)
    assert [place.observation for place in report.positions].count("Your card: Q") == 2  # of two roles
    assert report.length == pytest.approx((5 * 4 + 2) / 5)


def test_players_are_kept_apart_where_they_are_given_the_same():
    def scores(prefixes):
        return [copies([one])[0] if one.turn.player == "p" else (0.3, 0.7) for one in prefixes]

    _, rows = measured([turn(), turn(player="q", match=1)], scores)
    assert rows["none"].moved.mean == pytest.approx((0.5 + 0.0) / 2)


def test_roles_of_two_temperatures_are_kept_apart_where_they_are_given_the_same():
    def scores(prefixes):
        return [copies([one])[0] if one.turn.role.temperature == 1.0 else (0.3, 0.7) for one in prefixes]

    cold = ROLES[0].model_copy(update={"temperature": 0.5})
    _, rows = measured([turn(role=cold), turn(match=1)], scores)
    assert rows["none"].moved.mean == pytest.approx((0.0 + 0.5) / 2)


def test_an_act_that_moves_but_stays_the_likeliest_has_not_changed():
    """Of three acts the likeliest stays in one turn, though the first one's probability moves, and goes in another."""
    legal = ("a", "b", "c")
    rows = {"x y": (0.2, 0.5, 0.3), "": (0.3, 0.4, 0.3), "z w": (0.2, 0.5, 0.3), "z": (0.2, 0.3, 0.5)}

    def scores(prefixes):
        return [rows.get(one.words.strip(), (0.2, 0.5, 0.3)) for one in prefixes]

    turns = [turn("x y ", legal=legal), turn("z w ", match=1, legal=legal)]
    _, found = measured(turns, scores)
    assert (found["none"].moved.mean, found["none"].changed.mean) == pytest.approx((0.1, 0.0))
    assert (found["half"].moved.mean, found["half"].changed.mean) == pytest.approx((0.1, 0.5))


def test_an_order_moves_it_as_far_as_all_orders_do_on_average():
    """Of 119 other orders of five words 24 end on the other act and 23 on the same."""
    _, rows = measured([turn(match=n) for n in range(3000)], copies)
    assert rows["permuted"].moved.mean == pytest.approx((24 * 1.0 + 72 * 0.5) / 119, abs=0.02)
    assert rows["permuted"].moved.low < 60 / 119 < rows["permuted"].moved.high


def test_two_samples_of_words_are_compared_with_each_other_and_not_with_the_first():
    def speaks(turns, seed):
        rng = random.Random(seed)
        return ["so bet " if rng.random() < 0.25 else "so pass " for _ in turns]

    _, rows = measured([turn(match=n) for n in range(4000)], copies, speaks)
    assert rows["fresh"].moved.mean == pytest.approx(2 * 0.25 * 0.75, abs=0.03)
    assert rows["fresh"].changed.mean == rows["fresh"].moved.mean


def test_intervals_are_over_matches_and_not_over_turns():
    turns = [turn("so bet " if match else "", match=match) for match in range(2) for _ in range(50)]
    _, rows = measured(turns, copies)
    assert rows["none"].moved.mean == 0.25
    assert (rows["none"].moved.low, rows["none"].moved.high) == (0.0, 1.0)  # of two matches, not of a hundred turns


def test_tags_of_thoughts_stay_where_they_are():
    words = "<think>one two\nthree four</think> so\n"
    assert cut(words, 0.4) == "<think>one two</think>\n"
    assert cut(words, 0.0) == "<think></think>"
    assert cut(words, 1.0) == words
    assert cut("one two ", 0.0) == ""
    order = permuted(words, random.Random(1))
    assert order != words
    assert sorted(order.replace("<think>", "").replace("</think>", " ").split()) == sorted(
        ["one", "two", "three", "four", "so"]
    )
    assert order.startswith("<think>")
    assert [len(part.split()) for part in order[7:].split("</think>")] == [4, 1]
    assert permuted("same same ", random.Random(0)) == "same same "
    assert {permuted("so bet ", random.Random(seed)) for seed in range(20)} == {"bet so "}


def test_the_words_of_a_reply_end_where_its_first_mark_begins():
    assert words_before(ROLES[0], "so [bet] or [bet]") == "so "
    assert words_before(ROLES[0], "<think>[pass]?</think>well [bet]") == "<think>[pass]?</think>well "
    assert words_before(ROLES[0], "[bet]") == ""
    assert words_before(ROLES[0], "hm") == "hm"


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_acts_are_scored_as_single_passes_of_transformers_score_them(temperature):
    """Two players of different weights and two prompts, in one call."""
    models = {"p": pocket(0, 2.0), "q": pocket(1, 2.0)}
    role = ROLES[0].model_copy(update={"temperature": temperature})
    legal = ("pass", "bet", "6")
    prefixes = [
        Prefix(turn(words, prompt=prompt, player=player, role=role, legal=legal), words)
        for player in models
        for prompt in ((5, 6, 7), (9, 8))
        for words in ("", "You play cards. ", "1 2 3 ")
    ]
    found = model_scores(models.__getitem__, prefixes)
    for prefix, row in zip(prefixes, found, strict=True):
        lm, logprobs = models[prefix.turn.player], []
        for act in legal:
            reply = lm.encode_reply(f"{prefix.words}[{act}]")[:-1]
            ids = torch.tensor([[*prefix.turn.prompt, *reply]])
            with torch.no_grad():
                logits = lm.model(input_ids=ids).logits[0, len(prefix.turn.prompt) - 1 : -1].double()
            scores = (logits / temperature).log_softmax(-1)
            logprobs.append(sum(float(score[token]) for score, token in zip(scores, reply, strict=True)))
        assert row == pytest.approx(torch.tensor(logprobs).softmax(0).tolist(), rel=1e-3)
    assert found[0] != pytest.approx(found[1], abs=1e-3)


class Says(Random):
    """A player with a model that says the same words before each act, as a model's engine reports them."""

    def __init__(self, words):
        self.words, self.lm = words, pocket()

    def sample(self, requests):
        return [
            Reply(f"{self.words}[{reply.text[1:-1]}]", TokenTrace(one.player, (1, 2, 3), (4,), (0.0,), None))
            for one, reply in zip(requests, super().sample(requests), strict=True)
        ]

    def model_of(self, player):
        assert player == "says"
        return self.lm


def player(engine, label="says", roles=ROLES):
    return Player(label, SPEC, engine, roles, (((label, 1.0),),) * 2)


def test_words_are_read_from_matches_and_a_player_without_any_gives_zero():
    speaks, mute = player(Says("so I take it: ")), player(Random(), "random", CARDS)
    result = compare((speaks, mute), 8, 3)
    [report] = words_of((speaks, mute), result)
    assert report.turns == sum(turn.player == "says" for episode in result.episodes for turn in episode.turns)
    assert (report.with_words, report.length) == (report.turns, 4.0)
    found = spoken_turns("says", (speaks, mute), result)
    assert {one.match for one in found} == set(range(4))  # deals, each in both seatings
    assert {one.role.seat for one in found} == {0, 1}
    rows = {row.name: row for row in report.rows}
    assert rows["none"].moved.mean > 0.0
    assert rows["same"].moved.mean == rows["replaced"].moved.mean == 0.0  # it says the same everywhere
    silent = player(Says(""))
    [report] = words_of((silent, mute), compare((silent, mute), 8, 3))
    assert report.with_words == 0
    assert all(row.moved.mean == row.changed.mean == 0.0 for row in report.rows if row.name != "fresh")


def test_fresh_words_are_drawn_from_the_model_by_seed():
    lm = pocket()
    turns = [turn(prompt=lm.encode_reply("You play cards."), match=n) for n in range(6)]
    first, same, other = (model_words(lambda _: lm, turns, seed) for seed in (1, 1, 2))
    assert first == same != other
    assert len({*first}) > 1


def test_players_without_words_are_refused_in_a_sentence(capsys):
    assert "no words before its act" in check_speaks(player(Random(), "random", CARDS))
    assert "no language model in this process" in check_speaks(player(Random()))
    assert check_speaks(player(Says(""))) == ""
    with pytest.raises(UsageError, match="no free reply that names a legal act"):
        measure_words("p", [], copies, again, 0)
    assert main(["match", "random", "always:bet", "--game", "kuhn_poker", "--matches", "2", "--words"]) == 2
    assert "Give --reply free" in capsys.readouterr().err


def test_positions_come_in_the_order_in_which_their_words_matter():
    turns = [turn("so bet ", "J", 0), turn("", "Q", 1), turn("so pass ", "K", 2), turn("no ", "K", 3)]
    report, _ = measured(turns, copies)
    assert [(place.observation, place.turns) for place in report.positions] == [
        *(("Your card: J", 1), ("Your card: K", 2), ("Your card: Q", 1))
    ]
    assert [place.without for place in report.positions] == [0.5, fmean((0.5, 0.0)), 0.0]
