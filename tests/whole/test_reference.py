"""The pages of docs/reference that are read off the code say what the code says."""

import pytest

from benchmarks.report.reference import FOLDER, PAGES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_what_the_code_says(page):
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    assert text == PAGES[page](), "python -m benchmarks.report.reference writes it"


def test_every_rule_has_its_formula_its_settings_and_its_source():
    text = (FOLDER / "credit_rules.md").read_text(encoding="utf-8")
    m_grpo = text.partition("\n## m_grpo\n")[2].partition("\n## ")[0]
    assert "[arXiv 2511.13288](https://arxiv.org/abs/2511.13288)" in m_grpo
    assert "```text\nA_M = (R_M - mean) / (std + epsilon)" in m_grpo
    assert "\n- `credit.m_grpo.align` (`weight`): " in m_grpo
    assert "Needs: groups." in m_grpo
