"""Parts of a state, each in a file of its process, are read whole; what is not whole is refused before it is read."""

import json
import shutil

import pytest
import torch
from safetensors.torch import save_file
from support.models.pocket import pocket

from games.common.errors import UsageError
from learners.parallel.saved_shards import layouts_of, read_parts
from learners.update.policy import Policy

WHOLE = {
    "weights/a": torch.arange(15.0).reshape(5, 3),
    "weights/short": torch.tensor([7.0]),  # the second process has nothing of it
    "exp_avg/a": torch.arange(10.0).to(torch.bfloat16).reshape(5, 2),
    "updates": torch.tensor(3),
}
CUTS = {"weights/a": 3, "weights/short": 1, "exp_avg/a": 3}  # rows of the first process


def write(folder, whole=WHOLE, cuts=CUTS):
    """Write the files of two processes as torch.distributed.checkpoint does, the second process's first."""
    folder.mkdir(parents=True)
    for rank in (1, 0):
        parts, offsets = {}, {}
        for name, tensor in whole.items():
            if name in cuts:
                start = cuts[name] if rank else 0
                parts[name] = tensor[cuts[name] :].clone() if rank else tensor[: cuts[name]].clone()
                offsets[name] = {"saved_offsets": [start] + [0] * (tensor.dim() - 1)}
            elif rank:
                parts[name], offsets[name] = tensor, {"saved_offsets": [0] * tensor.dim()}
        save(folder, rank, parts, offsets)
    return folder


def save(folder, rank, parts, offsets):
    metadata = {"DCP_SHARDING_INFO": json.dumps(offsets), "DCP_VERSION": "1.0", "format": "pt"}
    save_file(parts, folder / f"shard-0000{rank + 1}-model-00001-of-00001.safetensors", metadata)


def test_parts_are_read_whole(tmp_path):
    folder = write(tmp_path / "main.safetensors")
    layouts = layouts_of(folder)
    assert {name: layout.shape for name, layout in layouts.items()} == {n: tuple(t.shape) for n, t in WHOLE.items()}
    assert layouts["exp_avg/a"].dtype == torch.bfloat16
    found = {name: torch.full_like(tensor, 9) for name, tensor in WHOLE.items()}
    read_parts(folder, found, together=False)
    for name, tensor in WHOLE.items():
        assert torch.equal(found[name], tensor), name


def offset(name, rows):
    """Return the offsets of the second process, one of them another."""
    offsets = {n: {"saved_offsets": [CUTS.get(n, 0)] * min(t.dim(), 1)} for n, t in WHOLE.items()}
    for n, tensor in WHOLE.items():
        offsets[n]["saved_offsets"] += [0] * (tensor.dim() - 1) if tensor.dim() else []
    if rows is None:
        del offsets[name]
    else:
        offsets[name]["saved_offsets"] = rows
    return offsets


@pytest.mark.parametrize("rows", [[4, 0], [2, 0], [0, 0], [3, 1], [3, -1], [10**12, 0], [-1, 0], ["3", 0], None])
def test_parts_that_do_not_follow_one_another_are_refused(rows, tmp_path):
    """A hole would be filled with whatever the memory holds, or ask for a terabyte."""
    folder = write(tmp_path / "main.safetensors")
    parts = {name: tensor[CUTS[name] :].clone() if name in CUTS else tensor for name, tensor in WHOLE.items()}
    save(folder, 1, parts, offset("weights/a", rows))
    with pytest.raises(UsageError, match=r"weights/a|does not hold the parts"):
        layouts_of(folder)
    save(folder, 1, parts, offset("weights/a", [3, 0]))
    assert layouts_of(folder)["weights/a"].shape == (5, 3), "and nothing else was wrong"


def test_a_hole_beside_an_overlap_is_refused(tmp_path):
    """Rows 0 to 2, 1 to 2 and 5 to 6 are seven, as many as there are."""
    for rank, (start, rows) in enumerate([(0, 3), (1, 2), (5, 2)]):
        save(tmp_path, rank, {"weights/a": torch.ones(rows, 3)}, {"weights/a": {"saved_offsets": [start, 0]}})
    with pytest.raises(UsageError, match="lacks a part of weights/a"):
        layouts_of(tmp_path)


def test_a_part_that_is_missing_or_cut_off_is_refused(tmp_path):
    folder = write(tmp_path / "main.safetensors")
    second = next(folder.glob("shard-00002*"))
    content = second.read_bytes()
    second.write_bytes(content[:-8])
    with pytest.raises(UsageError, match="does not hold the parts of a state"):
        layouts_of(folder)
    second.write_bytes(content)
    next(folder.glob("shard-00001*")).unlink()
    with pytest.raises(UsageError, match="lacks a part of exp_avg/a"):
        layouts_of(folder)
    second.unlink()
    with pytest.raises(UsageError, match="holds no state"):
        layouts_of(folder)
    shutil.rmtree(folder)
    with pytest.raises(UsageError, match="does not hold the parts"):
        layouts_of(folder)


def test_a_policy_is_restored_from_parts_as_from_one_file(tmp_path):
    policy = Policy("main", pocket(), weight_decay=0.0, magnet=True)
    for number, parameter in enumerate(policy.parameters.values()):
        parameter.grad = torch.full_like(parameter, 0.1 + number)
    policy.step(1e-3)
    policy.updates = 5
    whole = policy.tensors()
    cuts = {name: (tensor.shape[0] + 1) // 3 for name, tensor in whole.items() if tensor.dim()}
    folder = write(tmp_path / "main.safetensors", {name: t.contiguous() for name, t in whole.items()}, cuts)
    other = Policy("main", pocket(), weight_decay=0.0, magnet=True)
    other.restore(folder)
    assert other.updates == 5
    found = other.tensors()
    assert found.keys() == whole.keys()
    for name, tensor in whole.items():
        assert torch.equal(found[name], tensor), name
    former = other.former_model(folder)
    assert former.version == 5
    for name, weight in former.parameters().items():
        assert torch.equal(weight, policy.parameters[name])
    player = Policy("main", pocket(), weight_decay=0.0, magnet=False)
    player.plays = True
    player.restore(folder)
    assert not player.optimizer.state, "moments are its learner's alone"
    assert player.unchanged_file() == folder


def test_parts_of_another_model_are_refused(tmp_path):
    policy = Policy("main", pocket(), weight_decay=0.0, magnet=False)
    whole = {name: tensor.contiguous() for name, tensor in policy.tensors().items()}
    name = next(name for name, tensor in whole.items() if tensor.dim() == 2)
    folder = write(tmp_path / "a", whole | {name: whole[name][:-1].contiguous()}, {name: 2})
    with pytest.raises(UsageError, match=f"for {name}, but the model needs shape"):
        policy.restore(folder)
    with pytest.raises(UsageError, match=f"for {name}, but the model needs shape"):
        policy.former_model(folder)
    folder = write(tmp_path / "b", {key: tensor for key, tensor in whole.items() if key != name}, {})
    with pytest.raises(UsageError, match=f"holds nothing for {name}"):
        policy.restore(folder)
