"""On-policy distillation: who teaches which role, and what teachers say to the turns that the students played.

May import rooms up to ``players``, and ``learning.evidence``.
"""
