"""A language model behind OpenAI's chat-completions API: requests and answers, how replies come about, HTTP.

May import all of arena, roles and games.
"""
