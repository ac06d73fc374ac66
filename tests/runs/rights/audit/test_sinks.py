"""Rows of the audit reach a collector of syslog, with all of their facts."""

from __future__ import annotations

import re
import socket
from typing import Any

import pytest

from runs.rights.audit import chain
from runs.rights.audit.chain import append
from runs.rights.audit.facts import NAMES, Act, as_attributes, as_written
from runs.serving.collectors import SyslogPlace, syslog_place


def test_a_row_is_a_message_with_its_facts(db: None, settings: Any, django_capture_on_commit_callbacks: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as collector:
        collector.bind(("127.0.0.1", 0))
        collector.settimeout(30)
        settings.AUDIT_SYSLOG = syslog_place(f"udp://127.0.0.1:{collector.getsockname()[1]}")
        with django_capture_on_commit_callbacks(execute=True):
            row = append(Act(actor='a"]b', action="runs.stop", object="run 1", after={"run 1": {"status": "STOPPED"}}))
        message = collector.recv(65_536).decode()
    assert message.startswith(f"<{chain.PRIORITY}>1 {as_written(row)['at']} ")
    data = re.search(r"\[trainyard@32473 (.*)\] \ufeff(.*)", message)
    assert data is not None and data[2] == '{"before":null,"after":{"run 1":{"status":"STOPPED"}}}'
    assert 'actor="a\\"\\]b"' in data[1] and f'hash="{row.hash}"' in data[1]
    assert set(re.findall(r'(\w+)="', data[1])) == {*NAMES} - {"at", "before", "after", "is_pseudonymous"}


def test_every_way_out_has_the_facts_that_the_contract_names(db: None) -> None:
    row = as_written(append(Act(actor="mate", action="runs.stop", object="run 1", after={"run 1": {"status": "x"}})))
    assert tuple(row) == NAMES
    found = as_attributes(row)
    assert set(found) == {*NAMES} - {"is_pseudonymous"}
    assert (found["sequence"], found["before"], found["after"]) == (1, "", '{"run 1":{"status":"x"}}')


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", None),
        ("udp://collector", SyslogPlace("udp", "collector", 514)),
        ("tcp://[::1]:6514", SyslogPlace("tcp", "::1", 6514)),
        ("unix:///dev/log", SyslogPlace("unix", "/dev/log", 0)),
    ],
)
def test_a_place_is_read(text: str, place: SyslogPlace | None) -> None:
    assert syslog_place(text) == place
