"""The page of whole prompts, tests/data/prompts.md: each built-in card as a language model with words reads it.

    PYTHONPATH=.:tests python -m support.prompts

writes it again. Prompts are what ``encode_prompt`` gives a tokenizer with SmolLM2's chat template, decoded.
"""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from arena.lm.tokenization import ChatTokenizer
from games.native.knowledge import Fact
from games.registry import NATIVE, RENDERED, make_game
from games.spec import FreeText, HasTools, IsSubmatch
from league.config import RolesConfig
from league.config.load import seat_roles
from roles.prompts import position_messages
from roles.replies import speaking
from support.source import ROOT

PAGE = ROOT / "tests" / "data" / "prompts.md"
GAMES = (*RENDERED, "ipd", *NATIVE, "judged_arithmetic(judge=1)")
SHOWN = (
    "kuhn_poker",
    "leduc_poker",
    "tic_tac_toe",
    "simple_negotiation",
    "debate",
)  # games whose prompts are shown with a demonstration too
TASK = Fact("teacher", "Ann")
# SmolLM2-135M-Instruct's own, letter for letter.
TEMPLATE = """\
{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""
HEAD = """\
# Prompts

What a language model that knows words reads: each built-in card, whole, as SmolLM2's chat template writes it and its
tokens say it back. Replies are free here; with masked replies the legal ones stand without brackets. A test keeps this
page true. How a card is made: [roles](../../docs/guide/roles.md).
"""


def tiny_tokenizer() -> ChatTokenizer:
    """Return a tokenizer of single bytes with SmolLM2's special tokens and chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_alone = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bytes_alone.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_alone)
    tokenizer.add_special_tokens(
        {"additional_special_tokens": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], "eos_token": "<|im_end|>"}
    )
    tokenizer.chat_template = TEMPLATE
    return ChatTokenizer(tokenizer, None, "tiny")


def page(tokenizer: ChatTokenizer) -> str:
    """Return the page as this tokenizer reads the prompts."""
    parts = [HEAD]
    for name in GAMES:
        parts.append(f"## {make_game(name).spec.alias}\n")
        parts += prompts(name, tokenizer, 0)
        if name in SHOWN:
            parts.append("With one demonstration (`roles.demonstrations = 1`):\n")
            parts += prompts(name, tokenizer, 1)[:1]
    return "\n".join(parts)


def prompts(name: str, tokenizer: ChatTokenizer, demonstrations: int) -> list[str]:
    """Return the prompt of each seat's first turn in a match of first legal actions, as blocks of the page."""
    game, found = make_game(name), {}
    roles = seat_roles(RolesConfig(wording="full", reply="free", demonstrations=demonstrations), game.spec)
    if isinstance(game, IsSubmatch):
        game.start_submatch(str(TASK))
    while len(found) < len(roles) and (seat := game.to_act()) is not None:
        if isinstance(game, HasTools) and not game.legal_actions():
            game.record_call(game.legal_calls()[0], "")
        if seat not in found:
            role = speaking(roles[seat]) if isinstance(game.actions(), FreeText) else roles[seat]
            chat = position_messages(role, game)
            text = tokenizer.tokenizer.decode(list(tokenizer.encode_prompt(chat)))
            found[seat] = f"{roles[seat].name.capitalize()}:\n\n```text\n{text}```\n"
        if len(found) < len(roles):
            game.apply(game.legal_actions()[0])
    return [found[seat] for seat in sorted(found)]


def main(path: Path = PAGE) -> None:
    """Write the page."""
    path.write_text(page(tiny_tokenizer()), encoding="utf-8")


if __name__ == "__main__":
    main()
