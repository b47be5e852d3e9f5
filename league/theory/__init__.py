"""Game theory and statistics: exact play, solvers, beliefs, cycles, confidence. No torch.

May import games alone.
"""
