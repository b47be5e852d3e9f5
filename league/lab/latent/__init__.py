"""Utterances clustered into a latent strategy space, the game between clusters, and training towards its equilibrium.

May import rooms up to ``distillation``.
"""
