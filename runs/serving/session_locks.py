"""Locks of a session of PostgreSQL: they are given up when the session ends, whatever happens to who has them."""

# A process whose machine is gone says nothing: PostgreSQL asks that machine, and ends the session after 11 s without an
# answer, where Linux would ask after two hours. A process that stands still answers: its system does.
KEEPALIVE = ", ".join(
    f"set_config('tcp_keepalives_{name}', '{value}', false)"
    for name, value in (("idle", 5), ("interval", 2), ("count", 3))
)
