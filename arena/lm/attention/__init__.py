"""Attention over shared prefixes and packed rows without a materialised mask. May import arena.lm.tensors."""
