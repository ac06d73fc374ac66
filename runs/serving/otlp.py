"""OpenTelemetry's protocol over HTTP, in its JSON form: one request, and what its answer means."""

from collections.abc import Mapping
from datetime import datetime

import httpx
import structlog

from runs.serving.collectors import Collector
from trainyard.contract.base import BadDocument, JsonObject, WireStruct, decode, encode
from trainyard.rest.http_clients import why_not

log = structlog.get_logger(__name__)

MAX_ANSWER_BYTES = 64 * 1024


class NotTaken(Exception):
    """The collector did not take something. It may be sent again."""


class PartialSuccess(WireStruct, rename="camel"):
    rejected_log_records: str | int = 0
    rejected_spans: str | int = 0
    rejected_data_points: str | int = 0
    error_message: str = ""


class CollectorAnswer(WireStruct, rename="camel"):
    """Answer of a collector (ExportLogsServiceResponse and its like)."""

    partial_success: PartialSuccess | None = None


def attributes(values: Mapping[str, str | int]) -> list[JsonObject]:
    """64-bit integers are texts in the JSON form of protobuf."""
    return [
        {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for name, value in values.items()
    ]


RESOURCE: JsonObject = {"attributes": attributes({"service.name": "trainyard"})}


def nanoseconds(at: datetime) -> str:
    return str(int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1_000)


def post(collector: Collector, client: httpx.Client, document: JsonObject, path: str = "") -> None:
    """Raises NotTaken. What the collector rejects for good is an error of the log: it is not to be sent again."""
    headers = {"Content-Type": "application/json", **dict(collector.headers)}
    try:
        answer = client.post(collector.url + path, content=encode(document), headers=headers)
    except httpx.HTTPError as error:
        raise NotTaken(f"The collector does not answer: {why_not(error)}.") from error
    if answer.status_code != 200:
        raise NotTaken(f"The collector answered {answer.status_code}.")
    try:
        partial = decode(answer.content[:MAX_ANSWER_BYTES] or b"{}", CollectorAnswer).partial_success
    except BadDocument:
        return  # a collector may answer in protobuf
    if partial is None:
        return
    rejected = (partial.rejected_log_records, partial.rejected_spans, partial.rejected_data_points)
    if num := sum(map(int, rejected)):
        log.error("otlp.rejected", num=num, error=partial.error_message[:200])
