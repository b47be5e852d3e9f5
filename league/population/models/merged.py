"""An adapter merged into its base: a whole model, for those without the base."""

from __future__ import annotations

from pathlib import Path

from peft import PeftModel

from arena.lm.language_model import LanguageModel


def save_merged(base: Path | str, adapter: Path, folder: Path) -> None:
    """Write an adapter merged into its base, in single precision, as one model that replies as they do together.

    Raises UsageError for a base that cannot be read.
    """
    lm = LanguageModel.load(base)
    merged = PeftModel.from_pretrained(lm.model, str(adapter)).merge_and_unload()
    LanguageModel(merged, lm.tokenizer).save(folder)
