"""A node checks itself and its connections to the other nodes of its cluster.

Read in this order: ``self_check`` (what is put together), ``folders`` and ``clock`` (of the node alone), ``listener``
(answers other nodes), ``peers`` (tries connections to them).
"""
