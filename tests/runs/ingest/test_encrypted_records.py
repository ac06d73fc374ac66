"""Lines and media of a project that encrypts: hidden in every row, and everywhere else as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from runs.ingest.commit import Committed, Source, commit
from runs.ingest.validation.records import incoming
from runs.models import Run
from runs.records.logs.compaction import fold_lines
from runs.records.media.store import HIDDEN
from runs.records.metrics.encrypted import MAGIC
from runs.records.metrics.models import DeadLetter, LogChunk, Media, Producer, Telemetry
from runs.rights.secrets import storage_keys, store
from runs.rights.secrets.key_stores import FileKeys, KeyProblem
from runs.values.status import Status
from tests.cast import Cast, make_run
from tests.media import PIXEL, histogram, image, table, text
from tests.runs.api.conftest import Api
from tests.spools import Spool

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.usefixtures("valkey")]
GONE = "This cannot be read any more: version 1 of its project's storage key was destroyed."


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, settings: Any) -> FileKeys:
    settings.HOME = tmp_path
    return FileKeys(tmp_path / "secrets.key")


@pytest.fixture
def run(cast: Cast) -> Run:
    return make_run(cast)


def switch(cast: Cast, *, encrypts: bool = True, **body: Any) -> None:
    assert Api(cast.owner)("PUT", "/projects/default/encryption", {"encrypts": encrypts, **body}).status_code == 200


def log(run: Run, *words: str, media: tuple[dict[str, Any], ...] = ()) -> Committed:
    spool = Spool()
    spool.begin()
    spool.logs([(float(number), word) for number, word in enumerate(words, 1)])
    for payload in media:
        spool.put("media", payload)
    return commit(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(spool.bytes))


def stored() -> bytes:
    """Return all that the rows hold of lines and media, as one."""
    rows = [bytes(row.columns) + bytes(row.text) for row in LogChunk.objects.all()]
    rows += [json.dumps(row.meta).encode() + bytes(row.data) for row in Media.objects.all()]
    return b"".join([*rows, *(bytes(row.data) for row in DeadLetter.objects.all())])


def shown(cast: Cast, run: Run, path: str) -> Any:
    answer = Api(cast.mate)("GET", f"/runs/{run.pk}/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def texts(cast: Cast, run: Run) -> list[str]:
    return [line["text"] for line in shown(cast, run, "logs?limit=100")["items"]]


def test_lines_and_media_are_hidden_in_their_rows_and_read_as_they_were(cast: Cast, run: Run) -> None:
    log(run, "from before", media=(text(0, said="older words"),))
    switch(cast)
    items = (image(1, name="samples"), text(2, said="secret words"), table(3), histogram(4))
    log(run, "a hidden line", "ERROR another", media=items)
    assert all(row.meta.keys() == {HIDDEN} and bytes(row.data)[:8] == MAGIC for row in Media.objects.exclude(step=0))
    found = stored()
    assert not any(word in found for word in (b"hidden line", b"a cat", b"secret words", PIXEL, b"confusion"))
    assert sorted(texts(cast, run)) == ["ERROR another", "a hidden line", "from before"]
    window = shown(cast, run, "logs/window?start=0&limit=10")
    assert [item["text"] for item in window["items"] if item["level"] == "error"] == ["ERROR another"]
    (line,) = [item["id"] for item in window["items"] if item["text"] == "a hidden line"]
    assert shown(cast, run, f"logs/line?id={line}")["text"] == "a hidden line"
    hits = shown(cast, run, "logs/search?q=HIDDEN")["items"]
    assert [hit["text"] for hit in hits] == ["a hidden line"]
    (step,) = shown(cast, run, "media/steps?name=samples")["items"]
    assert step["meta"]["caption"] == "a cat"
    file = Api(cast.mate)("GET", f"/runs/{run.pk}/media/{step['id']}/file")
    assert file.content == PIXEL and file["Cache-Control"] == "private, no-store", "no browser has it on a disk"
    assert [one["text"] for one in of_kind(cast, run, "story")] == ["older words", "secret words"]
    assert of_kind(cast, run, "confusion")[0]["table"] == {"columns": ["a", "b"], "rows": [[1, "x"], [None, 0.5]]}
    assert shown(cast, run, "media/histograms?name=weights")["edges"]


def of_kind(cast: Cast, run: Run, name: str) -> list[Any]:
    items = shown(cast, run, f"media/steps?name={name}")["items"]
    return [shown(cast, run, f"media/{item['id']}") for item in items]


def test_new_keys_write_older_ones_read_and_compaction_hides_what_it_puts_together(cast: Cast, run: Run) -> None:
    log(run, "plain")
    switch(cast)
    log(run, "first key")
    switch(cast, new_key=True)
    log(run, "second key")
    store.rotate_key()
    assert sorted(texts(cast, run)) == ["first key", "plain", "second key"]
    switch(cast, encrypts=False)
    bound = Telemetry.objects.get(pk=run.pk).cursor
    assert fold_lines(run.pk, bound, is_quiet=True) and not fold_lines(run.pk, bound, is_quiet=True)
    (chunk,) = LogChunk.objects.all()
    assert bytes(chunk.text)[:8] == MAGIC and bytes(chunk.text)[8:12] == (2).to_bytes(4, "little")
    log(run, "plain again")
    assert sorted(texts(cast, run)) == ["first key", "plain", "plain again", "second key"]


def test_without_the_key_each_line_and_item_says_so_and_nothing_breaks(cast: Cast, run: Run) -> None:
    log(run, "plain")
    switch(cast)
    log(run, "one", "two", media=(image(1), text(2), histogram(3)))
    Run.objects.update(status=Status.SUCCEEDED)
    body = {"confirm": cast.project.name}
    assert Api(cast.owner)("POST", "/projects/default/encryption/destroy", body).status_code == 200
    log(run, "later")
    assert sorted(texts(cast, run)) == sorted([GONE, GONE, "later", "plain"])
    assert shown(cast, run, "logs/search?q=destroyed")["items"] == []
    assert [hit["text"] for hit in shown(cast, run, "logs/search?q=later")["items"]] == ["later"]
    bound = Telemetry.objects.get(pk=run.pk).cursor
    assert not fold_lines(run.pk, bound, is_quiet=True) and LogChunk.objects.count() == 3
    (step,) = shown(cast, run, "media/steps?name=samples")["items"]
    assert step["meta"] == {"unreadable": GONE, "caption": GONE}
    (told,) = shown(cast, run, "media/steps?name=story")["items"]
    for path in (f"media/{step['id']}/file", f"media/{told['id']}", "media/histograms?name=weights"):
        answer = Api(cast.mate)("GET", f"/runs/{run.pk}/{path}")
        assert (answer.status_code, answer.json()["detail"]) == (410, GONE), path
    browser = Client()
    browser.force_login(cast.mate)
    for page in ("run", "run-media", "run-logs", "run-files"):
        answer = browser.get(reverse(page, args=[run.pk]))
        is_said = GONE.replace("'", "&#x27;") in answer.content.decode()
        assert (answer.status_code, is_said) == (200, page == "run-media")


def test_a_piece_of_another_run_or_place_does_not_open(cast: Cast, run: Run) -> None:
    switch(cast)
    other = make_run(cast)
    log(run, "mine", media=(text(1, said="mine"),))
    log(other, "theirs", media=(text(1, said="theirs"),))
    ours, theirs = LogChunk.objects.get(run_id=run.pk), LogChunk.objects.get(run_id=other.pk)
    LogChunk.objects.filter(pk=ours.pk).update(text=theirs.text)
    Media.objects.filter(run_id=run.pk).update(data=Media.objects.get(run_id=other.pk).data)
    assert texts(cast, run) == ["What is stored here does not open: it was changed, or belongs to another place."]
    answer = Api(cast.mate)("GET", f"/runs/{run.pk}/media/{Media.objects.get(run_id=run.pk).pk}")
    assert answer.status_code == 410
    LogChunk.objects.filter(pk=ours.pk).update(text=MAGIC)
    assert texts(cast, run) == ["What is stored here was cut off."]


def test_where_no_key_can_be_had_nothing_is_stored_in_the_clear_and_the_frames_come_again(
    cast: Cast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(cast)

    class Away:
        def unwrap(self, *_: str) -> bytes:
            raise KeyProblem("The key service cannot be reached: it is away.")

    storage_keys._unwrapped.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(storage_keys, "key_store", Away)
        (producer,) = (refused := log(run, "a line")).watermarks
        assert refused.watermarks[producer] == 0 and not LogChunk.objects.exists()
        assert Producer.objects.get(producer=producer).has_gap
        assert not DeadLetter.objects.exists()
    (producer,) = log(run, "a line").watermarks
    assert not Producer.objects.get(producer=producer).has_gap
    storage_keys._unwrapped.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(storage_keys, "key_store", Away)
        assert texts(cast, run)[0].startswith("This is encrypted, and its key cannot be had now: The key service")
    assert texts(cast, run) == ["a line"]


def test_dead_letters_of_a_project_that_encrypts_keep_no_content(cast: Cast, run: Run) -> None:
    switch(cast)
    log(run, "x", media=({**text(1, said="secret words"), "kind": "nonsense"},))
    assert DeadLetter.objects.count() == 1 and b"secret words" not in stored()
