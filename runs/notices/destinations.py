"""Places outside to which notices are sent: what is accepted as one, and how each gets a notice.

A webhook is a secret: it is kept sealed, and of it only the host is shown. Its address is looked at before it is
connected to, and it is that address that is connected to, whatever the name means by then. No redirect is followed.
"""

import hashlib
import hmac
import ipaddress
import re
import secrets
import smtplib
import socket
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape

import httpx
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email

from runs.models import Notice
from runs.models.notices import OVER, Where
from runs.notices.browser_push import checked_subscription, push_of
from runs.presenting.stamps import stamp
from runs.rights.secrets.sealed import notice_place, open_text
from trainyard.contract.base import JsonObject, encode
from trainyard.formats.addresses import address_problem
from trainyard.formats.names import visible
from trainyard.rest.http_clients import direct_client

TIMEOUT_S, WHOLE_S = 10.0, 30.0  # of one read or write, and of all of an answer's head, which may drip
AGAIN_LATER = (408, 425, 429)
PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"  # of its United States; another is typed before the key
SEVERITIES = ("info", "info", "warning", "error")  # by level
CARD = "application/vnd.microsoft.card.adaptive"
CHATS: dict[str, Callable[[str], JsonObject]] = {  # the body that each service takes
    Where.SLACK: lambda text: {"text": escape(text, quote=False)},
    Where.DISCORD: lambda text: {"content": text[:2000], "allowed_mentions": {"parse": []}, "flags": 4},  # no embeds
    Where.TEAMS: lambda text: {"type": "message", "attachments": [{"contentType": CARD, "content": {
        "type": "AdaptiveCard", "version": "1.4", "body": [{"type": "TextBlock", "text": text, "wrap": True}]}}]},
}  # fmt: skip
OF_MARKDOWN = re.compile(r"[\\\[\]()*_~`>|#]")  # what Discord and Teams would make links and headings of


class NotTaken(Exception):
    """The destination did not take the notice: its words hold no secret. ``is_final``: it is not tried again; ``code``:
    what it answered."""

    def __init__(self, sentence: str, *, is_final: bool = False, code: int = 0) -> None:
        super().__init__(sentence)
        self.is_final, self.code = is_final, code


def checked(where: str, text: str, *, is_person: bool) -> tuple[str, str]:
    """Return what is sealed of a destination, and what is shown of it. Raises ValidationError, without the text."""
    if where == Where.PAGE or (where == Where.EMAIL and is_person):
        return "", ""
    if where == Where.EMAIL:
        validate_email(text)
        return text, text
    key = secrets.token_urlsafe(32)
    if where == Where.PAGERDUTY:
        url, _, key = text.rpartition(" ")
        text = url.strip() or PAGERDUTY
        if not re.fullmatch(r"\w{32}", key, re.ASCII):
            raise ValidationError("It must be a routing key of 32 characters, or a URL, a space and such a key.")
    try:
        if where == Where.BROWSER:
            subscription = checked_subscription(text)
            host = _pinned(subscription.endpoint)[0].host
            return encode(subscription), f"{subscription.name} ({host})"[:255]
        return f"{text}\n{key}", _pinned(text)[0].host
    except NotTaken as error:
        raise ValidationError(str(error)) from None


def text_of(notice: Notice, *others: Notice, said: Callable[[str], str] = str) -> str:
    """Say what, where, since when, how often, and where to look; of several in short. ``said`` takes others' words."""
    if others:
        place = settings.PUBLIC_URL
        some = [
            f"{said(visible(one.what)[:100])}\n{said(one.place[:80])}\n{place}{one.path}" for one in (notice, *others)
        ]
        return "\n\n".join((f"{len(some)} notices", *some))
    more = f"\nThere are {notice.count} with the same cause." if notice.count > 1 else ""
    since = f"{notice.since:%Y-%m-%d %H:%M:%S} UTC"
    return f"{said(notice.what)}\nWhere: {said(notice.place)}\nSince: {since}{more}\n{settings.PUBLIC_URL}{notice.path}"


def unmarked(text: str) -> str:
    """Return the text for those who read Markdown, so that it says what it says."""
    return OF_MARKDOWN.sub(r"\\\g<0>", text)


def document_of(notice: Notice) -> JsonObject:
    """Return the notice for programs. ``id`` is the same however often it is sent."""
    return {
        "id": notice.pk, "kind": notice.kind, "what": notice.what, "where": notice.place, "count": notice.count,
        "since": stamp(notice.since), "url": settings.PUBLIC_URL + notice.path, "run": notice.run_id,
        "level": SEVERITIES[notice.level],
    }  # fmt: skip


def page_of(notice: Notice, routing_key: str) -> JsonObject:
    """Return the event of PagerDuty's Events API v2: those of one cause, and its end, have one ``dedup_key``."""
    cause = notice.cause.removeprefix(OVER)
    event = {"routing_key": routing_key, "dedup_key": hashlib.sha256(cause.encode()).hexdigest()}
    if cause != notice.cause:
        return {**event, "event_action": "resolve"}
    about = {"summary": visible(f"{notice.place}: {notice.what}")[:1024], "source": settings.PUBLIC_URL,
             "severity": SEVERITIES[notice.level], "timestamp": stamp(notice.since), "class": notice.kind,
             "custom_details": document_of(notice)}  # fmt: skip
    client = {"client": "Trainyard", "client_url": settings.PUBLIC_URL + notice.path}
    return {**event, "event_action": "trigger", "payload": about, **client}


def send(some: Sequence[Notice], now: datetime) -> None:
    """Send it once; several, of one rule, together. Raises NotTaken, KeyProblem where the destination does not open."""
    notice, rule = some[0], some[0].rule
    text = open_text(notice_place(rule.pk), rule.locked) if rule.locked else rule.owner.email if rule.owner else ""
    if rule.where == Where.EMAIL:
        return _mail(some, text)
    if rule.where == Where.BROWSER:
        return _post(*push_of(some, text, now))
    url, _, key = text.partition("\n")
    if rule.where == Where.PAGERDUTY:
        return _post(url, encode(page_of(notice, key)), {})
    document = document_of(notice)
    if len(some) > 1:
        digest = {"kind": "digest", "what": f"{len(some)} notices", "notices": [document_of(one) for one in some]}
        document = {"id": notice.pk, **digest}
    said = unmarked if rule.where in (Where.DISCORD, Where.TEAMS) else str
    body = encode(CHATS[rule.where](text_of(*some, said=said)) if rule.where in CHATS else document)
    moment = f"{now.timestamp():.0f}"
    signature = hmac.new(key.encode(), f"{moment}.{body}".encode(), hashlib.sha256).hexdigest()
    signed = {"Trainyard-Timestamp": moment, "Trainyard-Signature": f"sha256={signature}"}
    return _post(url, body, {} if rule.where in CHATS else signed)


def _mail(some: Sequence[Notice], to: str) -> None:
    if not settings.EMAIL_HOST or not to:
        words = "The person has no address of e-mail." if settings.EMAIL_HOST else "The server has no EMAIL_HOST."
        raise NotTaken(words, is_final=True)
    words = f"{some[0].place}: {some[0].what}" if len(some) == 1 else f"{len(some)} notices"
    about = {"Message-ID": f"<notice-{some[0].pk}@{httpx.URL(settings.PUBLIC_URL).host}>"}
    subject = f"Trainyard: {visible(words)[:150]}"
    try:
        EmailMessage(subject, text_of(*some), to=[to], headers=about).send()
    except (OSError, ValueError, smtplib.SMTPException) as error:  # ValueError: an address that no header may hold
        is_final = isinstance(error, ValueError | smtplib.SMTPRecipientsRefused)
        raise NotTaken(f"E-mail does not get away ({type(error).__name__}).", is_final=is_final) from None


def _post(url: str, body: str | bytes, headers: dict[str, str]) -> None:
    wanted, number = _pinned(url)
    headers = {"Host": wanted.netloc.decode(), "Content-Type": "application/json", **headers}
    request = httpx.Request("POST", wanted.copy_with(host=number), headers=headers, content=body)
    request.extensions = {"sni_hostname": wanted.host, "timeout": httpx.Timeout(TIMEOUT_S).as_dict()}
    try:
        with direct_client() as client:
            ending = threading.Timer(WHOLE_S, client.close)
            ending.start()
            try:
                answer = client.send(request, stream=True)  # what it says is not read
                answer.close()
            finally:
                ending.cancel()
    except (httpx.HTTPError, OSError) as error:
        raise NotTaken(f"{wanted.host} does not answer ({type(error).__name__}).") from None
    if (code := answer.status_code) >= 300:
        more = ", and no redirect is followed" if code < 400 else ""
        is_final = code < 500 and code not in AGAIN_LATER
        raise NotTaken(f"{wanted.host} answered {code}{more}.", is_final=is_final, code=code)


def _pinned(url: str) -> tuple[httpx.URL, str]:
    """Return the URL and the address to connect to. Raises NotTaken."""
    try:
        wanted = httpx.URL(url)
    except httpx.InvalidURL:
        wanted = httpx.URL("")
    if wanted.scheme not in ("http", "https") or not wanted.host or wanted.userinfo:
        raise NotTaken("It must be a URL such as https://example.org/hook, without a user name.", is_final=True)
    try:
        found = socket.getaddrinfo(wanted.host, wanted.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotTaken(f"There is no host {visible(wanted.host)}, as seen from the server.") from None
    addresses = [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
    for address in addresses:
        if problem := address_problem(address, "notices are sent", "the server", "NOTICE_HOSTS"):
            raise NotTaken(f"{visible(wanted.host)} {problem}.", is_final=True)
    if wanted.scheme == "http" and any(one.is_global for one in addresses):
        raise NotTaken("It would be sent without encryption over the internet: write https://.", is_final=True)
    return wanted, str(addresses[0])
