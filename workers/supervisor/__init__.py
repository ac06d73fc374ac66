"""One process per attempt and node: it owns the ranks and says what became of them.

Read in this order: ``main`` (its life), ``launch`` (what a rank gets), ``reports`` (what is said of it), ``contact``
(the two documents), ``collecting`` and ``shipping`` (the way of the records).
"""

from workers.supervisor.main import supervise

__all__ = ["supervise"]
