"""The user's code: fetched once per content, verified, unpacked afresh for every attempt."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Protocol

import httpx

from trainyard.bundle import BundleError, unpack
from trainyard.contract.orders import Order
from trainyard.spec.sections.tasks import code_program
from trainyard.spooling.held_folder import remove_tree
from workers.attempt.folder import AttemptFolder


class CannotRunHere(Exception):
    """This attempt cannot run here, and trying again would not help. The message is one sentence."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class BundleSource(Protocol):
    def bundle(self, sha256: str) -> bytes: ...


def lay_out_code(order: Order, folder: AttemptFolder, cache: Path, source: BundleSource) -> None:
    """Unpack the order's bundle into the attempt's code folder and check that what is to be run is in it.

    Raises Refusal, and what ``source`` raises when the server does not answer.
    """
    remove_tree(folder.code)
    folder.code.mkdir(mode=0o700, parents=True)
    if order.code is not None:
        data = fetch_bundle(order.code.sha256, cache / "bundles", source)
        try:
            unpack(data, folder.code)
        except BundleError as error:
            raise CannotRunHere("code_refused", f"The run's code was refused on {order.node_name}: {error}") from error
    _check_program(order, folder.code)


def _check_program(order: Order, code: Path) -> None:
    task = order.spec["task"]
    script, program = task.get("script"), code_program(task.get("command") or [])
    if script and not (code / script).is_file():
        raise CannotRunHere("script_missing", f"The script {script} is not in the run's code.")
    if program and not (code / program).is_file():
        raise CannotRunHere(
            "script_missing", f"The file {program}, which task.command names, is not in the run's code."
        )
    if program:
        (code / program).chmod(0o755)  # a folder that a browser uploads comes without modes


def fetch_bundle(sha256: str, cache: Path, source: BundleSource) -> bytes:
    """Return the bundle, from the node's cache where it is there. Raises Refusal, and what ``source`` raises."""
    path = cache / sha256
    if path.exists() and hashlib.sha256(data := path.read_bytes()).hexdigest() == sha256:
        return data
    try:
        data = source.bundle(sha256)
    except httpx.HTTPStatusError as error:
        if error.response.status_code != 404:
            raise
        raise CannotRunHere("code_missing", f"The server has no code bundle {sha256[:12]} for this node.") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise CannotRunHere("code_damaged", f"The server's code bundle {sha256[:12]} does not have that SHA-256.")
    temporary = path.with_name(f".{sha256}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)
    return data
