"""Studies of what training is worth: presets, credit rules, populations and teams, under conditions side by side.

May import all packages of the project, and no other room of the benchmarks.
"""
