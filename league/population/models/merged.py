"""An adapter merged into its base: a whole model, for those who do not have the base."""

from __future__ import annotations

from pathlib import Path

from peft import PeftModel

from arena.lm.language_model import LanguageModel


def save_merged(base: Path | str, adapter: Path, folder: Path) -> None:
    """Write the model that an adapter on a base is, in single precision, so that it says what they say together.

    Raises UsageError for a base that cannot be read.
    """
    lm = LanguageModel.load(base)
    merged = PeftModel.from_pretrained(lm.model, str(adapter)).merge_and_unload()
    LanguageModel(merged, lm.tokenizer).save(folder)
