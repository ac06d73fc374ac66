"""The node worker: one per machine. ``python -m workers.node`` or ``trainyard node``.

Nothing is imported here: the child that inspects a dataset lies in this package, and needs little of it.
"""
