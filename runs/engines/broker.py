"""Messages to Celery's queues: commands to nodes and hints to control."""

import structlog
from celery import current_app
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

log = structlog.get_logger(__name__)

EXPIRES_S = 10  # a message that waited longer is stale: the state documents have newer content


def publish(task: str, queue: str, sealed: str) -> None:
    """Put one message on a queue. A broker that is away costs a log line, since the tick repeats it."""
    arguments = {"sealed": sealed}
    try:
        current_app.send_task(task, kwargs=arguments, queue=queue, ignore_result=True, expires=EXPIRES_S, retry=False)
    except (KombuError, RedisError, OSError) as error:
        log.warning("engine.not_sent", task=task, queue=queue, error=str(error))
