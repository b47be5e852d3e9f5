"""Trajectories made by hand, and updates of small models."""
