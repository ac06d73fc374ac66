"""Controls that compliance asks for, each measured when it is asked: nothing here is declared. See docs/compliance.md.

Control measures them once a day. A row of the audit keeps the states and when each was green last; a control that turns
red is another row, and a banner for administrators.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.db.models import F
from django.utils.crypto import salted_hmac

from runs.models import AuditEntry, ErasedPerson, Project, RemovedData, Run, StoredData, Token, User
from runs.models.privacy import pseudonym_of
from runs.privacy import erasure
from runs.privacy.retention import due
from runs.privacy.storage import REMOVABLE, DataKind, days_kept, of_runs
from runs.records.files.encrypted import PREFIX
from runs.records.files.paths import output_folder
from runs.rights.audit import chain
from runs.rights.audit.facts import Act, as_time, canonical
from runs.rights.audit.pseudonyms import erased_people
from runs.rights.audit.recording import OK, record
from runs.rights.audit.unusual import unusual
from runs.rights.secrets.key_stores import KeyProblem, LocalKeys
from runs.rights.secrets.keys import key_store
from runs.values.status import FINAL
from trainyard.contract.answers.people import Compliance, Control
from trainyard.contract.base import JsonObject
from trainyard.formats.words import listed
from trainyard.grouping import grouped

GREEN, RED, GREY = "green", "red", "grey"  # grey: there is nothing to measure
EVERY = timedelta(hours=23, minutes=30)  # who asks comes once an hour
ACTOR, MEASURED, TURNED_RED = "control", "compliance.measured", "compliance.red"
DAY, WEEK, MONTH = timedelta(days=1), timedelta(days=7), timedelta(days=30)
NUM_RUNS, NUM_REMOVED, NUM_NAMED, NUM_FOUND = 20, 500, 5, 1_000  # runs of a project, removals; names, findings
NO_DRILL = "Not measured: Trainyard restores no backup by itself. Restore one into an empty home to try it."


class Measured(NamedTuple):
    state: str
    sentence: str
    facts: Sequence[str] = ()


def encryption(now: datetime) -> Measured:
    """The key of secrets works, projects with runs encrypt their files, and the newest output files are encrypted."""
    try:
        store = key_store()
        store.unwrap(*store.wrap(bytes(32), "compliance"), "compliance")  # authenticated: another key raises
    except KeyProblem as problem:
        return Measured(RED, f"The key of secrets does not work: {problem}")
    where = "on this server, in no key management service" if isinstance(store, LocalKeys) else "in a KMS"
    projects = list(Project.objects.filter(runs__isnull=False).distinct())
    plain = [one.name for one in projects if not one.encrypts_files]
    ended = Run.objects.filter(status__in=list(FINAL)).only("pk", "name").order_by("-ended_at")
    runs = [run for one in projects if one.encrypts_files for run in ended.filter(project=one)[:NUM_RUNS]]
    bare = [run.name for run in runs if any(_is_plain(path) for path in output_folder(run.pk).rglob("*"))]
    facts = [f"The key of secrets is {where}. It wraps and opens."]
    facts += [f"Not encrypted: checkpoints and output files of {listed(plain, at_most=NUM_NAMED)}."] if plain else []
    facts += [f"Output files as they were written: of {listed(bare, at_most=NUM_NAMED)}."] if bare else []
    facts += [f"Runs whose output files were looked at: {len(runs)}. Checkpoints lie on nodes and were not."]
    words = f"Projects with runs that encrypt their files: {len(projects) - len(plain)} of {len(projects)}."
    return Measured(RED if plain or bare else GREEN if projects else GREY, words, facts)


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.name.startswith((PREFIX, ".partial-"))


def retention(now: datetime) -> Measured:
    """Nothing is a day older than its project's rule, and of what was removed nothing is left."""
    kinds = [(one, kind, days_kept(one, kind)) for one in Project.objects.all() for kind in REMOVABLE]
    rules = [(project, kind, days) for project, kind, days in kinds if days is not None]
    if not rules and not settings.AUDIT_KEEP_DAYS:
        return Measured(GREY, "No project has a rule, and the audit is kept for ever.")
    late = [(project.name, kind, days, due(project, kind, days, now - DAY).count()) for project, kind, days in rules]
    facts = [
        f"{name}: runs with {kind} older than {days} days: {number}." for name, kind, days, number in late if number
    ]
    removed = RemovedData.objects.filter(run__status__in=list(FINAL), at__gte=F("run__ended_at")).order_by("-at")
    for kind, runs in grouped(removed.values_list("kind", "run")[:NUM_REMOVED]).items():
        if number := of_runs(DataKind(kind), runs).number:
            facts.append(f"Rows or files of {kind} that are left though they were removed: {number}.")
    days = settings.AUDIT_KEEP_DAYS
    if days and AuditEntry.objects.filter(at__lt=now - timedelta(days=days) - DAY).exists():
        facts.append(f"Rows of the audit are older than {days} days.")
    words = f"Rules: {len(rules)}. The audit is kept {f'{days} days' if days else 'for ever'}."
    return Measured(RED if facts else GREEN, words, facts)


def residency(now: datetime) -> Measured:
    """Nothing of a project with regions lies outside of them, as it was measured within a day."""
    pinned = list(Project.objects.exclude(regions=""))
    facts = []
    for project in pinned:
        rows = list(StoredData.objects.filter(project=project))
        outside = (row for row in rows if not project.may_lie_in(row.region))
        facts += [f"{project.name}: {row.kind} at {row.place}, {row.region or 'region not known'}." for row in outside]
        if project.runs.exists() and not any(row.measured_at >= now - DAY for row in rows):
            facts.append(f"{project.name}: it was not measured within a day.")
    words = f"Projects that are pinned to regions: {len(pinned)}."
    return Measured(RED if facts else GREEN if pinned else GREY, words, facts)


def second_factor(now: datetime) -> Measured:
    people = User.objects.filter(is_superuser=True, is_active=True).order_by("username")
    having = set(Authenticator.objects.filter(user__in=people).values_list("user_id", flat=True))
    missing = [user.username for user in people if user.pk not in having]
    words = f"Administrators with a second factor: {len(people) - len(missing)} of {len(people)}."
    return Measured(RED if missing else GREEN, words, [f"Without one: {listed(missing)}."] if missing else [])


def erasures(now: datetime) -> Measured:
    """Nobody who is on the list of erasures is here after a month (GDPR Art. 12(3))."""
    try:
        known = {row.number: row for row in erasure.read_list(erasure.list_path())}
    except (erasure.BadList, OSError) as error:
        return Measured(RED, f"The list of erasures cannot be read: {error}")
    known |= {row.number: row for row in ErasedPerson.objects.all()}
    here = {user.pk for user in User.objects.filter(pk__in=known) if erasure.digest_of(user) == known[user.pk].digest}
    late = [number for number in here if known[number].at < now - MONTH]
    names = {f"user {number}": known[number].at for number in known.keys() - here}
    done = AuditEntry.objects.filter(action="person.erase", result=OK, object__in=names).values_list("object", "at")
    took = [(at - names[name]).total_seconds() for name, at in done]
    longest = f"The longest took {max(took):,.1f} s." if took else "How long they took is not in the audit."
    facts = [longest, f"Open for more than {MONTH.days} days: {len(late)}."] if known else []
    return Measured(RED if late else GREEN, f"Asked for: {len(known)}, done: {len(names)}.", facts)


def audit_chain(now: datetime) -> Measured:
    found = chain.verify()
    words = f"Rows that are as they were written: {found.num_rows}." if found.fault is None else found.fault.sentence
    return Measured(GREEN if found.fault is None else RED, words, [f"The last hash is {found.head or 'of no row'}."])


def unusual_access(now: datetime) -> Measured:
    """No access was unusual in the last week."""
    revoked = {one.pk: one.revoked_at for one in Token.objects.only("revoked_at") if one.revoked_at is not None}
    found = unusual(chain.rows_from(1, 2**63 - 1), revoked)
    lately = [row for row, _ in found if row.at >= now - WEEK]
    words = f"In the last {WEEK.days} days: {len(lately)}. In the whole audit: {len(found)}."
    return Measured(RED if lately else GREEN, words, [_named(*one) for one in reversed(found[-NUM_FOUND:])])


def _named(row: AuditEntry, sentence: str) -> str:
    """Say what is unusual. Of whoever was erased there are no name and no address."""
    when = f"{row.at:%Y-%m-%d %H:%M} UTC, row {row.sequence}"
    if row.actor_number in erased_people().numbers:
        return f"{when}, {pseudonym_of(row.actor_number or 0)}."
    return f"{when}, {row.actor or 'nobody'} from {row.address or 'no address'}: {sentence}"


CONTROLS: dict[str, Callable[[datetime], Measured]] = {
    "Encryption at rest": encryption, "Retention": retention, "Residency": residency,
    "Second factor of administrators": second_factor, "Erasures": erasures, "Audit chain": audit_chain,
    "Unusual access": unusual_access, "Restore drill": lambda now: Measured(GREY, NO_DRILL),
}  # fmt: skip


def report(now: datetime) -> Compliance:
    """Measure all controls now. The key of the signature is made of the server's secret; who has the public key checks
    reports without it."""
    secret = salted_hmac("runs.privacy.compliance", "report", secret=settings.SECRET_KEY, algorithm="sha256").digest()
    key = Ed25519PrivateKey.from_private_bytes(secret)
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    found = Compliance(site=settings.PUBLIC_URL, measured_at=as_time(now), controls=measure(now), public_key=public)
    return {**found, "signature": key.sign(canonical(found).encode()).hex()}


def measure(now: datetime) -> list[Control]:
    (_, known), found = last_states(), list[Control]()
    for title, look in CONTROLS.items():
        state, sentence, facts = look(now)
        green_at = as_time(now) if state == GREEN else known.get(title, {}).get("green_at")
        found.append(Control(title=title, state=state, sentence=sentence, facts=list(facts), last_green_at=green_at))
    return found


def tend(now: datetime) -> None:
    """Measure once a day, keep the states, and record which control turned red."""
    last, before = last_states()
    if last is not None and last > now - EVERY:
        return
    after = {one["title"]: {"state": one["state"], "green_at": one["last_green_at"]} for one in measure(now)}
    for title, one in after.items():
        if one["state"] == RED != before.get(title, {}).get("state", RED):
            record(Act(actor=ACTOR, action=TURNED_RED, object=title, result="failed: it is red"))
    record(Act(actor=ACTOR, action=MEASURED, object="controls", after=after, result=OK))


def alarms() -> list[str]:
    """Return the titles of controls that were green once and are red as they were measured last: for a banner."""
    return [title for title, one in last_states()[1].items() if one["state"] == RED and one["green_at"]]


def last_states() -> tuple[datetime | None, JsonObject]:
    """Return when controls were measured last, and of each its state then, and when it was green."""
    row = AuditEntry.objects.filter(actor=ACTOR, actor_number=None, action=MEASURED).first()
    return (row.at, row.values_after or {}) if row else (None, {})
