"""`trainyard support`: what is in the zip, and that no secret is."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from dashboard.support import known_secrets, masked
from tests.dashboard.postgres_home import said
from tests.up_process import new_home


def test_the_zip_has_what_helps_and_no_secret(tmp_path: Path) -> None:
    home, target = new_home(tmp_path), tmp_path / "for_help.zip"
    (home / "logs").mkdir(parents=True, exist_ok=True)
    key = "a-key-that-nobody-may-read"
    (home / "secret_key").write_text(key)
    (home / "logs" / "web.log").write_text(f"key {key}\nAuthorization: Bearer ty_abc123\nlogin mate@example.org\n" * 3)
    (home / "logs" / "control.log.1").write_bytes(b"old\n" + b"x" * 3_000_000 + b"\nnewest line\n")
    environment = {"EMAIL_PASSWORD": "letmein-please", "PORT": "8123"}
    code, words = said(home, "", "-m", "dashboard.support", str(target), **environment)
    assert code == 0 and "Secrets are masked" in words, words
    assert target.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(target) as bundle:
        members = {name: bundle.read(name).decode() for name in bundle.namelist()}
    about = json.loads(members["about.json"])
    assert about["settings"]["PORT"] == "8123" and about["settings"]["EMAIL_PASSWORD"] == "set"
    assert "Django" in about["packages"] and "Python" not in about["settings"]
    assert {one["step"] for one in json.loads(members["findings.json"])} >= {"database", "disk", "server"}
    assert members["logs/control.log.1"].endswith("newest line\n") and "old" not in members["logs/control.log.1"]
    for secret in (key, "abc123", "mate@example.org", "letmein"):
        assert not any(secret in text for text in members.values()), secret
    assert members["logs/web.log"].count("[masked]") >= 6
    code, words = said(home, "", "-m", "dashboard.support", str(target))
    assert code == 1 and "Nothing was packed" in words and "exists" in words


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("GET /sign-in/AbC-123/ 302", "GET /sign-in/[masked]/ 302"),
        ("postgresql://me:pa5s@db:5432/x", "postgresql://me:[masked]@db:5432/x"),
        ("redis://:pa5s@db", "redis://:[masked]@db"),
        ("token ty_machine_12ab of a node", "token ty_machine_[masked] of a node"),
        ("nothing to hide at http://127.0.0.1:8000/runs/", "nothing to hide at http://127.0.0.1:8000/runs/"),
        ('sent {"token": "abc def", "n": 1}', 'sent {"token": "[masked]", "n": 1}'),
        ('{"access_token":"a\\"b"}', '{"access_token":"[masked]"}'),
        ("{'client_secret': 'abc'}", "{'client_secret': '[masked]'}"),
        (r'{"event": "got {\"token\": \"abc\"}"}', r'{"event": "got {\"token\": \"[masked]\"}"}'),
        ('cut {"token": "abc d\nnext', 'cut {"token": "[masked]\nnext'),
        ("token: Bearer abc, token=ty_12", "token: [masked] [masked], token=[masked]"),
        ("GET /data?api_key=abc.d&n=1", "GET /data?api_key=[masked]&n=1"),
        ("Cookie: a=b; sessionid=abc; c=d", "Cookie: a=b; sessionid=[masked]; c=d"),
        ("GET /x?X-Amz-Signature=0af9&n=1", "GET /x?X-Amz-Signature=[masked]&n=1"),
        ("of eyJhbGciOi.eyJzdWIiOi.c2ln-_x said", "of [masked] said"),
        ("to https://hooks.slack.com/services/T0/B0/x9 now", "to https://hooks.slack.com/services/[masked] now"),
        ("https://discord.com/api/webhooks/12/ab-c", "https://discord.com/api/webhooks/[masked]"),
        ("https://discordapp.com/api/v10/webhooks/12/ab-c", "https://discordapp.com/api/v10/webhooks/[masked]"),
        ("1200 tokens=9, num_tokens: 12, keys=3", "1200 tokens=9, num_tokens: 12, keys=3"),
        ("Bearer of bad news, password: letmein", "Bearer [masked] bad news, password: [masked]"),
        ("step 3 of hunter22", "step 3 of [masked]"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, left: str) -> None:
    assert masked(text.encode(), [b"hunter22"]).decode() == left


def test_passwords_of_urls_and_keys_of_files_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secrets.key").write_text("1:bm90LWEta2V5\n")
    monkeypatch.setenv("REDIS_URL", "redis://:of-valkey%40home@127.0.0.1/0")
    assert {b"of-valkey%40home", b"of-valkey@home", b"bm90LWEta2V5"} <= set(known_secrets(tmp_path))
