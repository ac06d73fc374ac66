"""A kind of media is described once: contract, SDK, server and page know the same ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from runs.records.media.kinds import ALL_OF, ANY_OF, KINDS, ONE_OF
from trainyard.contract.records import META, MediaKind
from trainyard.formats import media

CARD = Path(__file__).parents[4] / "static" / "js" / "media" / "cards" / "card.js"


def test_contract_sdk_server_and_page_know_the_same_kinds() -> None:
    [table] = re.findall(r"const VIEWS = \{(.*?)\}", CARD.read_text(), re.DOTALL)
    in_page = set(re.findall(r"(\w+): \w+View", table))
    classes = [one for one in vars(media).values() if isinstance(one, type) and issubclass(one, media.Media)]
    in_sdk = {one.kind for one in classes if hasattr(one, "kind")}
    assert KINDS.keys() == META.keys() == set(get_args(MediaKind)) == in_sdk == in_page


def test_sentences_about_media_name_each_kind() -> None:
    assert ALL_OF == "images, texts, tables, histograms, sounds and videos"
    assert ANY_OF == "images, texts, tables, histograms, sounds or videos"
    assert ONE_OF == "image, text, table, histogram, sound or video"
