"""Benchmarks of what the project claims: `python -m benchmarks` runs them and writes the pages in benchmarks/results.

Each room has one subject: `speed` (systems timed), `gpu` (what a GPU is wanted for, in one command), `studies` (what
training is worth), `report` (tables and the page).
May import all packages of the project; none of them imports this one.
"""
