"""A head that is frozen computes what one that is trained computes, by the same product."""

import pytest
import torch
from support.models.pocket import pocket
from torch.utils._python_dispatch import TorchDispatchMode

from arena.lm.language_model import LanguageModel


class Products(TorchDispatchMode):
    """Notes the operands' shapes of every matrix product."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        if operation in (torch.ops.aten.mm.default, torch.ops.aten.bmm.default):
            self.shapes.append((operation.__name__, *(tuple(tensor.shape) for tensor in arguments)))
        return operation(*arguments, **(options or {}))


def products_of_the_head(lm, prompts):
    """Return the head's products (without plain passes, first that of the prefix) and the rows' last logits."""
    (chunk,) = lm.plan(prompts, [((),)] * len(prompts), 8192)
    with torch.no_grad(), Products() as products:
        logits = lm.run(chunk, 1).logits
    return [shapes for shapes in products.shapes if shapes[-1][-1] == lm.model.config.vocab_size], logits


@pytest.mark.parametrize(("plain", "rows"), [(False, (1, 3)), (True, (3,))])
def test_the_head_of_frozen_weights_is_one_product_for_all_rows(plain, rows):
    lm = pocket()
    prompts = [lm.encode_prompt([{"role": "user", "content": "bet " * n}]) for n in (1, 3, 5)]
    frozen = lm.frozen_copy()
    if not plain:
        lm.plain = frozen.plain = None
    hidden, vocabulary = lm.model.config.hidden_size, lm.model.config.vocab_size
    one_product_each = [("mm.default", (number, hidden), (hidden, vocabulary)) for number in rows]
    assert products_of_the_head(lm, prompts)[0] == one_product_each
    assert products_of_the_head(frozen, prompts)[0] == one_product_each
    assert torch.equal(products_of_the_head(lm, prompts)[1], products_of_the_head(frozen, prompts)[1])


def test_a_model_that_several_views_share_is_prepared_once():
    lm = pocket()
    again = LanguageModel(lm.copy().model, lm.tokenizer)
    assert len(again.model.get_output_embeddings()._forward_pre_hooks) == 1
