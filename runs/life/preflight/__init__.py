"""Checks of nodes before a run is started on them, and on demand.

Nodes check themselves and their connections all the time and report it with their status, so that a start waits for
nothing. Read in this order: ``pairs`` (checks between nodes), ``needs`` (of one run's plan), ``vetting`` (which nodes a
run may not have), ``rounds`` (what control does each second), ``beforehand`` (runs that wait for a fresh check).
"""
