"""Parts of a client of a chat-completions server: settings, request bodies, rate limit and usage. Nothing here sends.

May import arena's records, errors and lm, roles and games.
"""
