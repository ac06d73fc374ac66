"""Gives a rank its secrets, in the process that becomes it: as variables, or in files that are in memory alone."""

from __future__ import annotations

import os
from collections.abc import Iterable

from trainyard.contract.calls.secrets import GivenSecret


def variables_of(secrets: Iterable[GivenSecret]) -> dict[str, str]:
    """Return the variables of this process. A file is one of memory, which ends with the process and its children."""
    return {one.variable: _file_of(one) if one.is_file else one.value for one in secrets}


def _file_of(secret: GivenSecret) -> str:
    descriptor = os.memfd_create(f"secret-{secret.variable}", 0)  # 0: it stays open in a program that is started
    left = memoryview(secret.value.encode())
    while left:
        left = left[os.write(descriptor, left) :]
    os.fchmod(descriptor, 0o400)
    return f"/proc/{os.getpid()}/fd/{descriptor}"
