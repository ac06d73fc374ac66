"""The ledger of a spool folder: what was deleted there because the server has it.

Without it a prefix that is gone would look like one that was lost. The ledger is on the disk before a file goes.
"""

import json
import logging
from pathlib import Path
from typing import Any

from trainyard.spooling.plain_files import create_plain, open_plain, sync, write_private
from trainyard.spooling.writer import spool_path

logger = logging.getLogger("trainyard")

NAME = "ledger.json"
SPARE = "ledger.spare"
SPARE_BYTES = 64 * 1024


class Ledger:
    """Read once, then kept by the one process that ships the folder.

    ``offsets`` says for each stream of a rank's output how far the deleted frames had read it: keys "RANK STREAM".
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._through: dict[str, int] = {}
        self.offsets: dict[str, int] = {}
        try:
            with open_plain(folder / NAME) as file:
                document: Any = json.load(file)
            self._through = {str(name): int(last) for name, last in document["through"].items()}
            self.offsets = {str(name): int(offset) for name, offset in document["offsets"].items()}
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Whatever is sent in vain for want of it, the server has seen.
            logger.warning("trainyard: %s is no ledger (%s); it is begun anew", folder / NAME, error)

    def through(self, producer: str) -> int:
        """Return the last sequence that was deleted of the producer, 0 when all is there."""
        return self._through.get(producer, 0)

    def producers(self) -> dict[str, int]:
        return dict(self._through)

    def delete(self, producer: str, number: int, *, last: int, offsets: dict[str, int]) -> None:
        """Note that the server has the file, whose last sequence is ``last``; then delete it. Raises OSError."""
        self._through[producer] = max(last, self.through(producer))
        for stream, offset in offsets.items():
            self.offsets[stream] = max(offset, self.offsets.get(stream, 0))
        spare = self._folder / SPARE
        try:
            self._write()
        except OSError:  # a full disk, which only this can free: there is some room kept for it
            spare.unlink(missing_ok=True)
            self._write()
        spool_path(self._folder, producer, number).unlink(missing_ok=True)
        if not spare.exists():
            with create_plain(spare) as file:
                file.write(bytes(SPARE_BYTES))

    def _write(self) -> None:
        write_private(self._folder / NAME, json.dumps({"through": self._through, "offsets": self.offsets}))
        sync(self._folder)  # the rename first, the deletion afterwards
