"""The output folder of each node goes to the server: what is finished while the run goes on, the rest at its end.

Large files go in parts and go on where they stopped. What cannot come is written down with its reason; it stays here,
and so does what a script left in its working folder, until somebody has decided about it.
"""

import time

import httpx
import structlog

from trainyard.contract.limits import OUTPUT_NAMED, UPLOAD_PART_BYTES
from trainyard.contract.node_status import OutputState
from trainyard.contract.orders import Order
from workers.attempt.documents import SentOutput
from workers.attempt.folder import AttemptFolder
from workers.node.output import files
from workers.node.output.files import FileChanged, OutputFile, list_files
from workers.node.server_client import ServerClient, problem_of

log = structlog.get_logger(__name__)

# Refusals that stay: no such run, a newer attempt, a run that takes no more, too large, no such name.
REFUSALS = frozenset({404, 409, 410, 413, 422})
STABLE_S = 10.0  # a file that nobody wrote to for so long is taken for finished while the run goes on…
LIVE_BYTES = 64 * 1024 * 1024  # …and sent, unless it is larger: a checkpoint may be written anew every minute


def upload_output(order: Order, folder: AttemptFolder, server: ServerClient) -> None:
    """Send every file that was not sent yet, report what the working folder has gained, then leave a mark. What the
    server refuses for good is written down, and stands on the run's page. Raises httpx.HTTPError, after all files were
    tried, when one is to be tried again."""
    found = list_files(folder.output)
    _send_all(order, folder, server, found.entries, found.left_out)
    entries = files.gained(folder)
    if entries:
        server.report_gained(order.run, order.fence, files.gained_files(entries))
    if not entries and not folder.output_sent().refused:
        folder.decided_mark.touch()
    folder.uploaded_mark.touch()


def upload_finished(order: Order, folder: AttemptFolder, server: ServerClient) -> None:
    """Send what is finished of a run that goes on, and record what else there is. Raises httpx.HTTPError."""
    found = list_files(folder.output)
    before_ns = (time.time() - STABLE_S) * 1e9
    finished = [one for one in found.entries if one.stamp[1] < before_ns and one.size <= LIVE_BYTES]
    _record_pending(folder, found.entries)
    _send_all(order, folder, server, finished, {})
    _record_pending(folder, found.entries)


def carry_out_decision(decision: str, order: Order, folder: AttemptFolder, server: ServerClient) -> None:
    """Carry out a person's decision about what was not sent: ``upload`` it, or ``discard`` it with the attempt.
    Raises httpx.HTTPError when it is to be tried again."""
    if decision == "upload":
        # The server may take by now what it did not take then.
        folder.record_output(SentOutput(folder.output_sent().sent))
        found = list_files(folder.output)
        kept = [one._replace(name=f"{files.PREFIX}/{one.name}") for one in files.gained(folder)]
        _send_all(order, folder, server, [*found.entries, *kept], found.left_out)
        if folder.output_sent().refused:
            server.report_gained(order.run, order.fence, files.gained_files(files.gained(folder)))
            return
    server.report_gained(order.run, order.fence, files.gained_files([]))
    folder.decided_mark.touch()


def report_taken(order: Order, folder: AttemptFolder, server: ServerClient) -> None:
    """Report that a later attempt has what was left in the working folder. Raises httpx.HTTPError."""
    server.report_gained(order.run, order.fence, files.gained_files([]))
    if not folder.output_sent().refused:
        folder.decided_mark.touch()
    folder.taken_mark.unlink(missing_ok=True)


def _send_all(
    order: Order, folder: AttemptFolder, server: ServerClient, entries: list[OutputFile], left_out: dict[str, str]
) -> None:
    state = folder.output_sent()
    sent, refused = dict(state.sent), dict(state.refused)
    refused.update({name: f"{why[0].upper()}{why[1:]}." for name, why in left_out.items()})
    waiting: httpx.HTTPError | OSError | None = None
    try:
        for one in entries:
            stamp: list[int | str] = [*one.stamp, one.same_as] if one.same_as else [*one.stamp]
            if sent.get(one.name) == stamp or one.name in refused or _is_sent_trace(folder, one):
                continue
            try:
                _send(order, folder, server, one)
                sent[one.name] = stamp
            except httpx.HTTPStatusError as error:
                if not is_refusal(error):
                    waiting = error
                    continue
                refused[one.name] = problem_of(error.response)
                log.warning("output.refused", run=order.run, file=one.name, why=refused[one.name])
            except (httpx.HTTPError, OSError) as error:
                waiting = error
                if isinstance(error, httpx.TransportError):
                    break
    finally:
        folder.sending = {}
        if (after := SentOutput(sent, refused)) != state:
            folder.record_output(after)
    if waiting is not None:
        raise waiting


def _send(order: Order, folder: AttemptFolder, server: ServerClient, one: OutputFile) -> None:
    run, fence = order.run, order.fence
    if one.same_as:
        server.begin_upload(run, fence, one.name, one.size, one.key, same_as=one.same_as)
        return
    if one.size <= UPLOAD_PART_BYTES:
        with one.open() as file:
            server.put_file(run, fence, one.name, file)
        return
    begun = server.begin_upload(run, fence, one.name, one.size, one.key)
    offset, is_done = begun.offset, begun.is_done
    with one.open() as file:
        while not is_done:
            folder.sending = {one.name: offset}
            file.seek(offset)
            data = file.read(min(UPLOAD_PART_BYTES, one.size - offset))
            if not data or not one.is_same(file):
                raise FileChanged(f"{one.name} was written to while it was being sent")
            answer = server.put_part(run, fence, one.key, offset, data)
            if answer.offset == offset:
                raise FileChanged(f"{one.name} does not get on at byte {offset:,}")
            offset, is_done = answer.offset, answer.is_done


def _is_sent_trace(folder: AttemptFolder, one: OutputFile) -> bool:
    return one.name.startswith("traces/") and folder.sent_mark(one.name.removeprefix("traces/")).exists()


def is_refusal(error: httpx.HTTPStatusError) -> bool:
    """Return whether the server will never take it. An old seal, a full disk, a busy server are no refusals."""
    return error.response.status_code in REFUSALS


def _record_pending(folder: AttemptFolder, entries: list[OutputFile]) -> None:
    sent = folder.output_sent().sent
    folder.pending = {one.name: one.size for one in entries if not one.same_as and sent.get(one.name) != one.stamp}


def output_state(folder: AttemptFolder) -> OutputState:
    refused = folder.output_sent().refused
    named = {name[:200]: refused[name][:300] for name in sorted(refused)[:OUTPUT_NAMED]}
    is_sent = folder.uploaded_mark.exists()
    pending = {} if is_sent else folder.pending
    return OutputState(
        problem=folder.output_problem[:300],
        num_refused=len(refused),
        refused=named,
        is_sent=is_sent,
        num_pending=len(pending),
        pending={name[:200]: pending[name] for name in sorted(pending)[: 4 * OUTPUT_NAMED]},
        sending={name[:200]: offset for name, offset in folder.sending.items()},
    )
