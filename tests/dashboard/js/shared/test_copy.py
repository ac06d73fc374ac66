"""Texts that are copied, and what a browser says that does not let the page copy."""

from __future__ import annotations

from tests.dashboard.js.conftest import Ask

COPY = """async ({copyText}, isAllowed) => {
    const place = document.getElementById("place");
    const line = "<div><p></p><button></button><button></button></div>";
    place.innerHTML = `<template id=toast-template>${line}</template><i></i>`;
    const toasts = await import("http://modules.invalid/frame/toasts.js");
    const end = toasts.mount(place.querySelector("i"));
    const copied = [];
    const writeText = async (text) => {
        if (!isAllowed) throw new DOMException("no", "NotAllowedError");
        copied.push(text);
    };
    Object.defineProperty(navigator, "clipboard", { value: { writeText }, configurable: true });
    await copyText("loss", "Copied a line.");
    await copyText("loss", "Copied a link.", "take the address");
    end();
    return [copied, [...place.querySelectorAll("p")].map((one) => one.textContent)];
}"""


def test_what_was_copied_is_said(ask_page: Ask) -> None:
    assert ask_page("shared/copy.js", COPY, True) == [["loss", "loss"], ["Copied a line.", "Copied a link."]]


def test_where_nothing_may_be_copied_it_says_what_to_do_instead(ask_page: Ask) -> None:
    refused = "This browser does not let the page copy; {}."
    said = [refused.format("select the text instead"), refused.format("take the address")]
    assert ask_page("shared/copy.js", COPY, False) == [[], said]
