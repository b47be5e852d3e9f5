"""Rollouts for TRL's GRPOTrainer against a seat that ``league serve --openenv`` serves. Each turn is sampled after
everything that came before it, so the learned tokens are exactly the sampled ones; the environment's text has mask 0.
The server plays the other seats, with a frozen snapshot for example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from games.common.errors import UsageError

Rollouts = Callable[[Sequence[Any], Any], dict[str, Any]]


def trl_rollouts(url: str, reply_tokens: int = 64) -> Rollouts:
    """Return a ``rollout_func`` for ``trl.GRPOTrainer`` that plays the seat served at an address.

    The prompts of the trainer's dataset are numbers of matches; one group plays one number, which is one deal. The
    match's return, in the game's units, reaches reward functions as ``match_return``. A turn has at most
    ``reply_tokens`` tokens. Raises UsageError if openenv is missing.
    """
    try:
        from openenv.core import GenericEnvClient
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "openenv":
            raise
        raise UsageError(
            "league.trl_rollouts needs the package openenv, which is not installed. Install it: "
            "pip install 'llm-league[openenv]'"
        ) from None

    def rollouts(matches: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Play one match for each number; return the tokens of each, and which of them the model generated."""
        out: dict[str, Any] = {"prompt_ids": [], "completion_ids": [], "env_mask": [], "match_return": []}
        learning = trainer.model.training
        trainer.model.eval()  # while it trains with gradient checkpointing a model generates without its cache
        try:
            with GenericEnvClient(base_url=url).sync() as seat:
                for match in matches:
                    ids, mask, paid = _play(seat, int(match), trainer, reply_tokens)
                    start = mask.index(1) if 1 in mask else 1
                    out["prompt_ids"].append(ids[:start])
                    out["completion_ids"].append(ids[start:])
                    out["env_mask"].append(mask[start:])
                    out["match_return"].append(paid)
        finally:
            trainer.model.train(learning)
        return out | {"logprobs": None}

    return rollouts


def _play(seat: Any, match: int, trainer: Any, reply_tokens: int) -> tuple[list[int], list[int], float]:
    """Return a match's tokens [T], which of them the model generated [T], and what the match paid. A match that ends
    before the seat has a turn is two end tokens, neither of them generated.
    """
    tokenizer = trainer.processing_class
    turn, ids, mask = seat.reset(seed=match), list[int](), list[int]()
    while not turn.done:
        chat = turn.observation["messages"]
        asked = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        ids, mask = ids + asked, mask + [0] * len(asked)
        said = _sampled(trainer, ids, reply_tokens)
        ids, mask = ids + said, mask + [1] * len(said)
        turn = seat.step({"text": tokenizer.decode(said, skip_special_tokens=True)})
    return ids or [tokenizer.eos_token_id] * 2, mask or [0, 0], float(turn.reward)


def _sampled(trainer: Any, ids: list[int], reply_tokens: int) -> list[int]:
    """Return the tokens of a reply, drawn as the trainer's settings say."""
    import torch  # slow to import

    given = torch.tensor([ids], device=trainer.model.device)
    drawn = {"temperature": trainer.args.temperature, "top_p": trainer.args.top_p, "top_k": trainer.args.top_k}
    with torch.no_grad():
        whole = trainer.model.generate(
            given, attention_mask=torch.ones_like(given), max_new_tokens=reply_tokens, do_sample=True, **drawn
        )
    return [int(token) for token in whole[0, len(ids) :]]
