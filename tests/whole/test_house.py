"""The script that counts the source: worked numbers of a small checkout."""

import pytest

from benchmarks.report import house

FILES = {
    "games/spec.py": '"""Two lines,\nand one more."""\n\nimport os\nfrom typing import Any\n\n\nX: Any = os\n',
    "roles/role.py": "import games.spec\n",
    "arena/play.py": (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import games.spec\n"
        "if TYPE_CHECKING:\n    Name = str\nelse:\n    Name = object()\n"
    ),
    "learners/batch.py": "",
    "league/theory/exact/values.py": "def value():\n    import games.spec\n",
    "league/config/run.py": "from league.theory.exact import values\n",
    "league/lab/report.py": "from league.config.run import RUN\nfrom league.theory.exact.values import value\n",
}


@pytest.fixture
def checkout(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_heads_are_docstring_and_imports(checkout):
    by_path = {source.path: source for source in house.read(checkout)}
    assert (by_path["games/spec.py"].head, by_path["games/spec.py"].lines) == (5, 8)
    assert by_path["league/theory/exact/values.py"].head == 0  # an import in a function is none of the head
    assert by_path["arena/play.py"].head == 3  # as is one for a type checker, but no names that are made for it
    assert house.share_of_heads([by_path["games/spec.py"], by_path["roles/role.py"]]) == 6 / 9


def test_arrows_and_floors_are_those_between_folders(checkout):
    graph = house.folders_graph(house.read(checkout), 1)
    assert graph == {"theory": set(), "config": {"theory"}, "lab": {"config", "theory"}}
    assert house.floors(graph) == [["theory"], ["config"], ["lab"]]
    assert "folders of league: 3, with 3 arrows on 3 floors" in house.table(checkout)
    graph["theory"] = {"lab"}
    assert house.floors(graph) == [["config", "lab", "theory"]]  # a circle


def test_functions_are_counted_with_their_lines_and_parameters(checkout):
    body = "\n".join(["class A:", "    def f(self, a, /, b, *c, d, **e):", "        def g(x):", "            return x"])
    (checkout / "arena" / "play.py").write_text(body, encoding="utf-8")
    [play] = [source for source in house.read(checkout) if source.path == "arena/play.py"]
    assert play.functions == [("arena/play.py:A.f", 3, 5), ("arena/play.py:A.f.g", 2, 1)]
    long = "".join(f"def f{n}():\n" + "    pass\n" * n for n in (59, 60))
    wide = "".join(f"def w{n}({', '.join(f'a{i}' for i in range(n))}): ...\n" for n in (7, 8))
    (checkout / "arena" / "play.py").write_text(long + wide, encoding="utf-8")
    assert "over 60 lines: 1; with 8 parameters or more: 1" in house.table(checkout)


def test_a_folder_that_is_no_checkout_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["house", str(tmp_path)])
    with pytest.raises(SystemExit) as refused:
        house.main()
    assert refused.value.code == 2
    assert f"{tmp_path} is no checkout of this project" in capsys.readouterr().err
