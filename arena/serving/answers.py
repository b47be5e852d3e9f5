"""Answers in the form of OpenAI's chat completions: one JSON object, or server-sent events. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from arena.lm.tokenization import ChatTokenizer
from arena.serving.completions import Completed, TokenScore
from arena.serving.requests import ChatRequest, Served
from arena.serving.web_pages import Events

LEAST = -9999.0  # nats: JSON has no infinity; OpenAI's own number for what is far from likely


class Answer(NamedTuple):
    """All that a request is answered with."""

    id: str
    created: int  # seconds since 1970
    model: str
    prompt_tokens: int
    completions: Sequence[Completed]


def list_models(served: Served) -> dict[str, Any]:
    """Return the body of /v1/models."""
    return {"object": "list", "data": [model_json(served.name, served.created)]}


def model_json(name: str, created: int) -> dict[str, Any]:
    """Return the body of /v1/models/NAME; ``created`` in seconds since 1970."""
    return {"id": name, "object": "model", "created": created, "owned_by": "league"}


def written(request: ChatRequest, answer: Answer, tokenizer: ChatTokenizer) -> dict[str, Any] | Events:
    """Return an answer whole or as events, as the request wants it."""
    if not request.stream:
        return answer_json(answer, tokenizer)
    usage = bool(request.stream_options and request.stream_options.include_usage)
    return Events([*answer_events(answer, tokenizer, usage=usage)])


def answer_json(answer: Answer, tokenizer: ChatTokenizer) -> dict[str, Any]:
    """Return the body of an answer that is not streamed."""
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": completion.text, "refusal": None},
            "logprobs": _logprobs(completion, tokenizer),
            "finish_reason": _finish(completion),
        }
        for index, completion in enumerate(answer.completions)
    ]
    return _head(answer, "chat.completion") | {"choices": choices, "usage": _usage(answer)}


def answer_events(answer: Answer, tokenizer: ChatTokenizer, *, usage: bool) -> Iterator[bytes]:
    """Yield an answer as server-sent events: who speaks, the text, how it ends, and, with ``usage``, the counts."""
    head = _head(answer, "chat.completion.chunk") | ({"usage": None} if usage else {})

    def event(choices: list[dict[str, Any]], **fields: Any) -> bytes:
        return f"data: {json.dumps(head | {'choices': choices} | fields)}\n\n".encode()

    def piece(index: int, delta: dict[str, str], logprobs: Any = None, finish: str | None = None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}

    for index, completion in enumerate(answer.completions):
        yield event([piece(index, {"role": "assistant", "content": ""})])
        yield event([piece(index, {"content": completion.text}, _logprobs(completion, tokenizer))])
        yield event([piece(index, {}, finish=_finish(completion))])
    if usage:
        yield event([], usage=_usage(answer))
    yield b"data: [DONE]\n\n"


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": answer.id, "object": kind, "created": answer.created, "model": answer.model}


def _finish(completion: Completed) -> str:
    return "stop" if completion.finished else "length"


def _usage(answer: Answer) -> dict[str, int]:
    """Return the counts of tokens, end tokens included."""
    replies = sum(len(completion.ids) for completion in answer.completions)
    total = answer.prompt_tokens + replies
    return {"prompt_tokens": answer.prompt_tokens, "completion_tokens": replies, "total_tokens": total}


def _logprobs(completion: Completed, tokenizer: ChatTokenizer) -> dict[str, Any] | None:
    if not completion.scores:
        return None
    return {"content": [_score(score, tokenizer) for score in completion.scores], "refusal": None}


def _score(score: TokenScore, tokenizer: ChatTokenizer) -> dict[str, Any]:
    top = [_token(token, logprob, tokenizer) for token, logprob in score.top]
    return _token(score.token, score.logprob, tokenizer) | {"top_logprobs": top}


def _token(token: int, logprob: float, tokenizer: ChatTokenizer) -> dict[str, Any]:
    text = str(tokenizer.tokenizer.decode([token]))  # an end token by its name
    return {"token": text, "logprob": max(logprob, LEAST), "bytes": list(text.encode())}
