"""Which files a model is read from."""

import pytest

from games.common.errors import UsageError
from league.population.models.source import model_folder


def test_weights_that_can_run_code_when_they_are_read_are_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UsageError, match=r"weights in pytorch_model\.bin.* Only safetensors"):
        model_folder(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert model_folder(str(tmp_path)) == tmp_path
