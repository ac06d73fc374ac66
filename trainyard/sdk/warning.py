"""Warnings to the ``trainyard`` logger: ``warnings.warn`` would become an exception under ``-W error``."""

import logging

MAX_TOPICS = 1000

logger = logging.getLogger("trainyard")


class WarnOnce:
    """Logs one sentence for each topic, and for MAX_TOPICS topics at most."""

    def __init__(self) -> None:
        self._topics: set[str] = set()

    def __call__(self, topic: str, sentence: str) -> None:
        if topic not in self._topics and len(self._topics) < MAX_TOPICS:
            self._topics.add(topic)
            logger.warning("trainyard: %s", sentence)
