"""What we answer ourselves in the origin of an app: a page without scripts for people, a line of text for programs."""

from __future__ import annotations

from html import escape

from dashboard.http.asgi import Send
from dashboard.proxy.headers import Headers

STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;margin:0;display:grid;min-height:100vh;place-items:center;"
    "background:light-dark(#f6f8fb,#151f2c);color:light-dark(#182433,#dce1e7)}"
    "main{max-width:34rem;margin:1rem;padding:1.5rem 2rem;border-radius:8px;"
    "border:1px solid light-dark(#dce1e7,#25384f);background:light-dark(#fff,#182433)}"
    "h1{font-size:1.15rem;margin:0 0 .5rem}p{margin:.5rem 0;overflow-wrap:anywhere}"
    "a{color:light-dark(#066fd1,#6ea8fe)}"
)
HEADERS: Headers = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
TITLES = {
    401: "Open it from the run's page",
    403: "You may not open this",
    404: "Not found",
    409: "Nothing to open now",
    413: "Too large",
    429: "Too many requests",
    502: "The app does not answer",
    503: "Try again soon",
    504: "The app does not answer",
}


async def send_notice(
    send: Send, status: int, sentence: str, *, is_page: bool, run_url: str = "", again_s: int = 0
) -> None:
    """Answer a request; with ``again_s`` a page loads itself again after so many seconds."""
    title = TITLES.get(status, "Not accepted")
    kind, body = (b"text/plain; charset=utf-8", sentence + "\n")
    if is_page:
        kind = b"text/html; charset=utf-8"
        link = f'<p><a href="{escape(run_url)}">To the run</a></p>' if run_url else ""
        again = f'<meta http-equiv="refresh" content="{again_s}">' if again_s else ""
        body = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8">{again}<title>{escape(title)} · Trainyard'
            f'</title><meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body><main>'
            f"<h1>{escape(title)}</h1><p>{escape(sentence)}</p>{link}</main></body></html>"
        )
    content = body.encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(content)).encode()), *HEADERS]
    if status in (429, 503):
        headers.append((b"retry-after", b"5"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
