"""Answers of the REST API: a type for each, of which the server makes its schema and the client reads.

A client ignores fields that it does not know, so an older one works with a newer server. What is ``NotRequired`` came
with a later version: the server always sends it, and a newer client works with an older server.
"""
