"""Conversations: who hears what, and that nothing said is more than a quotation to others."""

import random
import re

import pytest
from support.fuzz import SPECIAL, fuzz

from games.talk.conversation import (
    PUBLIC,
    SPECTATORS,
    Conversation,
    Discussion,
    quoted,
    speech,
    team,
    utterance,
)
from roles.chat_text import break_special_tokens, plain_text
from roles.prompts import messages
from roles.replies import read_free_text
from roles.role import Role

NAMES = ("ann", "bob", "cleo")
QUOTED_LINE = re.compile(r'ann: "(?:[^"\\]|\\["\\])*"')


def test_channels_say_who_hears_what():
    talk = Conversation(NAMES).say(0, "to all", PUBLIC).say(0, "to us", team("wolves", 0, 1))
    talk = talk.say(2, "to bob", team("bob", 1)).say(2, "aside", SPECTATORS)
    assert talk.lines(0) == ('you: "to all"', 'you to wolves: "to us"')
    assert talk.lines(1) == ('ann: "to all"', 'ann to wolves: "to us"', 'cleo to bob: "to bob"')
    assert talk.lines(2) == ('ann: "to all"', 'you to bob: "to bob"', 'you to spectators: "aside"')
    assert talk.lines(None) == ('ann: "to all"', 'cleo to spectators: "aside"')
    assert Conversation(NAMES).lines(0) == ()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("a\nb\u2028c\td", "a b c d"),
        ("\u202eab\u200bc\ufeff", "abc"),
        ("“yes”", '"yes"'),
        ("  ", None),
        ("x" * 41, None),
        ("é 你好", "é 你好"),
    ],
)
def test_an_utterance_is_one_line_of_letters_that_can_be_seen(said, shown):
    assert utterance(said, 40) == shown


def test_a_quotation_cannot_be_ended():
    assert quoted('he said "no" \\') == '"he said \\"no\\" \\\\"'


def test_nothing_said_changes_who_speaks_or_what_another_seat_is_told():
    role = Role(game="talk", name="bob", seat=1, system="Listen.", prompt="{observation}\nLegal: {legal}")
    asked, legal = speech(400), ("accept", "refuse")
    before = "Round 1\nYour card: 7"
    plain = messages(role, before, legal)
    read = 0
    for said in fuzz(random.Random(0)):
        action = read_free_text(asked, said)
        if action is None:
            continue
        read += 1
        assert asked.read(action) == action  # canonical
        [line] = Conversation(NAMES).say(0, action).lines(1)
        assert QUOTED_LINE.fullmatch(line)
        assert line.splitlines() == [line]
        assert line.isprintable()
        chat = messages(role, f"{before}\n{line}", legal)
        assert [message["role"] for message in chat] == [message["role"] for message in plain]
        assert chat[0] == plain[0]
        told, expected = (text[1]["content"].split("\n") for text in (chat, plain))
        assert told == [*expected[:2], line, *expected[2:]]
        assert not any(token in break_special_tokens(line, SPECIAL) for token in SPECIAL)
        assert plain_text(chat).count("\n>") == 1
    assert read > 8000


def test_everyone_speaks_in_turn():
    talk, order = Discussion((2, 0), rounds=2), []
    while (seat := talk.to_act()) is not None:
        assert not talk.bidding
        order.append(seat)
        talk = talk.spoke()
    assert order == [2, 0, 2, 0]


def test_only_those_who_bid_speak_and_a_silent_round_ends():
    talk = Discussion((0, 1, 2), rounds=2, bids=True)
    for wants in (True, False, True):
        assert talk.bidding
        talk = talk.bid(wants)
    assert [talk.to_act(), talk.spoke().to_act()] == [0, 2]
    talk = talk.spoke().spoke()
    assert talk.bidding
    for _ in range(3):
        talk = talk.bid(wants=False)
    assert talk.over
    assert talk.to_act() is None
