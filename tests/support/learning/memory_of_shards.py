"""Two processes that share the weights of a model of 72 million: what each holds, from its start to its second update.

python memory_of_shards.py FOLDER [offload] writes rank-0.json and rank-1.json there: bytes beyond what libraries took
before.
"""

import gc
import json
import math
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing

from arena.lm.language_model import LanguageModel
from arena.lm.scoring import enable_checkpointing
from arena.roofline import Shape
from benchmarks.gpu.shapes import config_of, textless_tokenizer
from benchmarks.gpu.update import game_length_batch
from learners.losses.objective import Objective, Surrogate
from learners.parallel import saved_shards
from learners.parallel.process_group import TorchProcessGroup
from learners.update.learner import StepSettings, update
from learners.update.policy import Policy
from support.learning.memory_of_smollm2 import status

SHAPE = Shape("72M", 640, 12, 10, 10, 64, 2048, 8192)
SMALL = Shape("small", 64, 2, 2, 2, 32, 64, 512)
FILE_BYTES = 1 << 24  # of a checkpoint's files: small beside the weights, so that these are what is measured
STEPS = StepSettings(learning_rate=1e-6, inner_steps=1, max_grad_norm=1.0, max_gap=math.inf, max_tokens=256)


def write_shape(shape, folder):
    """Write a model's config and a tokenizer."""
    config_of(shape).save_pretrained(folder)
    textless_tokenizer().save_pretrained(folder)


def begun(shape, folder, team, offload=None):
    """Return a policy whose weights rank 0 has sent, one by one."""
    lm = LanguageModel.without_data(folder)
    enable_checkpointing(lm.model)
    policy = Policy("main", lm, weight_decay=0.0, magnet=False, offload=offload)
    policy.shard(dist.init_device_mesh("cpu", (2,)))
    numbers = torch.Generator().manual_seed(0)

    def weights():
        yield "updates", torch.tensor(0)
        for name, tensor in policy.held(("weights",)).items():
            if name != "updates":
                yield name, 0.02 * torch.randn(tensor.shape, generator=numbers)

    policy.load_stream(team.broadcast_tensors(weights()), "rank 0")
    return policy


def peak(work, before):
    """Return what a piece of work returns, and its peak memory above what there was before.

    Pages of files count, as moments that are away lie in a file that is mapped.
    """
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return work(), status("VmHWM") - before


def be_one(rank, folder, offload):
    """Be one of two processes."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    team, objective = TorchProcessGroup(), Objective(Surrogate(), {})
    small = begun(SMALL, Path(folder) / "small", team)
    update(small, game_length_batch(1, SMALL.vocabulary), objective, STEPS, team)
    del small
    gc.collect()
    before = status("VmRSS")
    away = Path(folder) if offload else None
    policy, start = peak(lambda: begun(SHAPE, Path(folder) / "large", team, away), before)
    saved_shards.FILE_BYTES = FILE_BYTES
    writer, saved = saved_shards.PartWriter(), Path(folder) / "saved"
    _, first_save = peak(lambda: saved_shards.wait_for(writer.begin("main", saved, policy.held())), before)
    batch = game_length_batch(1, SHAPE.vocabulary)
    update(policy, batch, objective, STEPS, team)
    _, in_update = peak(lambda: update(policy, batch, objective, STEPS, team), before)
    policy.optimizer.zero_grad(set_to_none=True)
    gc.collect()
    found = {"start": start, "save": first_save, "update": in_update, "between": status("VmRSS") - before}
    found["tokens"] = sum(len(row.prompt) + len(row.reply) for row in batch.free)
    found["scored"] = sum(len(row.reply) for row in batch.free)
    (Path(folder) / f"rank-{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    for shape, name in ((SMALL, "small"), (SHAPE, "large")):
        write_shape(shape, Path(sys.argv[1]) / name)
    torch.multiprocessing.spawn(be_one, (sys.argv[1], "offload" in sys.argv[2:]), nprocs=2)
