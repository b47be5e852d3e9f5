"""Utterances clustered into a latent strategy space, the game between clusters, and training towards its equilibrium.

May import training and the wings below it, but no other room of the lab.
"""
