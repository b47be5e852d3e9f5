"""A file that is written tensor by tensor is the one that safetensors writes, and nothing else is taken for it."""

import pytest
import torch
from safetensors.torch import load_file

from learners.parallel.streamed_file import TensorLayout, write_streamed

TENSORS = {
    "a": torch.arange(6.0).reshape(2, 3),
    "b/c": torch.tensor(7),
    "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16).flip(0),
    "none": torch.zeros(0, 4),
    "mean": torch.tensor(0.1, dtype=torch.float64),
}
LAYOUTS = {name: TensorLayout.of(tensor) for name, tensor in TENSORS.items()}


def test_what_was_written_bit_by_bit_is_read_by_the_library(tmp_path):
    write_streamed(tmp_path / "x.safetensors", LAYOUTS, iter(TENSORS.items()))
    found = load_file(tmp_path / "x.safetensors")
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


@pytest.mark.parametrize("left_out", [0, 2, len(TENSORS) - 1])
def test_a_tensor_that_was_announced_and_does_not_come_is_an_error(left_out, tmp_path):
    come = [item for number, item in enumerate(TENSORS.items()) if number != left_out]
    with pytest.raises(ValueError, match="announced"):
        write_streamed(tmp_path / "x.safetensors", LAYOUTS, come)


def test_a_tensor_of_another_shape_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="a arrived where another"):
        write_streamed(tmp_path / "x.safetensors", LAYOUTS, [("a", torch.zeros(2, 2))])
