"""Cards: the built-in roles fit their games, and every broken card is refused in a sentence that names it."""

import pickle

import pytest
from pydantic import ValidationError
from support.pages import page_of

from games.common.errors import UsageError
from games.registry import RENDERED, make_game
from games.spec import GameSpec, Utility
from roles.cards import BUILT_IN, load_roles, with_overrides
from roles.role import Conduct, OnIllegal, ReplyForm, RoleCard
from roles.tools import Tool
from roles.truncation import NO_TRUNCATION

KUHN = GameSpec("kuhn_poker", 2, 2, 3, -2.0, 2.0, Utility.ZERO_SUM, perfect_information=False, has_chance=True)
CARD = """
game = "kuhn_poker"
[[role]]
name = "first"
seat = 0
system = "Play."
prompt = "{observation}"
[[role]]
name = "second"
seat = 1
system = "Play."
prompt = "{observation} {legal}"
"""


def loaded(tmp_path, text):
    (tmp_path / "kuhn.toml").write_text(text)
    return load_roles(KUHN, tmp_path)


@pytest.mark.parametrize(
    ("game", "names"),
    [
        ("kuhn_poker", ["first", "second"]),
        ("tic_tac_toe", ["crosses", "noughts"]),
        ("tiny_hanabi", ["signaller", "responder"]),
        ("kuhn_poker(players=3)", ["first", "second", "third"]),
        ("kuhn_poker(players=2)", ["first", "second"]),
    ],
)
def test_roles_by_game(game, names):
    roles = load_roles(make_game(game).spec)
    assert [role.name for role in roles] == names
    assert [role.seat for role in roles] == list(range(len(names)))
    assert {role.game for role in roles} == {game}


@pytest.mark.parametrize("game", RENDERED)
def test_every_rendered_game_has_masked_choice_roles_by_default(game):
    for role in load_roles(make_game(game).spec):
        assert role.reply is ReplyForm.CHOICE
        assert role.conduct.on_illegal is OnIllegal.MASK


def test_card_for_two_seats_is_not_used_for_three():
    two, three = load_roles(make_game("kuhn_poker").spec), load_roles(make_game("kuhn_poker(players=3)").spec)
    assert "two-player" in two[0].system
    assert "two-player" not in three[0].system
    assert "{legal}" in three[0].prompt


def test_tiny_hanabi_card_tells_the_rules_that_openspiel_plays():
    """The card's sentences, written as a rule, against OpenSpiel's returns in all 36 plays."""
    import pyspiel

    def told(card, other, signal, answer):
        if signal == 1:
            return 8 if answer == 1 else 4
        if signal == 2 and card == 1 and other == 0:
            return 0
        return 10 if answer == (0 if card == other else 2) else 0

    game = pyspiel.load_game("tiny_hanabi")
    for card, other, signal, answer in [
        (a, b, c, d) for a in (0, 1) for b in (0, 1) for c in range(3) for d in range(3)
    ]:
        state = game.new_initial_state()
        for move in (card, other, signal, answer):
            state.apply_action(move)
        assert state.returns() == [told(card, other, signal, answer)] * 2


def test_users_folder_comes_before_the_built_in_cards(tmp_path):
    assert [role.system for role in loaded(tmp_path, CARD)] == ["Play.", "Play."]
    tic_tac_toe = make_game("tic_tac_toe").spec
    assert load_roles(tic_tac_toe, tmp_path) == load_roles(tic_tac_toe, BUILT_IN)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "second"\n', "", "key 'name' is missing"),
        ('prompt = "{observation}"\n', "", "role 'first': The key 'prompt' is missing"),
        ("seat = 0", "seat = 0\nprompts = 1", "role 'first': There is no key named 'prompts'. Did you mean prompt?"),
        (
            "seat = 0",
            'seat = "zero"',
            "role 'first': seat = 'zero': it should be a valid integer. (its seat in the game",
        ),
        ("seat = 0", "seat = true", "seat = True: it should be a valid integer"),
        ("seat = 1", "seat = 2", "role 'second': seat 2 is out of range; kuhn_poker has seats 0 to 1"),
        ("seat = 1", "seat = 0", "role 'second': seat 0 is already taken by role 'first'"),
        ('"{observation}"', '"{card}"', "role 'first': prompt uses the field {card}"),
        ('"{observation}"', '"{observation.__class__}"', "prompt uses the field {observation.__class__}"),
        ('"{observation}"', '"{observation!r}"', "prompt uses the field {observation}"),
        ('"{observation}"', '"{observation"', "prompt is not a valid template"),
        ('system = "Play."', 'system = "{legal}"', "system uses the field {legal}; the fields it may use: none"),
        ("seat = 0", 'seat = 0\nretry = "{why}"', "retry uses the field {why}"),
        ("seat = 0", 'seat = 0\nreply = "essay"', "reply = 'essay': it should be 'choice' or 'free'"),
        (
            "seat = 0",
            'seat = 0\nreply = "free"\nconduct = {on_illegal = "mask"}',
            "role 'first': a free reply cannot be masked",
        ),
        (
            "seat = 0",
            'seat = 0\nconduct = {on_ilegal = "mask"}',
            "named 'conduct.on_ilegal'. Did you mean conduct.on_illegal?",
        ),
        (
            "seat = 0",
            'seat = 0\nconduct = {on_illegal = "fine"}',
            "conduct.on_illegal = 'fine': it should be 'forfeit', 'retry' or 'mask'",
        ),
        ("seat = 0", "seat = 0\nconduct = {price = -1}", "conduct.price = -1: it should be greater than or equal to 0"),
        (
            "seat = 0",
            "seat = 0\nconduct = {retries = -1}",
            "conduct.retries = -1: it should be greater than or equal to 0",
        ),
        ("seat = 0", "seat = 0\ntemperature = 0", "temperature = 0: it should be greater than or equal to 0.000001"),
        ("seat = 0", "seat = 0\ntemperature = 1e-320", "it should be greater than or equal to 0.000001"),
        ("seat = 0", "seat = 0\nmax_reply_tokens = 0", "max_reply_tokens = 0: it should be greater than or equal to 1"),
        ("seat = 0", 'seat = 0\nanswer_open = ""', "answer_open = '': it should have at least 1 character"),
        ('game = "kuhn_poker"', "", "The key 'game' is missing. (the game that the roles are for"),
        ('game = "kuhn_poker"', 'game = "kuhn_poker"\nplayers = 2', "named 'players'"),
        ("[[role]]", "[[role", "is not readable TOML"),
        ('game = "kuhn_poker"', "game = 3", "game = 3: it should be a valid string"),
        ("seat = 0", 'seat = 0\ngame = "kuhn_poker"', "There is no key named 'game'"),
        ("seat = 0", "seat = 0.0", "seat = 0.0: it should be a valid integer"),
        ("seat = 0", 'seat = "0"', "seat = '0': it should be a valid integer"),
        ('system = "Play."', "system = 3", "system = 3: it should be a valid string"),
        ('name = "first"', 'name = ""', "name = '': it should have at least 1 character"),
        ("seat = 0", 'seat = 0\npolicy = ""', "policy = '': it should have at least 1 character"),
        ("seat = 0", "seat = 0\ntemperature = true", "temperature = True: it should be a valid number"),
        ("seat = 0", "seat = 0\ntemperature = nan", "temperature = nan: it should be a finite number"),
        ("seat = 0", 'seat = 0\ntemperature = "1"', "temperature = '1': it should be a valid number"),
        ("seat = 0", "seat = 0\nmax_reply_tokens = 2.0", "max_reply_tokens = 2.0: it should be a valid integer"),
        ("seat = 0", "seat = 0\nreply = 1", "reply = 1: it should be 'choice' or 'free'"),
        ("seat = 0", "seat = 0\nconduct = 3", "conduct = 3: it should be a table of keys (conduct.on_illegal,"),
        ("seat = 0", 'seat = 0\nreply = "free"\nconduct = 3', "conduct = 3: it should be a table of keys"),
        ("seat = 0", "seat = 0\nconduct = {price = inf}", "conduct.price = inf: it should be a finite number"),
        ("seat = 0", "seat = 0\nconduct = {retries = true}", "conduct.retries = True: it should be a valid integer"),
        ("seat = 0", 'seat = 0\ntools = "search"', "tools = 'search': it should be a list"),
    ],
)
def test_broken_card_is_refused_with_file_and_role_named(tmp_path, old, new, message):
    assert old in CARD
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path, CARD.replace(old, new, 1))
    assert message in str(caught.value)
    assert "kuhn.toml" in str(caught.value)


@pytest.mark.parametrize("roles", ["", "role = 3", "role = []", "role = [1, 2]", "[role]\nname = 'first'"])
def test_a_card_without_role_tables_is_refused(tmp_path, roles):
    with pytest.raises(UsageError, match=r"kuhn\.toml: .*role.*table"):
        loaded(tmp_path, f'game = "kuhn_poker"\n{roles}')


def test_all_mistakes_of_a_role_are_told_at_once(tmp_path):
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path, CARD.replace("seat = 0", 'seat = "zero"\nprompts = 1\nconduct = {retries = -1}'))
    assert len(str(caught.value).splitlines()) == 3
    assert str(caught.value).count("kuhn.toml, role 'first': ") == 3


def test_numbers_are_kept_as_what_they_are_declared(tmp_path):
    """A whole number is a price or a temperature too, and a card and an override give the same role."""
    written = "seat = 0\ntemperature = 2\nconduct = {price = 1, retries = 3}"
    first = loaded(tmp_path, CARD.replace("seat = 0", written))[0]
    assert (repr(first.temperature), repr(first.conduct.price)) == ("2.0", "1.0")
    plain = loaded(tmp_path, CARD)[0]
    assert with_overrides(plain, temperature=2, price=1, retries=3) == first


def test_a_role_is_a_key_and_goes_to_another_process_whole(tmp_path):
    lookup = make_game("lookup_alone").spec
    for role in (*loaded(tmp_path, CARD), *load_roles(lookup)):
        copied = pickle.loads(pickle.dumps(role))  # noqa: S301 - what Ray and multiprocessing do
        assert (copied, hash(copied)) == (role, hash(role))
        assert {role: "known"}[copied] == "known"
    first, second = loaded(tmp_path, CARD)
    assert first != second
    with pytest.raises(ValidationError, match="frozen"):
        first.seat = 1


@pytest.mark.parametrize(("table", "page"), [(RoleCard, "roles"), (Conduct, "roles"), (Tool, "teams")])
def test_every_key_has_a_meaning_and_stands_in_the_documentation(table, page):
    documented = page_of(page).read_text(encoding="utf-8")
    for key, field in table.model_fields.items():
        assert field.description
        assert f"`{key}`" in documented


def test_a_seat_without_a_role_two_files_for_a_game_and_no_folder_are_refused(tmp_path):
    one_role = CARD[: CARD.rindex("[[role]]")]
    with pytest.raises(UsageError, match="seat 1 has no"):
        loaded(tmp_path, one_role)
    (tmp_path / "other.toml").write_text(CARD)
    with pytest.raises(UsageError, match="both hold the roles of kuhn_poker"):
        loaded(tmp_path, CARD)
    with pytest.raises(UsageError, match="does not exist"):
        load_roles(KUHN, tmp_path / "nowhere")


def test_overrides():
    role = load_roles(KUHN)[0]
    assert with_overrides(role) == role
    free = with_overrides(role, reply="free", price=1, policy="poker", temperature=2, max_reply_tokens=5)
    assert (free.reply, free.conduct.on_illegal, free.conduct.price) == (ReplyForm.FREE, OnIllegal.FORFEIT, 1.0)
    assert (free.policy, free.temperature, free.max_reply_tokens) == ("poker", 2.0, 5)
    retrying = with_overrides(role, reply="free", on_illegal="retry", retries=3)
    assert (retrying.conduct.on_illegal, retrying.conduct.retries) == (OnIllegal.RETRY, 3)
    truncated = with_overrides(role, reply="free", top_k=20, top_p=0.9, min_p=0.05)
    assert truncated.truncation == (20, 0.9, 0.05)
    assert free.truncation == NO_TRUNCATION
    assert with_overrides(role, on_illegal="forfeit").conduct.on_illegal is OnIllegal.FORFEIT


@pytest.mark.parametrize(
    "change",
    [
        {"reply": "free", "on_illegal": "mask"},
        {"price": -1.0},
        {"temperature": 0.0},
        {"reply": "essay"},
        {"top_p": 0.9},
        {"reply": "free", "top_p": 0.0},
        {"reply": "free", "min_p": 1.5},
        {"reply": "free", "top_k": -1},
    ],
)
def test_bad_overrides_name_the_role(change):
    with pytest.raises(UsageError, match="role 'first' of kuhn_poker"):
        with_overrides(load_roles(KUHN)[0], **change)
