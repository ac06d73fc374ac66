"""A node checks itself and its connections to the other nodes of its cluster.

Read in this order: ``self_check`` (of the node alone, and what is put together), ``peers`` (connections to others).
"""
