"""The pages of games name every game that this project has."""

from support.pages import PAGES

from games.registry import NATIVE


def test_every_game_of_this_project_is_told_of_somewhere():
    pages = [path.read_text(encoding="utf-8") for path in PAGES]
    names = (*NATIVE, "bargaining", "colored_trails")
    assert [name for name in names if not any(f"`{name}" in page for page in pages)] == []
