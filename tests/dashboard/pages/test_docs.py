"""The documentation: each page of the index answers, all links among pages resolve, and nothing else is served."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.pages.docs import FOLDER, listed, search
from runs.models import User
from tests.cast import Cast

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.usefixtures("valkey")]
AsUser = Callable[[User], Client]


@pytest.fixture
def client(as_user: AsUser, cast: Cast) -> Client:
    return as_user(cast.viewer)


def test_the_index_lists_each_page_once() -> None:
    names = [one["name"] for _, pages in listed() for one in pages]
    files = {path.relative_to(FOLDER).as_posix() for path in Path(FOLDER).rglob("*.md")} - {"index.md"}
    assert sorted(names) == sorted(files)
    assert [heading for heading, _ in listed()] == ["Tutorials", "How-to guides", "Reference", "Explanation"]


def test_each_page_answers_and_each_link_among_them_leads_somewhere(client: Client) -> None:
    found: dict[str, set[str]] = {}
    links: list[tuple[str, str]] = []
    for url in [reverse("docs"), *(one["url"] for _, pages in listed() for one in pages)]:
        answer = client.get(url)
        assert answer.status_code == 200, url
        text = answer.content.decode().partition('<article class="docs-text">')[2].partition("</article>")[0]
        assert re.search(r"<h1 id=", text), url
        assert " style=" not in text, url
        found[url] = set(re.findall(r' id="([^"]+)"', text))
        links += [(url, urljoin(url, link)) for link in re.findall(r'(?:href|src)="([^"]+)"', text)]
    wrong = []
    for url, link in links:
        target, anchor = urldefrag(link)
        if not link.startswith("/docs/"):
            assert link.startswith(("https://", "http://")), (url, link)
        elif target not in found:
            found[target] = set() if client.get(target).status_code == 200 else {"(missing)"}
        if link.startswith("/docs/") and ("(missing)" in found[target] or (anchor and anchor not in found[target])):
            wrong.append((url, link))
    assert not wrong


def test_pages_are_served_as_markdown_and_other_files_as_text(client: Client) -> None:
    page = client.get("/docs/spec.md")
    assert page.content == (FOLDER / "spec.md").read_bytes() and page["Content-Type"].startswith("text/markdown")
    assert client.get("/docs/deploy/nginx.conf")["Content-Type"].startswith("text/plain")
    assert client.get("/docs/screenshots/job-1440-light.jpg")["Content-Type"] == "image/jpeg"


def test_programs_read_the_list_of_pages(client: Client) -> None:
    lines = client.get("/docs/llms.txt").content.decode().splitlines()
    assert lines[0].startswith("# ") and lines[2].startswith("> ")
    [spec] = re.findall(r"- \[The spec: what a run is\]\(http://testserver(\S+)\): ", "\n".join(lines))
    assert spec == "/docs/spec.md" and client.get(spec).status_code == 200


@pytest.mark.parametrize(
    "name",
    ["nothing", "nothing.md", "../setup.py", "..%2Fsetup.py", "/etc/passwd.md", "decisions/", ".env", "a%00b.md",
     "deploy/../../setup.py", "spec.md/", "%2e%2e/setup.py", "deploy\\nginx.conf"],
)  # fmt: skip
def test_nothing_outside_of_the_folder_is_served(client: Client, name: str) -> None:
    assert client.get(f"/docs/{name}").status_code == 404


def test_a_link_in_the_folder_leads_out_of_it_to_nobody(client: Client, monkeypatch: pytest.MonkeyPatch,
                                                        tmp_path: Path) -> None:  # fmt: skip
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret.md").write_text("# Secret")
    (tmp_path / "docs" / "out.md").symlink_to(tmp_path / "secret.md")
    monkeypatch.setattr("dashboard.pages.docs.FOLDER", tmp_path / "docs")
    assert client.get("/docs/out.md").status_code == 404


def test_the_documentation_asks_for_a_sign_in() -> None:
    assert Client().get("/docs/spec/").status_code == 302
    assert Client().get("/docs/spec.md").status_code == 302


def test_the_palette_finds_pages_of_the_documentation(client: Client) -> None:
    items = client.get("/jump/", {"q": "docs recovery"}).json()["items"]
    assert {
        "label": "Docs: Recovery: a run that carries on by itself",
        "kind": "page",
        "url": "/docs/recovery/",
    } in items


def test_the_palette_finds_what_is_said_in_a_section(client: Client) -> None:
    items = client.get("/jump/", {"q": "docs NOTICE_HOSTS"}).json()["items"]
    assert any("/docs/notices/#" in one["url"] for one in items), items


def test_a_search_leads_to_sections_with_all_of_the_words(client: Client) -> None:
    page = client.get("/docs/", {"q": "notice_hosts addresses"}).content.decode()
    found = re.findall(r'<h2><a href="([^"]+)">', page)
    assert found and "<mark>NOTICE_HOSTS</mark>" in page
    for url in found:
        path, anchor = urldefrag(url)
        whole = client.get(path).content.decode()
        assert "NOTICE_HOSTS" in whole and (not anchor or f'id="{anchor}"' in whole)


def test_sections_that_have_the_words_in_their_titles_come_first() -> None:
    titles = [one.title for one, _ in search("quiet hours")]
    has_both = ["quiet hours" in title.lower() for title in titles]
    assert has_both[0] and has_both == sorted(has_both, reverse=True)


def test_what_is_nowhere_is_said_and_words_are_no_markup(client: Client) -> None:
    page = client.get("/docs/", {"q": "<b>zyzzyva (["}).content.decode()
    assert "No section has all of these words" in page and "<b>zyzzyva" not in page


def test_the_text_of_a_section_has_its_words_apart_and_not_its_title() -> None:
    [text] = [
        one.text for one, _ in search("notices follow mute") if one.title == "Notices · Runs that you follow or mute"
    ]
    assert text.startswith("The menu of a run") and "at each of their own places" in text
    assert not any("`" in one.title for one, _ in search("follow"))
