"""Small language models for tests, and what they say computed the plainest way there is."""

import copy
from functools import cache

import torch
from transformers import AutoModelForCausalLM

from arena.lm.language_model import LanguageModel
from arena.lm.pocket import PocketShape, build_pocket, train_tokenizer

TEXTS = ("You play cards.\nYour card: J\n>bet", "You play cards.\nYour card: Q\nThey: pass\n>pass", "1 2 3\nX O 6\n>6")


def pocket(seed=0, sharpness=4.0, texts=TEXTS, **shape):
    """Return a pocket model whose weights are ``sharpness`` times as large, so that its opinions differ."""
    lm = _untouched_pocket(seed, texts, **shape)
    return sharpened(LanguageModel(copy.deepcopy(lm.model), lm.tokenizer), sharpness)


@cache
def _untouched_pocket(seed, texts, **shape):
    sizes = {"hidden_size": 32, "layers": 2, "intermediate_size": 64, "vocabulary": 300, **shape}
    return build_pocket(texts, PocketShape(**sizes), seed)


def copied(lm):
    return LanguageModel(copy.deepcopy(lm.model), lm.tokenizer)


def brief(lm):
    """Return the model with a bias towards a few tokens, the end token among them: its replies are short and recur."""
    bias = torch.zeros(len(lm.tokenizer))
    bias[[lm.end_token, 60, 70]] = torch.tensor([6.0, 6.0, 5.0])
    lm.model.lm_head.bias = torch.nn.Parameter(bias)
    return lm


def other_family(config, seed=0):
    """Return a small model of another architecture with the pocket model's tokenizer."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    return sharpened(LanguageModel(model.eval(), small_tokenizer()), 3.0)


@cache
def small_tokenizer():
    return train_tokenizer(TEXTS, 300)


def sharpened(lm, factor):
    with torch.no_grad():
        for parameter in lm.model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(factor)
    return lm


def plainly(lm, folder):
    """Return the model as ``transformers`` loads it by itself, with its own eager attention."""
    lm.save(folder)
    return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()


@torch.no_grad()
def plain_logprobs(model, prompt, reply, allowed=None):
    """Return each reply token's log-prob from one forward pass of one sequence.  # [T]

    ``allowed[t]`` are the tokens that the mask leaves at position t; None leaves all.
    """
    logits = model(input_ids=torch.tensor([[*prompt, *reply]])).logits[0, len(prompt) - 1 : -1]
    if allowed is None:
        return [float(row.log_softmax(-1)[token]) for row, token in zip(logits, reply, strict=True)]
    return [
        float(row[list(options)].log_softmax(-1)[list(options).index(token)])
        for row, token, options in zip(logits, reply, allowed, strict=True)
    ]


def allowed_tokens(replies, which):
    """Return, for each token of one tokenized reply, which tokens any of the replies has there."""
    reply = replies[which]
    return [sorted({r[t] for r in replies if r[:t] == reply[:t] and len(r) > t}) for t in range(len(reply))]
