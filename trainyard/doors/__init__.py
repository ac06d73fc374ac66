"""Doors: what other tools recorded becomes records of a run, whichever way it comes.

A door translates into ``trainyard.contract.records`` through ``gathering.Gathering``: beginning, configuration, points,
media, lines, end. Where these go is the caller's: to a server (``importing``), or into a spool of a node.
"""
