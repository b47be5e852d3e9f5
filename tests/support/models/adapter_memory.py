"""What policies take in memory: ``python adapter_memory.py KIND NUMBER`` writes it in bytes as JSON.

Each of this many policies, of kind "lora" or "full", with magnet and reference, takes one optimiser step on
a model of 25 million parameters.
"""

import json
import sys

import peft  # noqa: F401  # before anything is measured
import psutil
import torch

from arena.lm.lora import Adapters, AdapterShape
from arena.lm.pocket import PocketShape, build_pocket
from learners.update.policy import Policy
from support.memory import most_resident

SHAPE = PocketShape(hidden_size=512, layers=8, heads=8, kv_heads=4, intermediate_size=1536)
PROMPT, REPLY = tuple(range(3, 40)), (50, 51)


def tensors(policy):
    """Return every tensor that a policy keeps, those that it shares included."""
    held = [*policy.lm.model.parameters(), *policy.magnet.model.parameters(), *policy.reference.model.parameters()]
    return held + [value for state in policy.optimizer.state.values() for value in state.values()]


def step(policy):
    (chunk,) = policy.lm.plan([PROMPT], [(REPLY,)], 8192)
    policy.optimizer.zero_grad(set_to_none=True)
    policy.lm.reply_logits(chunk, [REPLY]).log_softmax(-1)[..., 9].sum().backward()
    policy.optimizer.step()
    policy.optimizer.zero_grad(set_to_none=True)


def trained(kind, number):
    """Return policies after a step of each."""
    base = build_pocket(["You play cards."], SHAPE, 0)
    if kind == "lora":
        adapters = Adapters(base, "base")
        models = [adapters.add(AdapterShape(rank=8), seed) for seed in range(number)]
    else:
        models = [base, *(base.copy() for _ in range(number - 1))]
    policies = [Policy(str(i), lm, weight_decay=0.0, magnet=True, reference=True) for i, lm in enumerate(models)]
    for policy in policies:
        step(policy)
    return policies


def held(policies):
    """Return the bytes of all storages that policies keep, each counted once."""
    storages = [tensor.untyped_storage() for policy in policies for tensor in tensors(policy)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def main(kind, number):
    torch.set_num_threads(1)
    before = psutil.Process().memory_info().rss
    policies = trained(kind, number)
    sys.stdout.write(json.dumps({"held": held(policies), "peak": most_resident() - before}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
