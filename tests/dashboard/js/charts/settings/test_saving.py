"""How a person looks at charts is kept a moment after they changed it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

# The server answers as `status` says; without one the connection is dead.
SETUP = """
  const sent = [], told = [];
  let status = 200;
  const { fetch } = globalThis;
  globalThis.fetch = async (url, { method, headers, body, keepalive = false }) => {
    if (status === null) throw new TypeError("no connection");
    sent.push([method, url, headers["X-CSRFToken"], JSON.parse(body).state, keepalive]);
    return { ok: status < 300, status };
  };
  document.head.innerHTML = "<meta name=csrf-token content=secret>";
  const { tidy } = await import("http://modules.invalid/charts/settings/state.js");
  const saving = new Saving("/workspace", "run", { axis: "time" }, (how, words) => told.push([how, words]));
  const rest = (ms) => new Promise((go) => setTimeout(go, ms));
  const later = (raw) => saving.later(tidy(raw));
"""


@pytest.fixture
def saving(ask_page: Ask) -> Any:
    """``saving("later({…}); await rest(1200);")`` -> (what was sent, what the person was told)."""

    def run(steps: str) -> Any:
        end = "saving.close(); globalThis.fetch = fetch; return [sent, told]; }"
        return ask_page("charts/settings/saving.js", f"async ({{Saving}}) => {{ {SETUP} {steps} {end}")

    return run


def test_only_the_last_of_quick_changes_is_sent_and_only_what_is_not_as_at_the_start(saving: Any) -> None:
    sent, told = saving("later({axis: 'relative'}); await rest(50); later({isLogY: true}); await rest(1300);")
    assert sent == [["PUT", "/workspace", "secret", {"isLogY": True}, False]]
    assert told == [["kept", "kept for you"]]


def test_what_is_as_it_was_kept_is_not_sent_again(saving: Any) -> None:
    sent, _ = saving("later({isLogY: true}); later({axis: 'time'}); await rest(1200);")
    assert sent == []


def test_who_leaves_the_page_loses_nothing(saving: Any) -> None:
    sent, _ = saving("later({isLogY: true}); dispatchEvent(new Event('pagehide')); await rest(1200);")
    assert sent == [["PUT", "/workspace", "secret", {"isLogY": True}, True]]


def test_a_dead_connection_is_said_and_the_last_state_goes_with_the_next(saving: Any) -> None:
    sent, told = saving(
        "status = null; later({isLogY: true}); await rest(1200); status = 200; later({isLogX: true}); await rest(1200);"
    )
    assert [one[3] for one in sent] == [{"isLogX": True}]
    assert [how for how, _ in told] == ["failed", "kept"]


def test_what_the_server_refuses_is_said_and_not_sent_again(saving: Any) -> None:
    sent, told = saving("status = 422; later({isLogY: true}); await rest(1500);")
    assert len(sent) == 1
    assert told == [["failed", "too much to keep"]]


def test_what_did_not_arrive_is_not_sent_behind_what_was_changed_since(saving: Any) -> None:
    sent, told = saving("""
        const plain = globalThis.fetch;
        let fail;
        globalThis.fetch = () => new Promise((_, reject) => (fail = reject));
        later({isLogY: true}); await rest(1100);
        globalThis.fetch = plain;
        later({isLogX: true}); await rest(1100);
        fail(new TypeError("no connection")); await rest(0);
        dispatchEvent(new Event('pagehide')); await rest(0);
    """)
    assert [state for _, _, _, state, _ in sent] == [{"isLogX": True}]
    assert told == [["kept", "kept for you"]]
