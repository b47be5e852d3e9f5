"""Where a policy comes from: rules that make a generation of runs from the last, and the breeding itself.

May import training and the wings below it, but no other room of the lab.
"""
