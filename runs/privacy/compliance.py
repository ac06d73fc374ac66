"""Controls that compliance asks for, each measured when it is asked: nothing here is declared. See docs/compliance.md.

Control measures them once a day. A row of the audit keeps the states and when each was green last; a control that was
green and is red now is another row, and a banner for administrators.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog
from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.core.cache import cache
from django.db.models import F
from django.utils.crypto import salted_hmac

from runs.models import AuditEntry, ErasedPerson, Project, RemovedData, Run, StoredData, Token, User
from runs.models.privacy.people import pseudonym_of
from runs.privacy import tombstones
from runs.privacy.retention import due
from runs.privacy.storage import REMOVABLE, DataKind, days_kept, of_runs
from runs.records.files import outputs
from runs.records.files.encrypted import is_encrypted
from runs.rights.audit import chain
from runs.rights.audit.acts import Act
from runs.rights.audit.facts import as_time, canonical
from runs.rights.audit.pseudonyms import HIDDEN, erased_people
from runs.rights.audit.recording import OK, record
from runs.rights.audit.unusual import Entry, Finding, unusual
from runs.rights.secrets.key_stores import KeyProblem, LocalKeys
from runs.rights.secrets.keys import key_store
from runs.values.status import FINAL
from trainyard.contract.answers.audit import Compliance, Control
from trainyard.contract.base import JsonObject
from trainyard.formats.words import listed
from trainyard.grouping import grouped

log = structlog.get_logger(__name__)

GREEN, RED, GREY = "green", "red", "grey"  # grey: there is nothing to measure
EVERY = timedelta(hours=23, minutes=30)  # who asks comes once an hour
ACTOR, MEASURED, TURNED_RED = "control", "compliance.measured", "compliance.red"
LATE = timedelta(days=1)  # retention comes once an hour, and takes some runs at a time
MONTH = timedelta(days=30)  # GDPR Art. 12(3)
LATELY = timedelta(days=7)  # for which an unusual access keeps its control red
NUM_RUNS, NUM_REMOVED, NUM_NAMED = 20, 500, 5  # that are looked at, of a project and of all; and named
AT_ONCE = 2_000
KNOWN_FOR_S, KNOWN = 60, "compliance-red"


class Measured(NamedTuple):
    state: str
    sentence: str
    facts: Sequence[str] = ()


def encryption(now: datetime) -> Measured:
    """Projects that have runs encrypt their files, the newest output files are encrypted, and the key opens."""
    try:
        store = key_store()
        key_id, wrapped = store.wrap(bytes(32), "compliance")
        store.unwrap(key_id, wrapped, "compliance")  # it is authenticated: another key raises
    except KeyProblem as problem:
        return Measured(RED, f"The key of secrets does not work: {problem}")
    where = "on this server (no key management service)" if isinstance(store, LocalKeys) else "on a KMS"
    projects = list(Project.objects.filter(runs__isnull=False).distinct())
    plain = [one.name for one in projects if not one.encrypts_files]
    runs = [run for one in projects if one.encrypts_files for run in _newest_runs(one)]
    bare = [run.name for run in runs if _has_plain_files(run.pk)]
    facts = [f"The key of secrets is {where}. It wraps and opens."]
    facts += [f"Not encrypted: checkpoints and output files of {listed(plain, at_most=NUM_NAMED)}."] if plain else []
    facts += [f"Output files as they were written: of {listed(bare, at_most=NUM_NAMED)}."] if bare else []
    facts.append(f"Output files of {len(runs)} runs were looked at. Checkpoints lie on nodes and were not.")
    encrypted = f"{len(projects) - len(plain)} of {len(projects)} projects with runs encrypt their files."
    return Measured(RED if plain or bare else GREEN if projects else GREY, encrypted, facts)


def _newest_runs(project: Project) -> list[Run]:
    ended = Run.objects.filter(project=project, status__in=list(FINAL))
    return list(ended.only("pk", "name").order_by("-ended_at")[:NUM_RUNS])


def _has_plain_files(run_id: str) -> bool:
    paths = (outputs.find(run_id, one["path"]) for one in outputs.listing(run_id))
    return any(path is not None and not is_encrypted(path) for path in paths)


def retention(now: datetime) -> Measured:
    """Nothing is there that is older than its project's rule, and of what was removed nothing is left."""
    rules = [
        (project, kind, days)
        for project in Project.objects.all()
        for kind in REMOVABLE
        if (days := days_kept(project, kind)) is not None
    ]
    audit_days = settings.AUDIT_KEEP_DAYS
    if not rules and not audit_days:
        return Measured(GREY, "No project has a rule, and the audit is kept for ever.")
    found = []
    for project, kind, days in rules:
        if number := due(project, kind, days, now - LATE).count():
            found.append(f"{project.name}: {kind} of {number} runs are older than {days} days.")
    removed = RemovedData.objects.filter(run__status__in=list(FINAL), at__gte=F("run__ended_at")).order_by("-at")
    for kind, runs in grouped(removed.values_list("kind", "run")[:NUM_REMOVED]).items():
        if number := of_runs(DataKind(kind), runs).number:
            found.append(f"{number} rows or files of {kind} are left that were removed.")
    if audit_days and AuditEntry.objects.filter(at__lt=now - timedelta(days=audit_days) - LATE).exists():
        found.append(f"Rows of the audit are older than {audit_days} days.")
    num_projects = len({project.pk for project, _, _ in rules})
    kept = f"{audit_days} days" if audit_days else "for ever"
    words = f"{len(rules)} rules of {num_projects} projects; the audit is kept {kept}."
    return Measured(RED if found else GREEN, words, found)


def residency(now: datetime) -> Measured:
    """Nothing of a project with regions lies outside of them, as it was measured within a day."""
    pinned = list(Project.objects.exclude(regions=""))
    if not pinned:
        return Measured(GREY, "No project is pinned to regions.")
    found = []
    for project in pinned:
        rows = list(StoredData.objects.filter(project=project))
        found += [
            f"{project.name}: {row.kind} at {row.place}, {row.region or 'region not known'}."
            for row in rows
            if not project.may_lie_in(row.region)
        ]
        if project.runs.exists() and not any(row.measured_at >= now - LATE for row in rows):
            found.append(f"{project.name}: it was not measured within a day.")
    words = f"{len(pinned)} projects are pinned to regions."
    return Measured(RED if found else GREEN, words, found)


def second_factor(now: datetime) -> Measured:
    """Everybody who administers has a second factor here."""
    people = User.objects.filter(is_superuser=True, is_active=True, service_of=None).order_by("username")
    having = set(Authenticator.objects.filter(user__in=people).values_list("user_id", flat=True))
    missing = [user.username for user in people if user.pk not in having]
    words = f"{len(people) - len(missing)} of {len(people)} administrators have a second factor."
    facts = [f"None: {listed(missing, at_most=NUM_NAMED)}."] if missing else []
    return Measured(RED if missing else GREEN, words, facts)


def erasures(now: datetime) -> Measured:
    """Nobody who is on the list of erasures is here after a month."""
    try:
        known = {row.number: row for row in tombstones.read_list(tombstones.list_path())}
    except (tombstones.BadList, OSError) as error:
        return Measured(RED, f"The list of erasures cannot be read: {error}")
    known |= {row.number: row for row in ErasedPerson.objects.all()}
    if not known:
        return Measured(GREEN, "Nobody asked to be erased.")
    here = [user.pk for user in User.objects.filter(pk__in=known) if tombstones.digest_of(user) == known[user.pk].digest]
    late = [number for number in here if known[number].at < now - MONTH]
    acts = AuditEntry.objects.filter(action="person.erase", result=OK, object__in=[f"user {one}" for one in known])
    done = {int(name.split()[1]): at for name, at in acts.order_by("sequence").values_list("object", "at")}
    took = [(at - known[number].at).total_seconds() for number, at in done.items() if number not in here]
    facts = [f"The longest took {max(took):,.1f} s." if took else "How long they took is not in the audit."]
    facts.append(f"{len(late)} are open for more than {MONTH.days} days.")
    return Measured(RED if late else GREEN, f"{len(known)} asked, {len(known) - len(here)} done.", facts)


def restore_drill(now: datetime) -> Measured:
    return Measured(
        GREY, "Not measured: Trainyard does not restore backups by itself. Restore one into an empty home to try it."
    )


def audit_chain(now: datetime) -> Measured:
    found = chain.verify()
    if found.fault is not None:
        return Measured(RED, found.fault.sentence)
    return Measured(GREEN, f"{found.num_rows} rows are as they were written.", [f"The last hash is {found.head}."])


def unusual_access(now: datetime) -> Measured:
    """No access was unusual in the last week, by the rules of runs.rights.audit.unusual."""
    revoked = dict(Token.objects.exclude(revoked_at=None).values_list("pk", "revoked_at"))
    rows = AuditEntry.objects.order_by("sequence").values_list(*Entry._fields)
    found = unusual((Entry(*row) for row in rows.iterator(chunk_size=AT_ONCE)), revoked)
    lately = [one for one in found if one.row.at >= now - LATELY]
    words = f"{len(lately)} in the last {LATELY.days} days, {len(found)} in the whole audit."
    month = [one for one in reversed(found) if one.row.at >= now - MONTH]
    return Measured(RED if lately else GREEN, words, [_named(one) for one in month[:AT_ONCE]])


def _named(found: Finding) -> str:
    """Say what is unusual. Of who was erased there are no name and no address."""
    row, words = found.row, found.sentence
    who = row.actor or "nobody signed in"
    where = row.address
    if row.actor_number in erased_people().numbers:
        who, where = pseudonym_of(row.actor_number or 0), HIDDEN
        words = words if found.kind != "new-network" else "It is the first act from a network."
    return f"{row.at:%Y-%m-%d %H:%M} UTC, row {row.sequence}, {who} from {where or 'no address'}: {words}"


CONTROLS: dict[str, Callable[[datetime], Measured]] = {
    "Encryption at rest": encryption, "Retention": retention, "Residency": residency,
    "Second factor of administrators": second_factor, "Erasures": erasures, "Restore drill": restore_drill,
    "Audit chain": audit_chain, "Unusual access": unusual_access,
}  # fmt: skip


def report(now: datetime) -> Compliance:
    """Measure all controls now, and return them with a signature."""
    content = {"site": settings.PUBLIC_URL, "measured_at": as_time(now), "controls": measure(now)}
    key = _signing_key()
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    value = key.sign(canonical(content).encode()).hex()
    return Compliance(**content, signature={"algorithm": "Ed25519", "public_key": public, "value": value})


def measure(now: datetime) -> list[Control]:
    known, found = _states(), []
    for title, look in CONTROLS.items():
        state, sentence, facts = look(now)
        green_at = as_time(now) if state == GREEN else known.get(title, {}).get("green_at")
        found.append(Control(title=title, state=state, sentence=sentence, facts=list(facts), last_green_at=green_at))
    return found


def tend(now: datetime) -> None:
    """Measure once a day, keep the states, and record which control is red that was not."""
    last = _last()
    if last is not None and last.at > now - EVERY:
        return
    before = _states()
    after = {one["title"]: {"state": one["state"], "green_at": one["last_green_at"]} for one in measure(now)}
    for title, one in after.items():
        if one["state"] == RED and before.get(title, {}).get("state", RED) != RED:
            log.warning("compliance.red", control=title)
            record(Act(actor=ACTOR, action=TURNED_RED, object=title, result="failed: it is red"))
    record(Act(actor=ACTOR, action=MEASURED, object="controls", after=after, result=OK))
    cache.delete(KNOWN)


def alarms() -> list[str]:
    """Return the titles of controls that were green once and are red as they were measured last: for a banner."""
    found: list[str] | None = cache.get(KNOWN)
    if found is None:
        found = [title for title, one in _states().items() if one["state"] == RED and one["green_at"]]
        cache.set(KNOWN, found, KNOWN_FOR_S)
    return found


def _last() -> AuditEntry | None:
    return AuditEntry.objects.filter(actor=ACTOR, actor_number=None, action=MEASURED).first()


def _states() -> JsonObject:
    """Return the state of each control as it was measured last, and when it was green."""
    row = _last()
    return (row.values_after if row else None) or {}


def _signing_key() -> Ed25519PrivateKey:
    """Made of the server's secret: whoever has the public key checks reports without it."""
    return Ed25519PrivateKey.from_private_bytes(
        salted_hmac("runs.privacy.compliance", "report", secret=settings.SECRET_KEY, algorithm="sha256").digest()
    )
