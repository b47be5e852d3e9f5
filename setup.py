"""Packaging of the distribution ``llm-league``: five top-level packages and the ``league`` command."""

import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

PACKAGES = ("games", "roles", "arena", "learners", "league")

DOCS = Path("docs")  # what `league show docs` prints


class BuildWithDocs(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:  # which finds them where they are
            for page in [page for kind in ("md", "ipynb", "png", "svg") for page in DOCS.rglob(f"*.{kind}")]:
                place = Path(self.build_lib) / "league" / page
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(page, place)


setup(
    name="llm-league",
    version="0.2.0",
    description="Trains language-model players by self-play in text games, and measures how exploitable they are",
    license="MIT",
    python_requires=">=3.11",
    cmdclass={"build_py": BuildWithDocs},
    packages=find_packages(include=[pattern for name in PACKAGES for pattern in (name, f"{name}.*")]),
    package_data={
        "games": ["py.typed", "outside/*.toml"],
        "arena": ["py.typed"],
        "learners": ["py.typed"],
        "roles": ["py.typed", "cards/*.toml", "cards/full/*.toml", "cards/both/*.toml"],
        "league": [
            "py.typed",
            "presets/*.toml",
            "suites/*.toml",
            "population/evaluation/*.toml",
            "lab/reports/templates/*",
            "lab/look/static/*",
        ],
    },
    entry_points={"console_scripts": ["league = league.cli:main"]},
    # Ranges stay open here; constraints.txt pins what the Makefile installs.
    install_requires=[
        "torch>=2.11",
        "transformers>=5.0",
        "peft>=0.19",
        "tokenizers>=0.21",
        "safetensors>=0.5",
        "gguf>=0.10",
        "numpy>=2.0",
        "scipy>=1.13",
        "clarabel>=0.11",
        "open_spiel>=1.6",
        "pettingzoo>=1.25",
        "gymnasium>=1.0",
        "tensorboard>=2.18",
        "matplotlib>=3.9",
        "openskill>=6.0",
        "rich>=13.9",
        "jinja2>=3.1",
        "pydantic>=2.9",
        "argcomplete>=3.5",
        "tomli_w>=1.1",
        "filelock>=4.2",
        "starlette>=0.46",
        "uvicorn>=0.34",
        "h11>=0.14",
    ],
    extras_require={
        "dev": [
            "pytest>=8.3",
            "pytest-xdist>=3.6",
            "hypothesis>=6.110",
            "psutil>=6.0",
            "playwright>=1.50",
            "ruff>=0.9",
            "mypy>=1.14",
            "ray[rllib]>=2.60",
            "pandas>=2.2",
            "openai>=3.0",
            "nbclient>=0.10",
            "numba>=0.63",
            "ipykernel>=7.0",
        ],
        "textarena": ["textarena>=0.7"],  # MIT itself, but it brings chess, which is GPL-3: never a dependency here
        "openai": ["httpx2>=2.16"],  # which uncompresses an answer in pieces of bounded size
        "vllm": ["vllm>=0.32"],
        "tinker": ["tinker>=0.38"],
        "pandas": ["pandas>=2.2"],
        "wandb": ["wandb>=0.19"],
        "mlflow": ["mlflow-skinny>=2.20", "sqlalchemy>=2", "alembic>=1.13"],
        "trackio": ["trackio>=0.10"],
        "parquet": ["pyarrow>=17"],
        "verifiers": ["verifiers>=0.1.10", "datasets>=3.0"],
        "openenv": ["openenv>=0.10"],
        "mcp": ["mcp>=1.10,<2"],
        "compiled": ["numba>=0.63"],  # exact figures of dark hex and phantom tic-tac-toe
        "8bit": ["bitsandbytes>=0.49"],
        "ray": ["ray[rllib]>=2.60"],
    },
)
