"""Event files are those that TensorBoard reads: checked by its own reader, and by the published checksum."""

import pickle

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from league.training.board.event_file import EventFile, _masked_checksum
from league.training.board.painting import Order, paint


def test_the_checksum_is_crc_32c():
    """Of the digits 1 to 9 it is E3069283 (RFC 3720's polynomial); records hold it turned by 15 bits and shifted."""
    crc = 0xE3069283
    assert _masked_checksum(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


@pytest.mark.parametrize("size", [0, 1, 2, 509, 16_383, 16_384, 16_385, 16_899, 70_003])
def test_the_checksum_of_a_picture_is_tensorboards(size: int):
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    data = np.random.default_rng(size).bytes(size)  # whole lanes, and some bytes more
    assert _masked_checksum(data) == masked_crc32c(data)


def test_tensorboard_reads_what_was_written(tmp_path):
    file = EventFile(tmp_path, 0)
    file.scalars({"a": 1.5, "b/c": -2.0}, 3)
    file.text("said", "    hello", 3)
    drawn = paint(Order("picture", 3, pickle.dumps(np.full((4, 6, 3), 7, np.uint8))))
    file.append(drawn.record)
    file.histogram("spread", np.array([0.0, 1.0, 1.0]), 3)
    file.histogram("spread", np.array([2.0, 2.0]), 4)
    file.close()
    events = EventAccumulator(str(tmp_path), size_guidance={"histograms": 0})
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("b/c")] == [(3, -2.0)]
    assert events.Tensors("said")[0].tensor_proto.string_val[0] == b"    hello"
    picture = events.Images("picture")[0]
    assert (picture.step, picture.width, picture.height) == (3, 6, 4)
    assert picture.encoded_image_string == drawn.png
    first, constant = (event.histogram_value for event in events.Histograms("spread"))
    assert (first.num, first.sum, sum(first.bucket)) == (3, 2.0, 3)
    assert (constant.min, constant.max, constant.bucket) == (2.0, 2.0, [2.0])


def test_a_later_file_replaces_what_an_earlier_one_holds_from_its_step_on(tmp_path):
    for first, value in ((0, 1.0), (2, 20.0)):
        file = EventFile(tmp_path, first)
        for step in range(first, 4):
            file.scalars({"a": value + step}, step)
        file.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.value for event in events.Scalars("a")] == [1.0, 2.0, 22.0, 23.0]
