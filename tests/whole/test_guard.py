"""The guard of speed: what is slower than stored fails by name, and another machine's ratios judge nothing."""

import pytest

from benchmarks.guard import command
from benchmarks.guard.command import Stored
from benchmarks.report.provenance import provenance

HERE = provenance()["machine"]["cpu"]


@pytest.fixture
def ratios(tmp_path):
    def written(machine=HERE):
        file = tmp_path / "ratios.toml"
        command.write(file, {name: Stored(2.0, "0123456789", machine, "a reason") for name in ("arena", "start")})
        return file

    return written


@pytest.mark.parametrize(("ratio", "status"), [(1.0, 0), (2.29, 0), (2.31, 1)])
def test_a_piece_may_be_fifteen_per_cent_slower_and_no_more(ratio, status, ratios, monkeypatch, capsys):
    monkeypatch.setattr(command, "measured", lambda name, _: ratio if name == "start" else 2.0)
    assert command.main(["arena", "start", "--file", str(ratios())]) == status
    told = capsys.readouterr().err
    assert ("start is 16% slower: 2.310 times its yardstick, and 2.0 at 0123456789 (a reason)." in told) == bool(status)
    assert "arena is" not in told


def test_another_machines_ratios_judge_nothing(ratios, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(command, "measured", lambda name, enough: asked.append(enough) or 9.0)
    assert command.main(["arena", "--file", str(ratios("another processor"))]) == 0
    assert "not judged: it was stored on another processor" in capsys.readouterr().out
    assert len(asked) == 1


def test_a_new_ratio_needs_a_reason_and_keeps_the_others(ratios, monkeypatch):
    file = ratios()
    monkeypatch.setattr(command, "measured", lambda name, _: 3.0)
    with pytest.raises(SystemExit):
        command.main(["--store", "start", "--file", str(file)])
    assert command.main(["--store", "start", "--reason", "it does more", "--file", str(file)]) == 0
    kept = command.read(file)
    assert (kept["start"].ratio, kept["start"].reason, kept["arena"].ratio) == (3.0, "it does more", 2.0)
    assert command.main(["start", "sampler", "--file", str(file)]) == 2  # which has no ratio
