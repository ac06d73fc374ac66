"""Documents that the product and its nodes exchange: every document as a typed struct, its seal, and the names of its
keys.

One document goes down from control to a node, and two come up. Each is JSON in a seal: an HMAC with the node's key,
bound to a scope. They state what is, so a lost one costs a second and a repeated one nothing.

- down: ``Desired``, rewritten every tick from the database, under ``keys.down_key``
- up: ``NodeStatus``, every second from the node worker, under ``keys.up_key``
- up: ``AttemptReport``, on every change and every second from a supervisor, under ``keys.report_key``. When it is gone,
  the node worker repeats the last one, or writes the final one itself.
- up: frames of records, in the stream of the run's shard: see ``keys.stream_key``

Commands to a node (``orders``, ``inspections``) and hints to control travel as Celery messages. They may be lost: the
documents say the same again. Each has one argument ``sealed``.

Neighbours of other versions are read: unknown fields are ignored, and missing ones have defaults.
Nothing here imports Django, torch or another part of the product.
"""
