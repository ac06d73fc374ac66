"""The engine ``sagemaker``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.conf import settings as django_settings

from runs.engines.allocating import AllocatingEngine, Offer
from runs.engines.cluster_settings.guarded import Guarded, Places
from runs.engines.cluster_settings.secrets import SecretUnreadable, secret_of
from runs.engines.findings import Finding
from runs.engines.machine_system import SystemAway, mark_of
from runs.engines.sagemaker.aws import Aws
from runs.engines.sagemaker.doctor import examine, examine_billed
from runs.engines.sagemaker.form import FIELDS, SECRET_NAME
from runs.engines.sagemaker.request import Origin
from runs.engines.sagemaker.settings import SageMakerSettings, checked_settings, settings_of
from runs.engines.sagemaker.system import SageMakerSystem
from runs.models import Cluster
from trainyard.contract.base import JsonObject

MAX_SECRET = 200


class SageMakerEngine(AllocatingEngine):
    label = "SageMaker"
    about = "Each run is a training job, which AWS bills while it lasts. Tried against moto's server, never on AWS."
    fields = FIELDS
    settings_type = SageMakerSettings

    def checked(self, document: JsonObject) -> JsonObject:
        return checked_settings(document)

    def secret_problem(self, name: str, text: str) -> str:
        is_fine = name != SECRET_NAME or (0 < len(text) <= MAX_SECRET and text.isascii() and text.isprintable())
        return "" if is_fine else "The secret of an access key, as AWS shows it once."

    def guarded(self, document: JsonObject) -> Guarded:
        settings = settings_of(document)
        # The secret signs requests; without one they are signed with what boto3 finds on this server.
        return Guarded(
            {"endpoint": settings.endpoint},
            {SECRET_NAME: Places({settings.endpoint or settings.region})},
            identity="" if settings.access_key_id else "access_key_id",
        )

    def offers(self, cluster: Cluster) -> Sequence[Offer]:
        settings = settings_of(cluster.settings)
        return [Offer(settings.machines, settings.slots, settings.gpu)]

    def system(self, cluster: Cluster) -> SageMakerSystem:
        settings = settings_of(cluster.settings)
        return SageMakerSystem(settings, origin_of(cluster, settings), aws_of(cluster, settings))

    def examine(self, cluster: Cluster) -> Iterator[Finding]:
        settings = settings_of(cluster.settings)
        try:
            aws = aws_of(cluster, settings)
        except SystemAway as error:
            yield Finding("credentials", False, str(error), "Enter the secret of the access key anew.")
            return
        yield from examine(settings, origin_of(cluster, settings), aws)

    def examine_billed(self, cluster: Cluster) -> Iterator[Finding]:
        settings = settings_of(cluster.settings)
        try:
            aws = aws_of(cluster, settings)
        except SystemAway:  # examine has said so
            return
        yield from examine_billed(settings, origin_of(cluster, settings), aws, str(django_settings.NODES_REDIS_URL))


def origin_of(cluster: Cluster, settings: SageMakerSettings) -> Origin:
    return Origin(mark_of(cluster.pk), cluster.name, settings.server or django_settings.PUBLIC_URL)


def aws_of(cluster: Cluster, settings: SageMakerSettings) -> Aws:
    """Raises SystemAway."""
    try:
        return Aws(settings, secret_of(cluster, SECRET_NAME))
    except SecretUnreadable as error:
        raise SystemAway(str(error)) from error
