"""Observations and labels: exact texts, and one text for each information state."""

import random
import re

import pytest

from games.openspiel import hanabi
from games.openspiel.game import OpenSpielGame, decision_points, load_pyspiel
from games.openspiel.renderers import renderer_for
from games.registry import RENDERED, make_game

TEXTS = [
    ("kuhn_poker", [2, 0], 0, "Your card: K\nMoves: none"),
    ("kuhn_poker", [2, 0, 0, 1], 0, "Your card: K\nMoves: pass bet"),
    ("kuhn_poker", [2, 0, 0, 1], 1, "Your card: J\nMoves: pass bet"),
    ("kuhn_poker(players=3)", [3, 0, 1, 0, 0, 1], 0, "Your card: A\nMoves: pass pass bet"),
    ("leduc_poker", [2, 5], 1, "Your card: Kh\nRound 1: none"),
    ("leduc_poker", [2, 5, 2, 1, 1, 1, 2], 0, "Your card: Qs\nRound 1: raise call\nBoard: Jh\nRound 2: call raise"),
    (
        "leduc_poker(suit_isomorphism=True)",
        [1, 2, 1, 1, 1],
        0,
        "Your card: Q\nRound 1: call call\nBoard: Q\nRound 2: none",
    ),
    ("liars_dice", [0, 5], 1, "Your dice: 6\nBids: none"),
    ("liars_dice", [0, 5, 3, 10], 0, "Your dice: 1\nBids: 1x4 2x5"),
    ("liars_dice(numdice=2)", [3, 3, 0, 2, 16], 1, "Your dice: 1 3\nBids: 3x5"),
    ("tiny_hanabi", [0, 1, 2], 1, "Your card: d1\nMoves: a2"),
    ("tic_tac_toe", [2, 4], 0, "1 2 X\n4 O 6\n7 8 9"),
    ("connect_four", [], 0, "1 2 3 4 5 6 7"),
    ("connect_four", [3, 3, 0], 1, ". . . O . . .\nX . . X . . .\n1 2 3 4 5 6 7"),
    ("hex(board_size=3)", [6, 4], 0, "a1 b1 c1\na2 O c2\nX b3 c3"),
    ("hex(board_size=3)", [1, 0, 4, 3], 0, "O X c1\nO X c2\na3 b3 c3"),
]

LABELS = [
    ("kuhn_poker", [0, 1], "pass bet"),
    ("leduc_poker", [0, 1], "call raise"),
    ("leduc_poker", [0, 1, 2], "fold call raise"),
    ("leduc_poker", [0, 1, 2, 2], "fold call"),
    ("liars_dice", [0, 1, 9], "2x5 2x6 liar"),
    ("tiny_hanabi", [0, 1], "a0 a1 a2"),
    ("tic_tac_toe", [2, 4], "1 2 4 6 7 8 9"),
    ("connect_four", [0, 0, 0, 0, 0, 0], "2 3 4 5 6 7"),
    ("hex(board_size=3)", [6, 4], "a1 b1 c1 a2 c2 b3 c3"),
]


def stand_at(name, history):
    state = load_pyspiel(name).new_initial_state()
    for action in history:
        state.apply_action(action)
    return OpenSpielGame.from_state(name, state)


@pytest.mark.parametrize(("name", "history", "seat", "text"), TEXTS)
def test_observation_reads(name, history, seat, text):
    assert stand_at(name, history).observe(seat) == text


@pytest.mark.parametrize(("name", "history", "labels"), LABELS)
def test_labels_read(name, history, labels):
    assert " ".join(stand_at(name, history).legal_actions()) == labels


def histories(name):
    """Yield pyspiel's state at every decision of the whole game."""
    stack = [load_pyspiel(name).new_initial_state()]
    while stack:
        state = stack.pop()
        if state.is_terminal():
            continue
        if not state.is_chance_node():
            yield state
        stack += [state.child(action) for action in state.legal_actions()]


@pytest.mark.parametrize(
    "name",
    [
        "kuhn_poker",
        "kuhn_poker(players=3)",
        "kuhn_poker(players=4)",
        "leduc_poker",
        "leduc_poker(suit_isomorphism=True)",
        "liars_dice(dice_sides=3)",
        "liars_dice(numdice=2,dice_sides=2)",
        "tiny_hanabi",
    ],
)
def test_texts_and_openspiels_information_states_are_one_to_one(name):
    renderer = renderer_for(load_pyspiel(name))
    seats = range(load_pyspiel(name).num_players())
    pairs = {
        (seat, state.information_state_string(seat), renderer.observe(state, seat))
        for state in histories(name)
        for seat in seats
    }
    assert len({(seat, text) for seat, _, text in pairs}) == len({(seat, key) for seat, key, _ in pairs}) == len(pairs)


def test_tic_tac_toe_shows_each_board_by_one_text_whose_digits_are_the_moves():
    points = decision_points("tic_tac_toe", 5000)
    boards = {game.pyspiel_state().observation_string(0): text for (_, text), game in points.items()}
    assert len(boards) == len(set(boards.values())) == len(points)
    for (seat, text), game in points.items():
        assert text == game.observe(seat)
        assert tuple(re.findall(r"\d", text)) == game.legal_actions()


def test_connect_four_shows_each_board_by_one_text_whose_digits_are_the_moves():
    game = make_game("connect_four")
    rng = random.Random(5)
    texts = {}
    for seed in range(100):
        game.reset(seed)
        while (seat := game.to_act()) is not None:
            board = game.pyspiel_state().observation_string(0)
            assert texts.setdefault(board, game.observe(seat)) == game.observe(1 - seat)
            assert tuple(re.findall(r"\d", game.observe(seat))) == game.legal_actions()
            game.apply(rng.choice(game.legal_actions()))
    assert len(set(texts.values())) == len(texts) > 1000


@pytest.mark.parametrize("name", [*RENDERED, "backgammon", "negotiation", "chess", "hanabi", "goofspiel(num_cards=3)"])
def test_labels_are_distinct_and_free_of_stray_spaces(name):
    game = make_game(name)
    rng = random.Random(2)
    for _ in range(30):
        legal = game.legal_actions()
        if not legal:
            break
        assert len(set(legal)) == len(legal) == len(game.legal_ids())
        assert all(label == " ".join(label.split()) != "" for label in legal)
        assert not any(label.startswith((",", "[P")) for label in legal)
        game.apply(rng.choice(legal))


def test_openspiels_own_strings_where_there_is_no_renderer():
    assert make_game("chess").observe(0) == "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    assert stand_at("misere(game=kuhn_poker())", [2, 0, 0]).observe(1) == "0p"
    assert make_game("othello").observe(0).startswith("Black (x) to play:\n  a b c d e f g h")


def test_hex_shows_each_board_by_one_text_whose_names_are_the_moves():
    points = decision_points("hex(board_size=3)", 10_000)
    for (seat, text), game in points.items():
        assert text == game.observe(seat)
        assert tuple(cell for cell in text.split() if cell not in "XO") == game.legal_actions()
    assert len({text for _, text in points}) == len(points)


@pytest.mark.parametrize(("moves", "winner"), [("b1 a1 b2 a2 b3", 0), ("c1 a1 b2 a2 a3", 0), ("a1 a2 c1 b2 b3 c2", 1)])
def test_hex_is_won_as_its_card_says(moves, winner):
    """X joins top and bottom by the column b, and by c1-b2-a3, which touch; O joins the sides by the row 2."""
    game = make_game("hex(board_size=3)")
    for move in moves.split():
        assert game.to_act() is not None
        game.apply(move)
    assert game.to_act() is None
    assert game.returns()[winner] == 1.0


def test_hanabi_reads_and_hides_a_seats_own_cards():
    """OpenSpiel's observation of the same position, read by a person, says what ours says in six lines."""
    game = make_game("hanabi(players=2,colors=2,ranks=2,hand_size=2,max_information_tokens=3,max_life_tokens=1)")
    game.reset(0)
    while "+1: R1:RY12 Y1:RY12" not in game.observe(0):  # until the deal is the expected one
        game.reset(random.Random(game.observe(0)).getrandbits(32))
    hands = "You: RY12 RY12\n+1: R1:RY12 Y1:RY12"
    assert game.observe(0) == f"Fireworks: R0 Y0\nTells: 3  Lives: 1  Deck: 4\n{hands}\nDiscards: none\nMoves: none"
    assert game.legal_actions() == ("play 1", "play 2", "tell R", "tell Y", "tell 1")
    game.apply("tell Y")
    assert "\nTells: 2  Lives: 1  Deck: 4\nYou: R12 Y12\n" in game.observe(1)
    assert game.legal_actions()[:3] == ("discard 1", "discard 2", "play 1")


def test_hanabi_lists_the_moves_and_the_cards_that_they_cost():
    """The second seat of three: W1 is the first seat's third card, which it plays."""
    state = load_pyspiel("hanabi(players=3)").new_initial_state()
    for action in [12, 24, 15, 1, 8, 16, 15, 12, 9, 17, 13, 21, 6, 19, 4]:  # G3 B5 W1 R2 Y4, W2 W1 G3 Y5 W3, G4 …
        state.apply_action(action)
    for move in ("tell +2 Y", "discard 4", "(Deal R4)", "tell +2 R", "play 3", "(Deal B3)", "discard 4", "(Deal R3)"):
        label = (
            hanabi.move_label if state.current_player() >= 0 else lambda state, card: state.action_to_string(-1, card)
        )
        [action] = [action for action in state.legal_actions() if label(state, action) == move]
        state.apply_action(action)
    expected = ["+2 tell +1 Y", "you discard 4 Y5", "+1 tell you R", "+2 play 3 W1", "you discard 4 W3"]
    assert hanabi.moves(state, 1) == expected
    assert hanabi.observation(state, 1).endswith(f"\nDiscards: W3 Y5\nMoves: {', '.join(expected)}")


@pytest.mark.parametrize("seats", [2, 3])
def test_hanabis_text_holds_all_that_a_seat_saw_and_did(seats):
    """Equal texts come only after equal histories of what the seat was shown by OpenSpiel, and how it moved."""
    game = make_game(f"hanabi(players={seats},colors=2,ranks=2,hand_size=2)")
    histories, rng, visits = {}, random.Random(3), 0
    for seed in range(400):
        game.reset(seed)
        saw = [()] * seats
        while (seat := game.to_act()) is not None:
            state = game.pyspiel_state()
            saw = [(*seen, state.observation_string(viewer)) for viewer, seen in enumerate(saw)]
            visits += 1
            assert histories.setdefault((seat, game.observe(seat)), saw[seat]) == saw[seat]
            action = rng.choice(game.legal_actions())
            saw[seat] = (*saw[seat], action)
            game.apply(action)
    assert visits > len(histories) + 300, "hundreds of positions were met again"


def test_what_hanabi_shows_decides_what_is_legal():
    game, rng = make_game("hanabi(players=3,colors=2,ranks=2,hand_size=2)"), random.Random(2)
    menus: dict[str, tuple[str, ...]] = {}
    for seed in range(200):
        game.reset(seed)
        while (seat := game.to_act()) is not None:
            legal = game.legal_actions()
            assert len(set(legal)) == len(legal)
            assert menus.setdefault(game.observe(seat), legal) == legal
            game.apply(rng.choice(legal))
