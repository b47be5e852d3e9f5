"""The site's navigation, for MkDocs: the front page, a tab for each folder of pages, and the measured figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FOLDERS = {"start": "Start", "guide": "Guide", "reference": "Reference", "extend": "Extend", "research": "Research"}


def on_config(config: Any) -> Any:
    """Give MkDocs the pages in their order, by heading."""
    pages = Path(config.docs_dir)
    shown = {name: sorted((pages / "docs" / folder).glob("*.[im]*")) for folder, name in FOLDERS.items()}
    shown["Research"] += sorted((pages / "benchmarks" / "results").glob("*.md"))
    tabs = {
        name: [str(path.relative_to(pages)) for path in found if path.suffix in (".md", ".ipynb")]
        for name, found in shown.items()
    }
    config.nav = [{"League": "README.md"}, *({name: found} for name, found in tabs.items())]
    config.nav.append({"Project": ["CONTRIBUTING.md", "CHANGELOG.md"]})
    return config
