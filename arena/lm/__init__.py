"""The language model that play and learning share: tokenization, log-probs, packing, LoRA and decoding.

May import arena's errors, roles and games, but not arena's records.
"""
