"""Sending a local run to the server while it goes on, where TRAINYARD_URL is set: what the SDK starts and ends.

Nothing here reaches the training: each thing that goes wrong costs one warning, and the spool keeps everything for
``trainyard sync``.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

Warn = Callable[[str, str], None]  # a topic, of which one warning is enough, and a sentence


class Stream(Protocol):
    run_id: str  # on the server, as soon as that knows the run

    @property
    def page(self) -> str | None: ...

    def finish(self) -> None: ...


def begin(folder: Path, local_id: str, warn: Warn) -> Stream | None:
    """Start to send the local run in ``folder``; None where nobody asked for it, or it cannot be done."""
    if not local_id or not os.environ.get("TRAINYARD_URL"):
        return None
    try:
        # Here, in the thread that called: a process that forks while another thread imports would hang.
        from trainyard.sdk.sender import Sender  # `import trainyard` stays light

        return Sender.start(folder, local_id, warn)
    except Exception as error:  # whatever is wrong with the installation, the address or the token's file
        warn("stream", f"the run is not sent live: {str(error).rstrip('.')}. `trainyard sync {folder}` sends it later")
        return None
