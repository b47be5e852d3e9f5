"""Demonstrations: legal, drawn by seed, of other positions, and never always the same action."""

import pytest

from games.common.errors import UsageError
from games.registry import make_game
from roles.cards import load_roles, with_overrides
from roles.conduct import retry_message
from roles.demonstrations import legal_positions, shown_turns
from roles.prompts import messages, request_text
from roles.replies import format_reply, illegal_reason, parse_reply

LEGAL = ("pass", "bet")


def role(game="kuhn_poker", seat=0, **overrides):
    given = {"reply": "free", "on_illegal": "forfeit", **overrides}
    return with_overrides(load_roles(make_game(game).spec, wording="full")[seat], **given)


def test_all_twelve_positions_of_kuhn_poker_are_found():
    """Each of three cards, before the first move and after one or two: six for each seat."""
    assert [len(legal_positions("kuhn_poker", seat, 0)) for seat in (0, 1)] == [6, 6]


@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_poker", "tic_tac_toe", "connect_four", "liars_dice"])
@pytest.mark.parametrize("seat", [0, 1])
def test_turns_are_legal_and_their_actions_vary(game, seat):
    shown, known = set(), {p.observation: p.legal for p in legal_positions(game, seat, 0)}
    for observation in list(known)[:20]:
        for turn in shown_turns(role(game, seat, demonstrations=2), observation):
            assert turn.observation != observation
            assert turn.action in turn.legal == known[turn.observation]
            shown.add(turn.action)
    assert len(shown) >= 2


def test_two_demonstrations_show_two_actions():
    for observation, *_ in legal_positions("kuhn_poker", 0, 0):
        first, second = shown_turns(role(demonstrations=2), observation)
        assert {first.action, second.action} == {"pass", "bet"}


def test_equal_positions_have_equal_prompts_and_other_seeds_other_ones():
    one, two = (role(demonstrations=1).model_copy(update={"demonstration_seed": seed}) for seed in (0, 1))
    texts = [position.observation for position in legal_positions("kuhn_poker", 0, 0)]
    assert [messages(one, text, LEGAL) for text in texts] == [messages(one, text, LEGAL) for text in texts]
    assert [messages(one, text, LEGAL) for text in texts] != [messages(two, text, LEGAL) for text in texts]


def test_they_stand_as_turns_of_the_chat_between_instructions_and_question():
    shown = role(demonstrations=1)
    system, question, answer, request = messages(shown, "Your card: K\nMoves: none", LEGAL)
    assert [m["role"] for m in (system, question, answer, request)] == ["system", "user", "assistant", "user"]
    turn = shown_turns(shown, "Your card: K\nMoves: none")[0]
    assert question["content"] == request_text(shown, turn.observation, turn.legal)
    assert answer["content"] == format_reply(shown, turn.action)
    assert parse_reply(shown, answer["content"], turn.legal) == turn.action
    assert request["content"].endswith("Legal: [pass], [bet]\nYour move:")


def test_the_request_ends_with_the_legal_replies_in_their_form_and_never_says_action():
    chat = messages(role(), "Your card: K\nMoves: none", LEGAL, [("bet!", "no")])
    assert chat[1]["content"] == ("Your card: K\nMoves so far: none\nLegal: [pass], [bet]\nYour move:")
    assert not any("action" in message["content"] for message in chat)
    assert "action" not in illegal_reason(role(), "I bet")
    masked = messages(role(reply="choice"), "Your card: K\nMoves: none", LEGAL)
    assert masked[1]["content"].endswith("Legal: pass, bet\nYour move:")


def test_a_retry_ends_with_the_same_request():
    told = retry_message(role(on_illegal="retry"), "o", "I bet", LEGAL)
    assert told == ("Your reply has no answer between [ and ].\nLegal: [pass], [bet]\nYour move:")


def test_brief_cards_are_as_they_were():
    brief = with_overrides(load_roles(make_game("kuhn_poker").spec)[0], reply="free")
    system, request = messages(brief, "Your card: K\nMoves: none", LEGAL)
    assert system["content"].endswith("Give your answer in the form [action].")
    assert request["content"] == "Your card: K\nMoves: none"


@pytest.mark.parametrize("game", ["lookup_chain", "lookup", "lookup_alone"])
def test_games_that_no_random_player_can_play_alone_are_refused(game):
    with pytest.raises(UsageError, match="demonstrations cannot be drawn"):
        shown_turns(role(game, demonstrations=1), "o")


@pytest.mark.parametrize("name", ["simple_negotiation", "debate", "hidden_roles"])
def test_where_words_are_asked_for_words_are_shown_that_the_game_reads(name):
    game = make_game(name)
    for seat in range(game.spec.seats):
        shown = role(name, seat, demonstrations=2)
        positions = legal_positions(name, seat, 0)
        words = [position for position in positions if position.form]
        assert words
        _, *turns = messages(shown, words[0].observation, (), form=words[0].form)
        assert [m["role"] for m in turns] == ["user", "assistant"] * 2 + ["user"]
        assert all("\nAnswer with " in turns[i]["content"] for i in (0, 2, 4))
        assert "[" not in turns[1]["content"] + turns[3]["content"]
        said = {position.legal for position in words}
        assert {(turns[1]["content"],), (turns[3]["content"],)} <= said
        assert len(said) > 1


def test_a_vote_is_shown_votes_and_a_speech_speeches():
    votes = [p for p in legal_positions("hidden_roles", 1, 0) if not p.form]
    shown = shown_turns(role("hidden_roles", 1, demonstrations=2), votes[0].observation)
    assert all(turn.action.startswith("vote ") for turn in shown)
    spoken = shown_turns(role("hidden_roles", 1, demonstrations=2), votes[0].observation, speaks=True)
    assert all(turn.action.startswith("I suspect ") for turn in spoken)
    assert (len(shown), len(spoken)) == (2, 2)


def test_in_a_debate_somebody_argues_and_a_judge_thinks_before_its_answer():
    """Else a model that copies what it is shown never says why."""
    for seat, sign in ((0, "box"), (1, "box"), (2, "Answer: box")):
        shown = shown_turns(role("debate", seat, demonstrations=3), "another position", speaks=True)
        assert len(shown) == 3
        for turn in shown:
            assert sign in turn.action
            assert len(turn.action.split()) > 5, turn.action
