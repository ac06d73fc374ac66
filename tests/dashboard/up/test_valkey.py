"""The embedded Valkey keeps what a restart must not lose."""

from __future__ import annotations

from redis import Redis

from tests.servers import Valkey, short_folder


def test_users_of_nodes_are_there_after_a_restart() -> None:
    with short_folder("ty-users-") as folder:
        server = Valkey(folder / "valkey", durable=True)
        server.start()
        try:
            with Redis.from_url(server.url) as client:
                client.execute_command("ACL", "SETUSER", "node-a", "on", ">secret", "+ping")
                client.acl_save()
            server.kill()
            server.start()
            with Redis.from_url(server.url, username="node-a", password="secret") as client:
                assert client.ping()
        finally:
            server.stop()
