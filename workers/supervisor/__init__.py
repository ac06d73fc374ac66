"""One process per attempt and node: it owns the ranks and reports what becomes of them.

Read in this order: ``main`` (its life), ``ranks.launch`` (what a rank gets), ``ranks.state`` and ``failure_sentences``
(what is reported of it), ``contact`` (the two documents), ``records`` (the way of lines and points to the server).
"""
