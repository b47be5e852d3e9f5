"""Updates that two processes take together, and the same by one; run by tests/learners/test_process_group.py.

python update_processes.py FOLDER
"""

import math
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing
from safetensors.torch import save_file

from arena.lm.lora import Adapters, AdapterShape
from arena.lm.scoring import enable_checkpointing
from learners.batching import to_batch
from learners.losses.objective import EntropyBand, Objective, Surrogate
from learners.parallel.process_group import SINGLE_PROCESS, TorchProcessGroup
from learners.update.learner import StepSettings, update
from learners.update.policy import Policy
from support.matches.kuhn import CHOICE, FREE, kuhn_pocket, self_play
from support.models.adapters import scrambled

STEPS = StepSettings(learning_rate=1e-3, inner_steps=2, max_grad_norm=0.5, max_gap=9.0, max_tokens=200, minibatch=3)
OBJECTIVE = Objective(
    Surrogate("ppo", {"clip_low": 0.05, "clip_high": 0.05}),
    {"kuhn_poker": 0.1},
    kl_old=0.3,
    magnet=0.2,
    truncate=1.25,
    kl_reference=0.2,
    band=EntropyBand(0.5, 0.9, 1.1),
)
CASES = {
    "full/choice": ("full", CHOICE, False),
    "full/free": ("full", FREE, False),
    "lora/free": ("lora", FREE, False),
    "full/free/sharded": ("full", FREE, True),
    "lora/free/sharded": ("lora", FREE, True),
    "one row/sharded": ("full", None, True),
}


def policy(kind):
    lm = kuhn_pocket()
    if kind == "lora":
        lm = scrambled(Adapters(lm, "base").add(AdapterShape(2, 4.0, ("q_proj", "v_proj")), 0))
    return Policy("main", lm, weight_decay=0.01, magnet=True, reference=True)


def batch_of(form):
    """Return a batch; without a form one of a single row, so that one process of two has none."""
    trajectories = self_play(kuhn_pocket(), 8, form or FREE)
    advantages = [[math.sin(7 * i + 3 * k) for k in range(len(t.turns))] for i, t in enumerate(trajectories)]
    batch = to_batch("main", trajectories, advantages, {})
    return batch if form else batch._replace(free=batch.free[:1])


def updated(kind, form, sharded, team):
    """Return what a policy remembers after updates of two steps and of one, and the metrics of the second."""
    learner = policy(kind)
    if sharded:
        enable_checkpointing(learner.lm.model)
        if team is not SINGLE_PROCESS:
            learner.shard(dist.init_device_mesh("cpu", (team.size,)))
    batch = batch_of(form)
    update(learner, batch, OBJECTIVE, STEPS, team)
    metrics = update(learner, batch, OBJECTIVE, STEPS._replace(inner_steps=1), team)
    return learner.tensors() | {f"metric/{name}": torch.tensor(value) for name, value in metrics.items()}


def be_one(rank, folder):
    """Be one of two processes."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    team = TorchProcessGroup()
    for name, case in CASES.items():
        save_file(updated(*case, team), Path(folder) / f"{name.replace('/', '-')}-{rank}.safetensors")
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(be_one, (sys.argv[1],), nprocs=2)
