"""A TensorBoard event file: records of protocol buffers, one after another, each with its checksum.

It is written synchronously, record by record: the usual writer hands every number to a thread and waits for it, which
costs more than the numbers. All numbers of an iteration are one record.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 30  # of a histogram
Charts = Mapping[str, Mapping[str, tuple[str, Sequence[str]]]]  # by category and title: "Multiline" or "Margin", tags


class EventFile:
    """A new event file in a folder. It hides the other files' events from ``purge_step`` on."""

    def __init__(self, folder: Path, purge_step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        _wait_for_next_name(folder)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.0"
        self._file = (folder / name).open("xb")
        self._described = set[str]()  # tags of numbers
        self._add(purge_step, file_version="brain.Event:2")
        self._add(purge_step, session_log={"status": "START"})
        self.flush()

    def scalars(self, values: Mapping[str, float], step: int, description: Callable[[str], str] = lambda _: "") -> None:
        """Write numbers by tag, as one record; the first of a tag brings its description."""
        rows: list[dict[str, Any]] = [{"tag": tag, "simple_value": value} for tag, value in values.items()]
        for row in rows:
            if row["tag"] not in self._described:
                self._described.add(row["tag"])
                row["metadata"] = {**_metadata("scalars"), "summary_description": description(row["tag"])}
        self._summary(rows, step)

    def text(self, tag: str, markdown: str, step: int) -> None:
        """Write a text in Markdown."""
        tensor = {"dtype": "DT_STRING", "string_val": [markdown.encode()], "tensor_shape": {"dim": [{"size": 1}]}}
        self._summary([{"tag": tag, "metadata": _metadata("text"), "tensor": tensor}], step)

    def append(self, record: bytes) -> None:
        """Write a record that was made elsewhere, such as ``image_record``; any thread may do so."""
        self._file.write(record)
        self._file.flush()

    def histogram(self, tag: str, values: NDArray[np.float64], step: int) -> None:
        """Write the distribution of at least one value, in equal bins."""
        counts, edges = np.histogram(values, bins=BINS) if np.ptp(values) else (np.array([values.size]), values[[0, 0]])
        histogram = {
            "min": values.min(),
            "max": values.max(),
            "num": values.size,
            "sum": values.sum(),
            "sum_squares": values @ values,
            "bucket_limit": edges[1:].tolist(),
            "bucket": counts.tolist(),
        }
        self._summary([{"tag": tag, "histo": histogram}], step)

    def layout(self, categories: Charts) -> None:
        """Write the tab of custom scalars.

        "Margin" has the tags of value, lower and upper bound, "Multiline" patterns of tags.
        """
        from tensorboard.plugins.custom_scalar.layout_pb2 import Category, Chart, Layout

        def chart(title: str, kind: str, tags: Sequence[str]) -> Chart:
            if kind == "Margin":
                value, lower, upper = tags
                return Chart(title=title, margin={"series": [{"value": value, "lower": lower, "upper": upper}]})
            return Chart(title=title, multiline={"tag": tags})

        layout = Layout(
            category=[
                Category(title=name, chart=[chart(title, *content) for title, content in charts.items()])
                for name, charts in categories.items()
            ]
        )
        tensor = {"dtype": "DT_STRING", "string_val": [layout.SerializeToString()], "tensor_shape": {}}
        self._summary(
            [{"tag": "custom_scalars__config__", "metadata": _metadata("custom_scalars"), "tensor": tensor}], 0
        )

    def settings(
        self, settings: Mapping[str, bool | float | str], first: Container[str], metrics: Sequence[str]
    ) -> None:
        """Write the run's settings, the ones to show first, and the tags by which it is compared with others."""
        from tensorboard.plugins.hparams.api_pb2 import DataType, Experiment
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionStartInfo

        experiment, start = Experiment(), SessionStartInfo()
        for name, value in settings.items():
            kind = "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"
            setattr(start.hparams[name], f"{kind}_value", value)
            label = {"bool": "BOOL", "string": "STRING", "number": "FLOAT64"}[kind]
            # TensorBoard sorts settings said to differ between runs before the others, and shows the first five.
            experiment.hparam_infos.add(name=name, type=DataType.Value(f"DATA_TYPE_{label}"), differs=name in first)
        for tag in metrics:
            experiment.metric_infos.add(name={"tag": tag})
        data = {"experiment": {"experiment": experiment}, "session_start_info": {"session_start_info": start}}
        for name, content in data.items():
            metadata = _metadata("hparams", HParamsPluginData(**content).SerializeToString())
            self._summary([{"tag": f"_hparams_/{name}", "metadata": metadata}], 0)

    def flush(self) -> None:
        """Hand everything to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _summary(self, values: Sequence[Mapping[str, Any]], step: int) -> None:
        self._add(step, summary={"value": values})

    def _add(self, step: int, **content: Any) -> None:
        self._file.write(_record(step, **content))


def image_record(tag: str, png: bytes, height: int, width: int, step: int) -> bytes:
    """Return the record of a picture, which is a PNG in colours."""
    image = {"height": height, "width": width, "colorspace": 3, "encoded_image_string": png}
    return _record(step, summary={"value": [{"tag": tag, "image": image}]})


def _record(step: int, **content: Any) -> bytes:
    """Return one event as a record: its length and its bytes, each followed by its checksum."""
    from tensorboard.compat.proto.event_pb2 import Event

    record: bytes = Event(wall_time=time.time(), step=step, **content).SerializeToString()
    length = struct.pack("<Q", len(record))
    checksums = (struct.pack("<I", _masked_checksum(part)) for part in (length, record))
    return length + next(checksums) + record + next(checksums)


def _metadata(plugin: str, content: bytes = b"") -> dict[str, Any]:
    return {"plugin_data": {"plugin_name": plugin, "content": content}}


def _wait_for_next_name(folder: Path) -> None:
    """Wait until a new event file sorts behind those in the folder, which TensorBoard reads in the order of names.

    A name starts with the second of its creation, and within a second names sort as text ("10" before "9").
    """
    seconds = {int(path.name.split(".")[3]) for path in folder.glob("events.out.tfevents.*")}
    now = time.time()
    if int(now) in seconds:
        time.sleep(1.0 - now % 1.0)


def _tables_of_checksums() -> tuple[list[int], NDArray[np.uint32]]:
    """Return the remainders of all bytes, and of all pairs of bytes, by the polynomial of CRC-32C (Castagnoli)."""
    table: NDArray[np.uint32] = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = table >> np.uint32(1) ^ (table & np.uint32(1)) * np.uint32(0x82F63B78)
    pairs = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(2):
        pairs = table[pairs & 0xFF] ^ pairs >> np.uint32(8)
    return table.tolist(), pairs


_BYTES, _PAIRS = _tables_of_checksums()
_PAIR_LIST: list[int] = _PAIRS.tolist()  # for one number at a time
_LANES = 256  # parts of a picture whose remainders are taken side by side


def _masked_checksum(data: bytes) -> int:
    """Return the CRC-32C of bytes, rotated by 15 bits plus a constant, as the record format requires."""
    crc = _remainder(0xFFFFFFFF, data) ^ 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _remainder(crc: int, data: bytes) -> int:
    """Return the remainder after bytes, given that before them. A picture's lanes are divided side by side.

    A remainder is linear in the one before and in the bytes, so lanes start from 0, and what came before a lane moves
    past it as if it held zeros: for each of 32 bits, once for all lanes.
    """
    pairs = len(data) // 2
    length = pairs // _LANES  # pairs of bytes a lane
    if length >= 32:  # of fewer, a lane costs more than it saves
        rows = np.frombuffer(data, "<u2", length * _LANES).reshape(_LANES, length).T.astype(np.uint32, order="C")
        # The last 32 columns are the remainders with a single bit: what one of these becomes past a lane of zeros.
        lanes = np.concatenate([np.zeros(_LANES, np.uint32), np.uint32(1) << np.arange(32, dtype=np.uint32)])
        for row in rows:
            index = lanes & np.uint32(0xFFFF)
            index[:_LANES] ^= row
            lanes = _PAIRS[index] ^ lanes >> np.uint32(16)
        bits = lanes[_LANES:].tolist()
        for lane in lanes[:_LANES].tolist():
            past, bit = lane, 0
            while crc:
                if crc & 1:
                    past ^= bits[bit]
                crc, bit = crc >> 1, bit + 1
            crc = past
        data = data[2 * length * _LANES :]
    even = len(data) & ~1
    for pair in np.frombuffer(data, "<u2", even // 2).tolist():
        crc = _PAIR_LIST[(crc ^ pair) & 0xFFFF] ^ crc >> 16
    for byte in data[even:]:
        crc = _BYTES[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc
