"""Causes for which processes of a training ended, in classes and sentences: shared by nodes and the server. Pure.

Read in this order: ``signs`` (what libraries and the kernel write), ``ranks`` (how one rank ended), ``node_endings``
(what a node does to all of its ranks).
"""
