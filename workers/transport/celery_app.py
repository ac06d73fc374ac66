"""The node's Celery application: it takes commands, and sends neither results nor states."""

from __future__ import annotations

from celery import Celery

from trainyard.contract.keys import broker_url, node_queue
from workers.transport.broker import OPTIONS, MessageGate


def make_app(redis_url: str, node_name: str, gate: MessageGate | None = None) -> Celery:
    # No fixups: with DJANGO_SETTINGS_MODULE in the environment Celery would look for a Django project.
    app = Celery("trainyard-node", fixups=[])
    app.conf.update(
        broker_url=broker_url(redis_url),
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # A Valkey whose disk is full answers every command with an error: wait and connect again, do not end.
        broker_channel_error_retry=True,
        broker_transport_options={
            "socket_timeout": 10,
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "health_check_interval": 10,
            **OPTIONS,
            "gate": gate,
        },
        accept_content=["json"],
        task_serializer="json",
        task_default_queue=node_queue(node_name),
        task_ignore_result=True,
        worker_prefetch_multiplier=0,  # no limit: with one it reads nothing for up to a second once it is busy
        worker_enable_remote_control=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
    )
    return app
