"""Elastic runs that change their number of nodes: when, why, and in which words.

A resize is an orderly end of the attempt, with a checkpoint behind its last step, and a new attempt from there.
"""
