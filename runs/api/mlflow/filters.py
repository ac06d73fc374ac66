"""MLflow's language of filters and orders in ours. Pure."""

import re
from datetime import UTC, datetime

from ninja.errors import HttpError

from trainyard.formats.parameters import typed

_PART = re.compile(
    r"""\s*(?:(?P<kind>\w+)\.)?(?P<key>`[^`]*`|"[^"]*"|[\w./-]+)\s*(?P<sign>!=|>=|<=|=|>|<|I?LIKE\b|(?:NOT\s+)?IN\b)\s*
    (?P<value>'[^']*'|"[^"]*"|\([^()]*\)|[-+\w.]+)\s*(?:\bAND\b|$)""",
    re.VERBOSE | re.IGNORECASE,
)
KINDS = {"metrics": "metric", "parameters": "param", "parameter": "param", "params": "param", "tags": "tag"}
FIELDS = {"run_name": "name", "user_id": "user", "start_time": "created", "end_time": "ended", "status": "status"}
OF_TAGS = {"mlflow.runName": "name", "mlflow.user": "user"}
STATUS = {"FINISHED": "SUCCEEDED", "KILLED": "CANCELLED", "SCHEDULED": "QUEUED", "RUNNING": "live"}


def translated(text: str) -> str:
    """Return the filter in our language. Raises HttpError for what that cannot say."""
    found, place = [], 0
    while place < len(text.rstrip()):
        part = _PART.match(text, place)
        if part is None:
            raise HttpError(
                422, f"This cannot be read as a filter of MLflow, at character {place}: {text[place:]!r:.80}"
            )
        found.append(_comparison(part))
        place = part.end()
    return " and ".join(found)


def order(wanted: list[str]) -> str:
    """Return what runs are sorted by, the newest first where nothing is wanted."""
    found = []
    for one in wanted:
        words = re.fullmatch(r"\s*(?:(\w+)\.)?(`[^`]*`|\"[^\"]*\"|\S+)(?:\s+(ASC|DESC))?\s*", one, re.IGNORECASE)
        if words is None:
            raise HttpError(422, f"This is no order of MLflow: {one!r:.80}")
        field = _field((words[1] or "").lower(), words[2].strip('`"'))
        found.append(("-" if (words[3] or "").upper() == "DESC" else "") + field)
    return ",".join(found) or "-created"


def _field(kind: str, key: str) -> str:
    kind = KINDS.get(kind, kind)
    if kind == "metric":
        return _quoted(f"summary.{key}.last")
    if kind == "param":
        return _quoted(f"config.{key}")
    if kind == "tag" and key in OF_TAGS:
        return OF_TAGS[key]
    if kind not in ("", "attribute", "attributes", "attr", "run") or key not in FIELDS:
        raise HttpError(422, f"Runs have no {f'{kind}.' if kind else ''}{key} that they are found or sorted by.")
    return FIELDS[key]


def _comparison(part: re.Match[str]) -> str:
    kind, key = KINDS.get((part["kind"] or "").lower(), (part["kind"] or "").lower()), part["key"].strip('`"')
    sign, value = " ".join(part["sign"].upper().split()), part["value"]
    values = re.findall(r"'([^']*)'|\"([^\"]*)\"", value) if value.startswith("(") else [(value.strip("'\""), "")]
    texts = [one or other for one, other in values]
    if sign in ("LIKE", "ILIKE"):
        inner = texts[0].strip("%")
        if "%" in inner or "_" in inner or not texts[0].startswith("%") or not texts[0].endswith("%"):
            raise HttpError(422, f"LIKE takes a part between two %, such as '%part%', not {texts[0]!r:.80}")
        sign, texts = "~", [inner]
    if kind == "tag" and key not in OF_TAGS:
        said = " or ".join(
            f"tag = {_quoted(f'{key}={text}')}" if sign != "~" else f"tag ~ {_quoted(text)}" for text in texts
        )
        return f"not ({said})" if sign in ("!=", "NOT IN") else f"({said})"
    field = _field(kind, key)
    listed = ", ".join(_value(field, kind, text) for text in texts)
    if sign in ("IN", "NOT IN"):
        return f"{'not ' if sign == 'NOT IN' else ''}{field} in ({listed})"
    return f"{field} {sign} {listed}"


def _value(field: str, kind: str, text: str) -> str:
    if field == "status":
        return STATUS.get(text.upper(), text)
    if field in ("created", "ended"):
        try:
            return datetime.fromtimestamp(int(text) / 1000, UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            raise HttpError(422, f"{text!r:.80} is no time in milliseconds") from None
    is_number = kind == "metric" or (kind == "param" and not isinstance(typed(text), str))
    return text if is_number else _quoted(text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
