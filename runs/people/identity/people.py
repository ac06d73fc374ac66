"""People who sign in through a provider: somebody it brought before, somebody linked by an address, or somebody new;
and the groups that it keeps."""

from collections.abc import Collection
from itertools import islice

import structlog
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from runs.actions.people.sign_in import keepers_of
from runs.actions.people.ways_in import end_rows, end_ways_in, void_handed_out
from runs.models import BrowserSession, GroupRole, Identity, Project, ProvidedGroup, Role, User
from runs.people.identity.providers import Claims, Provider, usernames, why_not_admitted
from runs.rights.access import require_presence
from runs.values.refused import Refused
from trainyard.formats.names import without_hidden

log = structlog.get_logger(__name__)

MAX_NAMES_TRIED = 1000


class NotAdmitted(Refused):
    """The provider knows the person, and this site does not let them in."""

    def __init__(self, sentence: str) -> None:
        super().__init__("not-admitted", sentence)


def person_of(provider: Provider, claims: Claims) -> User:
    """Return who signs in. Their groups are those of the claims from now on. Raises NotAdmitted."""
    if sentence := why_not_admitted(provider, claims):
        raise NotAdmitted(sentence)
    with transaction.atomic():
        identity = _identity_of(provider, claims)
        user = identity.user
        if not user.is_active:
            raise NotAdmitted("Your account here is disabled. Ask an administrator.")
        _refuse_another(provider, user)
        identity.subject, identity.signed_in_at = claims.subject, timezone.now()
        identity.save(update_fields=["subject", "signed_in_at"])
        put_into_groups(provider, user, claims.groups)
    return user


def connect(provider: Provider, claims: Claims, user: User) -> None:
    """Let somebody who is signed in sign in through the provider, too. Raises NotAdmitted, ProofNeeded."""
    require_presence(user)
    if sentence := why_not_admitted(provider, claims):
        raise NotAdmitted(sentence)
    with transaction.atomic():
        found = Identity.objects.filter(provider=provider.id, subject=claims.subject).first()
        if found is not None and found.user != user:
            raise NotAdmitted(f"This account of {provider.name} belongs to somebody else here.")
        kept = user.identities.filter(provider=provider.id, keeps_person=True)
        if kept.exclude(subject__in=("", claims.subject)).exists():
            raise NotAdmitted(f"{provider.name} keeps your account here, and knows you by another one.")
        _refuse_another(provider, user)
        defaults = {"subject": claims.subject, "signed_in_at": timezone.now()}
        Identity.objects.update_or_create(provider=provider.id, user=user, defaults=defaults)
        put_into_groups(provider, user, claims.groups)
    log.info("sign_in.connected", provider=provider.id, user=user.pk)


def _refuse_another(provider: Provider, user: User) -> None:
    """Raises NotAdmitted where another provider keeps the person: it alone says until when they may come in."""
    keepers = keepers_of(user)
    if keepers and provider.id not in keepers:
        raise NotAdmitted(f"{min(keepers.values())} keeps your account here: you come in through it alone.")


def disconnect(provider_id: str, user: User) -> None:
    """Forget the person's account at the provider, the sessions that it began and the groups that it gave. Refused
    where the provider keeps the person."""
    require_presence(user)
    with transaction.atomic():
        mine = Identity.objects.filter(provider=provider_id, user=user)
        if mine.filter(keeps_person=True).exists():
            raise Refused("kept-by-provider", "This provider keeps your account here: you come in through it alone.")
        mine.delete()
        end_rows(list(BrowserSession.objects.filter(user=user, provider_session__provider=provider_id)))
        user.groups.remove(*user.groups.filter(provided__provider=provider_id))
        void_handed_out()
    log.info("sign_in.disconnected", provider=provider_id, user=user.pk)


def _identity_of(provider: Provider, claims: Claims) -> Identity:
    identities = Identity.objects.select_related("user").filter(provider=provider.id)
    found = identities.filter(subject=claims.subject).first() or _provisioned(provider, claims)
    if found is not None:
        return found
    user = _linked(provider, claims) or _new_person(provider, claims)
    return Identity.objects.create(provider=provider.id, user=user, subject=claims.subject, keeps_person=True)


def _provisioned(provider: Provider, claims: Claims) -> Identity | None:
    """Return the identity that SCIM made and that has not signed in yet."""
    waiting = Identity.objects.select_related("user").filter(provider=provider.id, subject="", is_provisioned=True)
    found = waiting.filter(external_id=claims.subject).first()
    if found is None and claims.is_email_verified:
        found = waiting.filter(user__email__iexact=claims.email).first()
    return found


def _linked(provider: Provider, claims: Claims) -> User | None:
    """Return the one person with that verified address, where the provider is trusted for it.

    Nobody here has checked that the address is theirs: whoever had the account until now has no way in any more.
    """
    if not provider.link_by_email or not claims.is_email_verified:
        return None
    user = linkable(provider, claims.email)
    if user is not None:
        end_ways_in(user, is_handed_over=True)
        log.info("sign_in.linked", provider=provider.id, user=user.pk)
    return user


def linkable(provider: Provider, email: str) -> User | None:
    """Return the one person with that address whom the provider does not know yet. Administrators connect their
    accounts by hand."""
    found = User.objects.filter(email__iexact=email, is_superuser=False, service_of=None, is_active=True)
    people = list(found.exclude(identities__provider=provider.id))
    return people[0] if len(people) == 1 else None


def _new_person(provider: Provider, claims: Claims) -> User:
    if not provider.create_people:
        words = f"Nobody here has this account of {provider.name}. Ask for an invitation, then connect the account."
        raise NotAdmitted(words)
    user = make_person(claims)
    log.info("sign_in.created", provider=provider.id, user=user.pk)
    return user


def make_person(claims: Claims) -> User:
    """Return a new person without a password, under a free name. Raises NotAdmitted where no name is accepted."""
    for username in islice(usernames(claims), MAX_NAMES_TRIED):
        if User.objects.filter(username__iexact=username).exists():
            continue
        user = User(username=username, email=claims.email if claims.is_email_verified else "")
        user.first_name, user.last_name = without_hidden(claims.first_name), without_hidden(claims.last_name)
        user.set_unusable_password()
        try:
            user.full_clean(exclude=["password"])
        except ValidationError as error:
            raise NotAdmitted(f"Your account cannot be made: {' '.join(error.messages)}") from error
        user.save()
        return user
    raise NotAdmitted("No user name is free for your account. Ask an administrator.")


# Groups that a provider keeps: a group of it is a group of people here under the name "PROVIDER: GROUP". Roles come
# from GroupRole rows; what was given to a person by hand (Membership) is never touched.


def put_into_groups(provider: Provider, user: User, names: Collection[str]) -> None:
    """Let the person be in these groups of the provider and in no others of it. Groups that SCIM keeps stay as they
    are: it says by itself who is in them."""
    known = {one.name: one for one in ProvidedGroup.objects.filter(provider=provider.id).select_related("group")}
    mapped = {one.group for one in provider.roles}
    named = sorted(name for name in names if name in known or name in mapped)
    wanted = [(known.get(name) or make_group(provider.id, name)).group for name in named]
    for name in sorted(mapped):
        give_roles(provider, name)
    ours = Group.objects.filter(provided__provider=provider.id, provided__is_provisioned=False)
    there = set(user.groups.filter(pk__in=ours).values_list("pk", flat=True))
    wanted_keys = {group.pk for group in wanted if group in ours}
    if there == wanted_keys:
        return
    user.groups.remove(*(there - wanted_keys))
    user.groups.add(*(wanted_keys - there))
    void_handed_out()
    log.info("sign_in.groups", provider=provider.id, user=user.pk, groups=sorted({*names} & {*mapped, *known}))


def known_groups(provider: Provider, names: Collection[str]) -> set[str]:
    """Return those of the names that mean something here: the settings file names them, or there is such a group."""
    there = ProvidedGroup.objects.filter(provider=provider.id).values_list("name", flat=True)
    return set(names) & ({one.group for one in provider.roles} | set(there))


def make_group(provider_id: str, name: str) -> ProvidedGroup:
    """Make the group. One that has its name here already, by hand, is never taken over."""
    group = Group.objects.create(name=_free_title(provider_id, name))
    return ProvidedGroup.objects.create(group=group, provider=provider_id, name=name)


def rename_group(group: ProvidedGroup, name: str) -> None:
    """Let the group be called so from now on: by the provider, and here."""
    if group.name != name:
        group.name, group.group.name = name, _free_title(group.provider, name)
        group.group.save(update_fields=["name"])


def _free_title(provider_id: str, name: str) -> str:
    title = base = f"{provider_id}: {name}"[:140]
    number = 2
    while Group.objects.filter(name=title).exists():
        title, number = f"{base} ({number})", number + 1
    return title


def give_roles(provider: Provider, name: str) -> None:
    """Give the group the roles that the settings file says, and none besides, where the file speaks of the group. Where
    it does not any more, what it gave goes."""
    found = ProvidedGroup.objects.filter(provider=provider.id, name=name).select_related("group").first()
    if found is None:
        return
    settings = [one for one in provider.roles if one.group == name]
    wanted: dict[str, str] = {}
    for one in settings:
        project = Project.objects.filter(name=one.project).first()
        if project is None or one.role not in Role.values:
            log.warning("sign_in.no_such_role", provider=provider.id, project=one.project, role=one.role)
        else:
            wanted[project.pk] = one.role
    rows = GroupRole.objects.filter(group=found.group)
    (rows if settings else rows.exclude(origin="")).exclude(project__in=wanted).delete()
    for project_id, role in wanted.items():
        entry = {"role": role, "custom_role": None, "origin": f"{provider.id}:{name}"}
        if not rows.filter(project_id=project_id, role=role, origin=entry["origin"]).exists():
            GroupRole.objects.update_or_create(group=found.group, project_id=project_id, defaults=entry)


def reconcile_roles(providers: Collection[Provider]) -> None:
    """Let the roles that come from the settings file be those that it names now: once, as it is read at a start."""
    with transaction.atomic():
        known = {one.id: one for one in providers}
        for group in ProvidedGroup.objects.filter(provider__in=known):
            give_roles(known[group.provider], group.name)
        GroupRole.objects.exclude(origin="").exclude(group__provided__provider__in=known).delete()
        void_handed_out()
