"""Signalling and reference: OpenSpiel's Lewis game, codes and what they are worth, words that may not name things."""

import itertools
import random

import pyspiel
import pytest
from support.matches.codes import code_table
from support.twins import brute_force, openspiel_values, random_table

from games.common.errors import UsageError
from games.registry import make_game
from games.talk.reference import VALUES, read_message
from games.talk.signalling import INVENTED, STATES, read_word
from league.theory.exact.exploitability import PolicyTable, head_to_head, nash_conv, optimum, tabulate

LEWIS = "signalling(rounds=1,form=1)"
SMALL = "reference(things=2,attributes=1,values=2,words=2,length=1,form=1)"


def scripted(name, script):
    """Return a script that does not draw as a table."""

    def rows(positions):
        for _, position in positions:
            labels = position.legal_actions()
            yield tuple(float(label == position.scripts()[script](random.Random(0))) for label in labels)

    return tabulate(name, lambda positions: list(rows(positions)))


def played(name, script, seed):
    game = make_game(name)
    game.reset(seed)
    while game.to_act() is not None:
        game.apply(game.scripts()[script](random.Random(seed)))
    return game.returns()[0]


@pytest.mark.parametrize(("states", "words"), [(3, 3), (4, 2)])
def test_one_round_is_openspiels_lewis_game(states, words):
    name = LEWIS if (states, words) == (3, 3) else f"signalling(states={states},words={words},rounds=1,form=1)"
    payoffs = ",".join(str(int(i == j)) for i, j in itertools.product(range(states), repeat=2))
    game = pyspiel.load_game(
        "lewis_signaling",
        {"num_states": states, "num_messages": words, "payoffs": payoffs},
    )
    table = random_table(name, 4)
    count, expected, best = openspiel_values(game, table)
    assert count == states + words
    assert head_to_head([table, table]) == pytest.approx(expected)
    assert nash_conv(table) == pytest.approx(sum(best) - sum(expected))


@pytest.mark.parametrize(("states", "words", "best"), [(3, 3, 1.0), (4, 2, 0.5), (2, 4, 1.0), (3, 1, 1 / 3)])
def test_the_best_code_is_the_known_optimum_and_to_babble_is_an_equilibrium_too(states, words, best):
    sizes = {"states": states, "words": words}
    parts = [f"{key}={value}" for key, value in sizes.items() if value != 3]
    name = f"signalling({','.join([*parts, 'rounds=1', 'form=1'])})"
    assert make_game(name).spec.optimum == pytest.approx(best)
    assert optimum(name) == pytest.approx(best)
    good, poor = scripted(name, "good"), scripted(name, "poor")
    assert head_to_head([good, good])[0] == pytest.approx(best)
    assert head_to_head([poor, poor])[0] == pytest.approx(1 / states)
    assert nash_conv(poor) == pytest.approx(0.0)


def test_rounds_add_up_and_a_round_tells_what_it_was():
    game = make_game("signalling")
    game.reset(5)
    state = game._rounds[0].state
    game.apply("blip")
    assert game.observe(1).splitlines()[-1] == "Round 1 of 3: word blip."
    assert state not in game.observe(1).splitlines()[-1]
    wrong = next(other for other in STATES[:3] if other != state)
    game.apply(wrong)
    assert game.observe(1).splitlines()[1] == f"Round 1: word blip, you chose {wrong}, it was {state}."
    assert game.returns() == (0.0, 0.0)
    assert [played("signalling", "good", seed) for seed in range(20)] == [3.0] * 20
    assert [played("reference", "good", seed) for seed in range(20)] == [1.0] * 20


@pytest.mark.parametrize("name", [LEWIS, SMALL])
def test_a_receiver_sees_only_the_word(name):
    """Positions that differ in what is meant alone look alike to it."""
    seen, stack = {}, [make_game(name).undealt()]
    while stack:
        match = stack.pop()
        if outcomes := match.chance_outcomes():
            moves = [(match.copy(), "apply_chance", outcome) for outcome, _ in outcomes]
        elif match.to_act() == 0:
            moves = [(match.copy(), "apply", label) for label in match.legal_actions()]
        else:
            meant = match._rounds[0].state if name == LEWIS else match._meant
            seen.setdefault((match.observe(1), match.information_state(1)), set()).add(meant)
            continue
        for child, move, label in moves:
            getattr(child, move)(label)
            stack.append(child)
    assert all(len(meant) == (3 if name == LEWIS else 2) for meant in seen.values())


def test_the_small_reference_game_has_values_by_brute_force():
    table = random_table(SMALL, 5)
    assert head_to_head([table, table]) == pytest.approx(tuple(brute_force(make_game(SMALL).undealt(), table)))
    assert optimum(SMALL) == pytest.approx(1.0)
    assert head_to_head([scripted(SMALL, "good")] * 2)[0] == pytest.approx(1.0)
    assert head_to_head([scripted(SMALL, "poor")] * 2)[0] == pytest.approx(0.5)
    assert isinstance(scripted(SMALL, "good"), PolicyTable)


def test_a_code_of_one_word_a_value_tells_every_thing_apart():
    game = make_game("reference(things=9)")
    codes = {game._code(thing) for thing in range(9)}
    assert len(codes) == 9
    assert codes == {f"{a} {b}" for a, b in itertools.product(INVENTED[:3], repeat=2)}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Blip!", "blip"),
        ('"dax"', "dax"),
        *[(text, None) for text in ("sun", "Sunny", "two words", "", "abcdefghijklm", "b1p")],
    ],
)
def test_a_word_of_ones_own_names_no_thing(text, word):
    assert read_word(text, STATES[:3]) == word


@pytest.mark.parametrize(("text", "said"), [("the  hot\none", "the hot one"), ("the RED one", None), ("x" * 61, None)])
def test_a_message_of_ones_own_names_no_value(text, said):
    assert read_message(text, VALUES) == said


@pytest.mark.parametrize(
    "name", ["signalling(states=9)", "signalling(words=2)", "reference(things=10)", "reference(values=5)"]
)
def test_wrong_sizes_are_refused(name):
    with pytest.raises(UsageError, match="There is no game"):
        make_game(name)


def test_where_words_are_fewer_than_things_the_last_stands_for_all_that_is_left():
    """Of four things and two words the second means three of them: what a listener believes is what is said."""
    game = make_game("signalling(states=4,words=2,rounds=1,form=1)").undealt()
    heard = {}
    for state in ("fish", "sun", "bell", "tree"):
        match = game.copy()
        match.apply_chance(state)
        assert match.belief("good", "thing", 0) == {state: 1.0}
        match.apply(match.scripts()["good"](None))
        heard[state] = match.belief("good", "thing", 1)
        assert heard[state][state] == pytest.approx(1.0 if state == "sun" else 1 / 3)
        assert sum(heard[state].values()) == pytest.approx(1.0)
    assert heard["tree"] == heard["fish"] == heard["bell"]


def test_the_six_codes_play_as_six_scripts():
    """Two codes understand each other in the fixed points of what one makes of the other's words: 3, 1 or none."""
    names = [f"code-{number}" for number in range(1, 7)]
    assert [name for name in make_game(LEWIS).scripts() if name.startswith("code")] == names
    tables = [scripted(LEWIS, name) for name in names]
    assert tables[0] == scripted(LEWIS, "good")
    codes = list(itertools.permutations(range(3)))
    for (one, first), (two, second) in itertools.product(zip(codes, tables, strict=True), repeat=2):
        assert first == code_table(LEWIS, one)
        agreed = sum(a == b for a, b in zip(one, two, strict=True)) / 3
        assert head_to_head([first, second]) == pytest.approx((agreed, agreed))


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("signalling(states=4,rounds=1,form=1)", 0),
        ("signalling(words=4,rounds=1,form=1)", 24),
        ("signalling(states=4,words=4,rounds=2,form=1)", 24),
        ("signalling(states=5,words=5,rounds=1,form=1)", 0),
        ("signalling(rounds=2)", 6),
    ],
)
def test_every_code_has_a_script_where_they_are_few(name, codes):
    found = [script for script in make_game(name).scripts() if script.startswith("code")]
    assert len(found) == codes
    for script in found[::5]:
        rounds = make_game(name).spec.optimum
        assert played(name, script, 3) == rounds


def test_a_code_believes_what_its_word_means():
    game = make_game("signalling(rounds=1,form=1)")
    game.reset(1)
    state = next(name for name in STATES[:3] if f"it is {name}" in game.observe(0))
    assert game.belief("code-4", "thing", 0)[state] == 1.0
    assert game.belief("code-4", "thing", 1) == pytest.approx(dict.fromkeys(STATES[:3], 1 / 3))
    game.apply(INVENTED[0])  # code-4 says dax, fep, bem of sun, tree, fish
    assert game.belief("code-4", "thing", 1) == {"sun": 0.0, "tree": 0.0, "fish": 1.0}
