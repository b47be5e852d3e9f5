"""Limits of tools are each seat's own, over a match."""

import random
from types import SimpleNamespace

from arena.records import ReplyRequest
from arena.tools import ToolSession
from games.spec import Choices, GameSpec, Utility
from roles.cards import load_roles

ROLE = """
[[role]]
name = "{name}"
seat = {seat}
system = "Work."
prompt = "{{observation}}"
reply = "free"
conduct = {{on_illegal = "forfeit"}}
tools = [{{name = "ring", description = "rings.", per_match = 1, quick = true}}]
"""
SPEC = GameSpec("bells", 2, 1, 4, 0.0, 0.0, Utility.GENERAL_SUM, False, has_chance=False)


def test_a_call_of_one_seat_uses_up_none_of_the_others(tmp_path):
    roles = "".join(ROLE.format(name=name, seat=seat) for seat, name in enumerate(("left", "right")))
    (tmp_path / "bells.toml").write_text(f'game = "bells"\n{roles}')
    cards, outputs = load_roles(SPEC, tmp_path), []
    game = SimpleNamespace(
        spec=SPEC,
        tools=lambda: {"ring": lambda: "rings"},
        actions=lambda: Choices(("go",), (0,)),
        legal_calls=tuple,
        observe=lambda seat: "",
        record_call=lambda call, output: outputs.append(output),
    )
    session = ToolSession(game)
    for seat in (1, 0, 1, 0):
        role = cards[seat]
        request = session.begin_turn(ReplyRequest("p", role, game, "", ("go",), (), random.Random(0)))
        call = session.find_call(request, f"{role.answer_open}ring(){role.answer_close}", None)
        session.end_call(request, call, session.begin_call(request, call))
    assert outputs == ["rings", "rings", *["No call of ring is left: 1 a match at most."] * 2]
