"""Whatever has msgspec read a type asks ``prepared`` first: two threads that read it first at once end the process."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READS = re.compile(r"msgspec\.(?:convert\(|(?:json|msgpack)\.(?:Decoder\(|decode\([^()]*\btype=))[^\n]*")


def test_every_type_is_prepared_before_it_is_read() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for place in ("trainyard", "runs", "workers", "dashboard")
        for path in sorted((ROOT / place).rglob("*.py"))
        for line in READS.findall(path.read_text())
    ]
    assert len(found) > 10
    assert [line for line in found if "prepared(" not in line and "Decoder(kind)" not in line] == []
