"""Measurements of what the project claims: `python -m benchmarks` runs them and writes docs/results.md."""
