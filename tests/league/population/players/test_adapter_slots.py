"""How many adapters a batch mixes, where it is not set: what may play at once, in a part of the memory."""

import pytest
from transformers import Qwen3Config

from league.config.load import validate
from league.population.players.adapter_slots import adapter_slots, slot_bytes
from league.population.players.model_engine import slots_of

SHAPE = Qwen3Config(
    hidden_size=8, intermediate_size=20, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=4
)
LORA = {"weights": "lora", "rank": 8}
# of a layer, in and out: queries 8 + 8, keys and values 8 + 4 each, output 8 + 8, gate, up and down 8 + 20 each
LAYER = 16 + 2 * 12 + 16 + 3 * 28


def config(policies=("main",), **tables):
    table = {"games": {"kuhn_poker": {}}, "policies": dict.fromkeys(policies, LORA), "engine": {"kind": "vllm"}}
    return validate(table | tables)


def test_a_slot_by_hand():
    assert slot_bytes(SHAPE, 16, "float32") == 3 * LAYER * 16 * 4
    assert slot_bytes(SHAPE, 16, "bfloat16") == 3 * LAYER * 16 * 2


@pytest.mark.parametrize(
    ("policies", "tables", "wanted"),
    [
        (("main",), {}, 1 + 4),
        (("main", "other"), {"matchmaking": {"opponents": 2}}, 2 * (1 + 2)),
        (("main",), {"matchmaking": {"self_play": 1.0, "fictitious": 0.0}}, 1),
        (
            ("main",),
            {"async_learners": {"mode": "stream", "max_staleness": 2}, "objective": {"truncate": 2.0}},
            1 + 3 + 4,  # the live weights, three versions of them under way, four opponents
        ),
    ],
)
def test_as_many_as_may_play_at_once(policies, tables, wanted):
    slots = adapter_slots(config(policies, **tables), SHAPE, memory=1e12)
    assert slots.number == slots.wanted == wanted
    assert slots.note() == f"The engine mixes up to {wanted} adapters in a batch: all that may play at once."


def test_no_more_than_fit_into_a_tenth_of_the_memory_unless_it_is_set():
    memory = 10 * 3 * slot_bytes(SHAPE, 16, "float32")
    slots = adapter_slots(config(), SHAPE, memory)
    assert (slots.number, slots.wanted) == (3, 5)
    assert "up to 3 adapters in a batch, of 5 that may play at once; 3 take 10% of its memory" in slots.note()
    assert adapter_slots(config(), SHAPE, memory=1.0).number == 1
    assert adapter_slots(config(engine={"kind": "vllm", "vllm": {"max_loras": 7}}), SHAPE, memory).number == 7


def test_an_engine_without_adapters_has_none():
    assert slots_of(config(engine={"kind": "torch"}), ["main"], SHAPE) is None
    assert slots_of(config(policies=()), ["main"], SHAPE) is None
    assert slots_of(config(), ["main"], SHAPE).wanted == 5
