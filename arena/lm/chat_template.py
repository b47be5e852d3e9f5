"""Chat templates of models' folders are programs by strangers: they are rendered in a process with limits.

The process runs the template as ``transformers`` does, so a prompt is the same to the last letter. A template that
loops, grows without end or fails ends in a sentence.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from games.common import limited_process
from games.common.errors import UsageError
from games.common.limited_process import LimitedProcess
from roles.chat_text import Message

SECONDS = 2.0  # of a processor's time for one prompt, which takes less than a thousandth
PATIENCE = 60.0  # seconds of the clock, on a machine that has other work
MEMORY = 2**30  # bytes of address space
LONGEST = 2**22  # characters of a prompt, beyond twice those of its chat

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from arena.lm.chat_template import serve; serve()"
_ENDED: set[str] = set()  # templates that went beyond the limits; they are not tried again


class RefusedError(ValueError):
    """A chat template refuses a chat in its own words (``raise_exception``), or cannot be applied to it."""


def render(template: str, chat: Sequence[Message], special: Mapping[str, Any], model: str = "this model") -> str:
    """Return a chat's prompt by the template of a model, up to where the reply begins.

    ``special``: special tokens by name.
    Raises RefusedError with the template's reason, and UsageError for a template that goes beyond the limits.
    """
    answer = None
    if template not in _ENDED:
        answer = _PROCESS.ask(json.dumps([template, list(chat), dict(special)]).encode())
    if answer is None:
        _ENDED.add(template)
        raise UsageError(
            f"The chat template of {model} takes more than {SECONDS:g} seconds, {MEMORY // 2**30} GiB of memory or "
            f"{LONGEST:,} characters for one prompt, so it was stopped. Use a model whose template finishes."
        )
    text, reason = json.loads(answer)
    if text is None:
        raise RefusedError(reason)
    return str(text)


def serve() -> None:
    """Be the rendering process."""
    _answer(json.dumps(["", [], {}]).encode())  # what it imports takes longer than a prompt may
    limited_process.serve(_answer, SECONDS, MEMORY, files=32)  # some modules are imported when they are needed


def _answer(line: bytes) -> bytes:
    """Return ``[prompt, ""]`` or ``[null, reason]`` as JSON. What is too long, or needs too much memory, ends it."""
    from jinja2 import TemplateError
    from transformers.utils.chat_template_utils import render_jinja_template

    template, chat, special = json.loads(line)
    try:
        rendered = render_jinja_template(
            conversations=[chat], chat_template=template, add_generation_prompt=True, **special
        )
        text = rendered[0][0]  # of one chat; the other part is where the model spoke
        if len(text) > LONGEST + 2 * sum(len(message["content"]) for message in chat):
            os._exit(1)
        return json.dumps([text, ""]).encode()
    except TemplateError as error:
        return json.dumps([None, str(error)]).encode()
    except MemoryError:
        os._exit(1)
    except Exception as error:  # noqa: BLE001 - whatever its expressions raise
        return json.dumps([None, f"{type(error).__name__}: {error}"]).encode()


_PROCESS = LimitedProcess(
    [sys.executable, "-I", "-c", _START, json.dumps(sys.path)],
    PATIENCE,
    {
        "OPENBLAS_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        **{n: os.environ[n] for n in ("TZ", "PATH") if n in os.environ},
    },
)
