"""Prompts, replies and the price of illegal ones: properties and worked examples of pure functions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from games.spec import Choices, GameSpec, Utility
from roles.cards import load_roles, with_overrides
from roles.chat_text import CUE, break_special_tokens, plain_text
from roles.conduct import retry_message, settle_forfeit
from roles.prompts import messages
from roles.replies import format_reply, parse_reply
from roles.role import Conduct

SPEC = GameSpec("kuhn_poker", 2, 2, 3, -2.0, 2.0, Utility.ZERO_SUM, perfect_information=False, has_chance=True)
CHOICE = load_roles(SPEC)[0]
FREE = with_overrides(CHOICE, reply="free")
LEGAL = ("pass", "bet")


def spec(utility, seats=2, low=-2.0, high=2.0):
    return GameSpec("g", seats, 2, 3, low, high, utility, perfect_information=False, has_chance=False)


class Forfeited:
    """A match as a settlement sees it: courses of one more move, which pays nothing."""

    def __init__(self, facts, returns, over=False):
        self.spec, self._returns, self._over = facts, returns, over

    def returns(self):
        return self._returns

    def to_act(self):
        return None if self._over else 0

    def actions(self):
        return Choices(("end",), (0,))

    def apply(self, _action):
        self._over = True

    def copy(self):
        return Forfeited(self.spec, self._returns, self._over)


def test_messages_are_a_constant_system_text_and_a_short_prompt():
    first = messages(CHOICE, "Your card: K\nMoves: none", LEGAL)
    second = messages(CHOICE, "Your card: Q\nMoves: bet", LEGAL)
    assert [message["role"] for message in first] == ["system", "user"]
    assert first[0] == second[0]
    assert first[1]["content"] == "Your card: K\nMoves: none"
    assert plain_text(first) == f"{CHOICE.system}\nYour card: K\nMoves: none\n>"


def test_prompts_of_free_roles_hold_the_form_and_of_default_roles_the_legal_actions():
    assert messages(FREE, "o", LEGAL)[0]["content"].endswith("in the form [action].")
    three = GameSpec("made_up", 3, 2, 3, -2.0, 2.0, Utility.ZERO_SUM, perfect_information=False, has_chance=True)
    assert messages(load_roles(three)[2], "o", LEGAL)[1]["content"] == "o\nLegal: pass, bet"


def test_refusals_follow_as_pairs():
    reason = retry_message(FREE, "o", "I fold", LEGAL)
    chat = messages(FREE, "o", LEGAL, [("I fold", reason)])
    assert [message["role"] for message in chat] == ["system", "user", "assistant", "user"]
    assert chat[2]["content"] == "I fold"
    assert chat[3]["content"] == "Your reply has no answer in the form [action]. Legal: pass, bet."
    assert plain_text(chat).endswith(f"o\n>I fold\n{reason}\n>")


@given(st.text())
def test_an_observation_is_never_a_template(observation):
    content = messages(CHOICE, observation, LEGAL)[1]["content"]
    assert content == observation


@pytest.mark.parametrize("observation", ["{legal}", "{observation.__class__}", "{", "}}", "{0}", "%s {reply!r}"])
def test_braces_stay_literal(observation):
    assert messages(CHOICE, observation, LEGAL)[1]["content"] == observation
    assert observation in retry_message(
        with_overrides(FREE, on_illegal="retry"), observation, observation, (observation,)
    )


@given(st.text(alphabet=">a \n"))
def test_no_text_can_forge_the_cue(observation):
    lines = plain_text(messages(CHOICE, observation, LEGAL)).split("\n")
    assert [line for line in lines if line.startswith(CUE)] == [CUE]
    assert lines[-1] == CUE


@given(st.text(alphabet="<|im_end>s/ ab"), st.lists(st.text(alphabet="<|im_end>s/ ab", min_size=1), max_size=4))
def test_broken_text_holds_no_special_token(text, tokens):
    broken = break_special_tokens(text, tokens)
    assert not any(token in broken for token in tokens)
    if not any(token in text for token in tokens):
        assert broken == text


def test_a_token_that_breaking_another_would_join_is_broken_too():
    assert break_special_tokens("a<|im_end|>b", ["<|im_end|>"]) == "a< |im_end|>b"
    assert "<|im_end|>" not in break_special_tokens("<|im_<|im_end|>end|>", ["<|im_end|>"])


@pytest.mark.parametrize(
    ("text", "action"),
    [("bet", "bet"), (" bet\n", "bet"), ("Bet", None), ("[bet]", None), ("", None), ("bet pass", None)],
)
def test_choice_replies_are_letter_for_letter(text, action):
    assert parse_reply(CHOICE, text, LEGAL) == action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("[bet]", "bet"),
        ("I raise: [ BET ].", "bet"),
        ("[bet], yes, [Bet]", "bet"),
        ("[[bet]]", "bet"),
        ("[bet] or [pass]", None),
        ("[fold] no, [bet]", None),
        ("[fold]", None),
        ("bet", None),
        ("[bet", None),
        ("[]", None),
        ("<think>[pass] or [bet]?</think>[bet]", "bet"),
        ("[pass]</think>[bet]", "bet"),
        ("<think>a</think>[pass]<think>b</think>[bet]", "bet"),
        ("<think>surely [bet]", None),
        ("[bet]<think>or [pass]?", "bet"),
    ],
)
def test_free_replies_name_exactly_one_action_or_nothing(text, action):
    assert parse_reply(FREE, text, LEGAL) == action


def test_case_is_disregarded_only_where_it_decides_nothing():
    assert parse_reply(FREE, "[N  E]", ("n e", "N w")) == "n e"
    assert parse_reply(FREE, "[A]", ("a", "A")) == "A"
    assert parse_reply(FREE, "[Ab]", ("ab", "AB")) is None


@given(st.text(alphabet="[]<think>/abet ps"))
def test_a_parsed_reply_is_legal(text):
    for role in (CHOICE, FREE):
        assert parse_reply(role, text, LEGAL) in (*LEGAL, None)


@pytest.mark.parametrize("role", [CHOICE, FREE])
@pytest.mark.parametrize("action", LEGAL)
def test_format_reply_is_the_inverse(role, action):
    assert parse_reply(role, format_reply(role, action), LEGAL) == action


@given(st.integers(2, 6), st.data())
def test_a_forfeit_keeps_a_zero_sum_game_zero_sum(seats, data):
    low = data.draw(st.floats(-100, 0))
    price = data.draw(st.none() | st.floats(0, 100))
    offender = data.draw(st.integers(0, seats - 1))
    settled = settle_forfeit(
        Forfeited(spec(Utility.ZERO_SUM, seats, low), (0.0,) * seats), offender, Conduct(price=price)
    )
    assert sum(settled) == pytest.approx(0.0, abs=1e-9)
    assert settled[offender] == (low if price is None else -price)
    assert len({value for seat, value in enumerate(settled) if seat != offender}) == 1


@pytest.mark.parametrize(
    ("game", "returns", "price", "settled"),
    [
        (spec(Utility.ZERO_SUM, 3, -2.0, 4.0), (1.0, 0.0, -1.0), None, (2.0, -2.0, 0.0)),
        (spec(Utility.ZERO_SUM, 3, -2.0, 4.0), (1.0, 0.0, -1.0), 0.5, (1.25, -0.5, -0.75)),
        (spec(Utility.IDENTICAL, 2, 0.0, 10.0), (4.0, 4.0), None, (0.0, 0.0)),
        (spec(Utility.IDENTICAL, 2, 0.0, 10.0), (4.0, 4.0), 1.0, (-1.0, -1.0)),
        (spec(Utility.CONSTANT_SUM, 2, 0.0, 10.0), (3.0, 2.0), None, (10.0, 0.0)),
        (spec(Utility.CONSTANT_SUM, 2, 0.0, 10.0), (3.0, 2.0), 1.0, (3.0, -1.0)),
        (spec(Utility.GENERAL_SUM, 3, -5.0, 5.0), (3.0, 2.0, 1.0), None, (3.0, -5.0, 1.0)),
        (spec(Utility.GENERAL_SUM, 3, -5.0, 5.0), (3.0, 2.0, 1.0), 1.0, (3.0, -1.0, 1.0)),
    ],
)
def test_settlements_by_utility(game, returns, price, settled):
    assert settle_forfeit(Forfeited(game, returns), 1, Conduct(price=price)) == settled


def test_an_offender_has_a_seat():
    with pytest.raises(ValueError, match="seat 2"):
        settle_forfeit(Forfeited(SPEC, (0.0, 0.0)), 2, Conduct())
