"""10,000 fuzzed replies leave the structure of every prompt that repeats them as it was."""

import random
import re

import pytest
from support.fuzz import SPECIAL, fuzz

from games.wrappers.injected import SPEAKER
from roles.chat_text import CUE, break_special_tokens, plain_text
from roles.conduct import retry_message
from roles.prompts import messages
from roles.replies import parse_reply
from roles.role import ReplyForm, Role

LEGAL, SEEN = ("pass", "bet"), "Your card: K\nMoves: none"
TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>\n", re.DOTALL)


def chatml(chat):
    """Return a chat as SmolLM2's and Qwen's templates write it, players' text made plain as engines do."""
    safe = [(message["role"], break_special_tokens(message["content"], SPECIAL)) for message in chat]
    return "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in safe), safe


@pytest.mark.parametrize("form", [ReplyForm.CHOICE, ReplyForm.FREE])
def test_a_refused_reply_comes_back_as_the_seats_own_words_and_nothing_else(form):
    role = Role(
        name="first", game="kuhn_poker", seat=0, system="Play.", prompt="{observation}\nLegal: {legal}", reply=form,
        conduct={"on_illegal": "retry"},
    )  # fmt: skip
    benign = messages(role, SEEN, LEGAL, [("nonsense", retry_message(role, SEEN, "nonsense", LEGAL))])
    refused = 0
    for reply in fuzz(random.Random(1)):
        if parse_reply(role, reply, LEGAL) is not None:
            continue
        refused += 1
        chat = messages(role, SEEN, LEGAL, [(reply, retry_message(role, SEEN, reply, LEGAL))])
        assert [message["role"] for message in chat] == ["system", "user", "assistant", "user"]
        assert chat[:2] == benign[:2]
        assert chat[2]["content"] == reply
        assert re.fullmatch(r"Your (reply|answer) [^\n]* Legal: pass, bet\.", chat[3]["content"])  # quotes nothing
        text, safe = chatml(chat)
        assert TURN.findall(text) == safe  # read back, the turns are the turns
        assert sum(line.startswith(CUE) for line in plain_text(chat).split("\n")) == 2  # its reply, and the next one
    assert refused > 9_900


def test_what_is_injected_in_quotation_marks_stays_one_line_of_the_observation():
    from games.talk.conversation import quoted, utterance

    role = Role(name="first", game="kuhn_poker", seat=0, system="Play.", prompt="{observation}\nLegal: {legal}")
    for said in fuzz(random.Random(2)):
        words = utterance(said, 400)
        if words is None:
            continue
        chat = messages(role, f"{SEEN}\n{SPEAKER}: {quoted(words)}", LEGAL)
        lines = chat[1]["content"].split("\n")
        assert [line.partition(":")[0] for line in lines] == ["Your card", "Moves", SPEAKER, "Legal"]
        text, safe = chatml(chat)
        assert TURN.findall(text) == safe
