"""The project's speed on a GPU, measured by one command beside the device's limits, and estimated on paper.

May import arena, learners, league and ``benchmarks.report.provenance``; at the top of a file only what needs torch,
transformers, tokenizers, safetensors and numpy: a part that needs more looks for it, and says what it lacks.
"""
