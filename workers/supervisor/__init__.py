"""One process per attempt and node: it owns the ranks and reports what becomes of them.

Read in this order: ``main`` (its life), ``starting`` and ``ranks.launch`` (what a rank gets), ``watching`` and
``ranks.state`` (what is seen of it), ``ending`` (why and how soon all end), ``reports`` and ``contact`` (what the
server is sent and wants), ``records`` (the way of lines and points to the server).
"""
