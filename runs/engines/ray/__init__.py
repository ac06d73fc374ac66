"""Ray: each attempt has a placement group of its own, and each bundle of it is one node."""
