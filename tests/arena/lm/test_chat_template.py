"""Templates by strangers: the prompt of ``transformers``, and a sentence where one loops, grows or fails."""

from pathlib import Path

import psutil
import pytest
from support.prompts import TEMPLATE
from transformers.utils.chat_template_utils import render_jinja_template

from arena.lm import chat_template
from arena.lm.chat_template import RefusedError, render
from games.common.errors import UsageError

CHAT = [{"role": "user", "content": "Card: J\n\ud83d\u2026 {{ 7 * 7 }}"}, {"role": "assistant", "content": "bet"}]
DATED = "{{ strftime_now('%Y') }}{% generation %}{{ eos_token }}{% endgeneration %}{{ messages | tojson }}"


@pytest.mark.parametrize("template", [TEMPLATE, DATED])
def test_a_prompt_is_the_one_of_transformers(template):
    special = {"eos_token": "<|end|>"}
    ((theirs,), _) = render_jinja_template([CHAT], chat_template=template, add_generation_prompt=True, **special)
    assert render(template, CHAT, special) == theirs


HOSTILE = {
    "loop": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "power": "{{ 10 ** (10 ** 10) }}",  # worked out as the template is compiled
    "doubling": "{% set n = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "long": "{{ 'x' * 5000000 }}",  # no time and no memory to speak of, but far too many tokens
    "product": "{{ 'x' * 10 ** 11 }}",
}


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(text, id=name, marks=[] if name == "product" else pytest.mark.thorough)
        for name, text in HOSTILE.items()
    ],
)
def test_a_template_that_does_not_end_is_stopped_with_a_sentence_and_not_tried_again(template, monkeypatch):
    monkeypatch.setattr(chat_template, "_ENDED", set())
    before = psutil.Process().memory_info().rss
    with pytest.raises(
        UsageError, match=r"The chat template of this model takes more than 2 seconds, 1 GiB .* it was stopped"
    ):
        render(template, CHAT, {})
    monkeypatch.setattr(chat_template, "_PROCESS", None)
    with pytest.raises(UsageError, match="it was stopped"):
        render(template, CHAT, {})
    monkeypatch.undo()
    assert psutil.Process().memory_info().rss - before < 2**27
    assert render(TEMPLATE, CHAT, {})  # others continue


@pytest.mark.parametrize("template", ["{{ 1 / 0 }}", "{% for", "{{ messages[9].content + 1 }}", "{{ f() }}"])
def test_a_template_that_fails_says_why(template):
    with pytest.raises(RefusedError, match=r"."):
        render(template, CHAT, {})


def test_a_template_reaches_no_file(tmp_path):
    deed = "{{ cycler.__init__.__globals__.os.popen('touch %s').read() }}" % (tmp_path / "mark")
    with pytest.raises(RefusedError):
        render(deed, CHAT, {})
    assert not Path(tmp_path / "mark").exists()
