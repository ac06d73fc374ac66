"""What a browser says when something is wrong, collected while a test drives it."""

from __future__ import annotations

from playwright.sync_api import ConsoleMessage, Page, Request, Response

# A page that is left takes its requests and its socket along; nothing is wrong with that.
LEFT = ("net::ERR_ABORTED", "WebSocket is closed before the connection is established")
# Whatever drives the browser runs its own script in each frame, and the frame of a logged page runs none.
REFUSED = ("Blocked script execution in 'about:srcdoc'",)


class Watch:
    """Problems of one page: console errors and warnings (violations of the policy are such), exceptions, requests."""

    def __init__(self, page: Page) -> None:
        self.problems: list[str] = []
        self.visits: list[str] = []  # every address that the page was led to
        # By the page itself, not for its styles and scripts: what was answered, and what was not; once what came again.
        self.asked: dict[str, int] = {}
        self._expected: list[str] = []
        page.on("request", lambda request: self._note("asked", request))
        page.on("requestfinished", lambda request: self._note("done", request))
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        page.on("requestfailed", self._on_failure)
        page.on("response", self._on_response)
        page.on("framenavigated", lambda frame: self.visits.append(frame.url))

    def expect(self, *texts: str) -> None:
        """Let problems pass that have one of the texts in them: the test provokes them."""
        self._expected += texts

    def last_words(self) -> str:
        """What was asked for last, for whoever looks why a page did not come."""
        asked = [f"{words} ({count})" for words, count in self.asked.items()]
        return "\n".join(("asked of the server last:", *asked[-20:], "problems:", *self.problems[-10:]))

    def unexpected(self) -> list[str]:
        return [one for one in self.problems if not any(text in one for text in (*LEFT, *REFUSED, *self._expected))]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text} ({message.location['url']})")

    def _note(self, word: str, request: Request) -> None:
        if request.resource_type in ("document", "fetch", "xhr"):
            words = f"{word} {request.method} {request.url}"
            self.asked[words] = self.asked.pop(words, 0) + 1  # at the end

    def _on_failure(self, request: Request) -> None:
        self._note("failed", request)
        self.problems.append(f"{request.method} {request.url}: {request.failure}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.append(f"{response.request.method} {response.url}: {response.status}")


# Pages that move while they load.

GOOD = 0.1  # https://web.dev/articles/cls calls this good
# What moved without a key or a click just before, as a share of the window times a share of its longer side.
WATCH = """
window.shifts = [];
new PerformanceObserver((list) => {
    for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifts.push([one.value, named(one)]);
}).observe({ type: "layout-shift", buffered: true });
function named(one) {
    return one.sources.map(({ node }) => node?.outerHTML?.slice(0, 80) ?? node?.textContent?.slice(0, 80));
}
"""


def moved(page: Page) -> list[tuple[float, list[str]]]:
    """What moved on the page that was opened with WATCH, once nothing more comes: shares, and what it was."""
    page.wait_for_load_state("networkidle")
    shifts: list[tuple[float, list[str]]] = page.evaluate("window.shifts")
    return shifts
