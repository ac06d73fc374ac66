"""AWS through boto3: plain documents go, types come back, and every call has a time limit."""

import time
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from runs.engines.refusals import MAX_QUOTED, Refusal, SystemAway, passing_over, short
from runs.engines.sagemaker.documents import Caller, JobPage, Role, RoleAnswer, SecretPage, TrainingJob
from runs.engines.sagemaker.settings import SageMakerSettings
from runs.values.kept import Kept
from trainyard.contract.base import JsonObject, prepared

CONNECT_S, ANSWER_S = 3.0, 8.0
ROUND_S = 15.0  # for all calls of one question: the lock on the cluster must not run out
CLIENT_LIFE_S = 900.0  # a profile that was changed counts after it
PAGE = 100
OPEN = ("InProgress", "Stopping")
# Codes of what may be carried out later. Credentials can be mended while a run waits.
PASSING = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "InternalFailure", "InternalServerError", "InternalServiceError",
     "InvalidClientTokenId", "InvalidSignatureException", "RequestExpired", "RequestLimitExceeded",
     "ResourceLimitExceeded", "LimitExceededException", "ServiceUnavailable", "SignatureDoesNotMatch", "Throttling",
     "ThrottlingException", "TooManyRequestsException", "UnrecognizedClientException"}
)  # fmt: skip
T = TypeVar("T", bound=msgspec.Struct)
P = TypeVar("P", JobPage, SecretPage)


class AWSRefusal(Refusal):
    """``code`` is AWS' own word, and ends the message."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{' '.join(message.split())[:MAX_QUOTED].rstrip('.') or code} ({code})")
        self.code, self.status = code, status

    @property
    def is_passing(self) -> bool:
        """Return whether the same request may succeed later."""
        return self.code in PASSING or self.status >= 500 or self.status == 429

    @property
    def is_missing(self) -> bool:
        """Return whether what the request names does not exist. SageMaker has no code of its own for that."""
        if self.code in ("ResourceNotFound", "ResourceNotFoundException", "NoSuchEntity"):
            return True
        words = str(self).lower()
        return self.code in ("ValidationException", "ValidationError") and (
            "not found" in words or "could not find" in words or "does not exist" in words
        )


class Aws:
    """The services of one account and region that the engine needs. Methods raise Refusal, and SystemAway where nobody
    answers, or who asks is not known."""

    def __init__(self, settings: SageMakerSettings, secret_key: str) -> None:
        self._settings, self._secret_key = settings, secret_key
        self._left_s = ROUND_S

    def begin(self) -> None:
        """Begin a question, which has ROUND_S."""
        self._left_s = ROUND_S

    def open_jobs(self, prefix: str) -> list[TrainingJob]:
        """Return the training jobs that have not ended. Those that have are kept by SageMaker for ever."""
        found = {}
        for status in OPEN:
            chosen = {"NameContains": prefix, "StatusEquals": status}
            for page in self._pages("sagemaker", "list_training_jobs", JobPage, **chosen):
                found.update({one.training_job_name: one for one in page.training_job_summaries})
        return [one for name, one in sorted(found.items()) if name.startswith(prefix)]

    def job(self, name: str) -> TrainingJob | None:
        with passing_over(AWSRefusal, lambda error: error.is_missing):
            return _read(self._call("sagemaker", "describe_training_job", TrainingJobName=name), TrainingJob)
        return None

    def create_job(self, document: JsonObject) -> None:
        """Make the job. One of this name is the same: an earlier submission has made it."""
        with passing_over(AWSRefusal, lambda error: error.code == "ResourceInUse"):
            self._call("sagemaker", "create_training_job", **document)

    def stop_job(self, name: str) -> None:
        """Stop the job. One that has ended, or is not there, is no error."""
        with passing_over(AWSRefusal, lambda error: error.is_missing or error.code == "ValidationException"):
            self._call("sagemaker", "stop_training_job", TrainingJobName=name)

    def secret_names(self, prefix: str) -> list[str]:
        filters = [{"Key": "name", "Values": [prefix]}]
        pages = self._pages("secretsmanager", "list_secrets", SecretPage, Filters=filters)
        return [one.name for page in pages for one in page.secret_list if one.name.startswith(prefix)]

    def create_secret(self, name: str, text: str, tags: list[JsonObject]) -> None:
        """Keep the secret. One that is there already holds the same: join tokens are made from the attempt."""
        with passing_over(AWSRefusal, lambda error: error.code == "ResourceExistsException"):
            self._call("secretsmanager", "create_secret", Name=name, SecretString=text, Tags=tags)

    def delete_secret(self, name: str) -> None:
        """Delete it for good. One that is gone is no error."""
        with passing_over(AWSRefusal, lambda error: error.is_missing):
            self._call("secretsmanager", "delete_secret", SecretId=name, ForceDeleteWithoutRecovery=True)

    def caller(self) -> Caller:
        return _read(self._call("sts", "get_caller_identity"), Caller)

    def role(self, name: str) -> Role:
        return _read(self._call("iam", "get_role", RoleName=name), RoleAnswer).role

    def _pages(self, service: str, operation: str, kind: type[P], **parameters: Any) -> Iterator[P]:
        more: dict[str, str] = {}
        while True:
            page = _read(self._call(service, operation, MaxResults=PAGE, **parameters, **more), kind)
            yield page
            if not page.next_token:
                return
            more = {"NextToken": page.next_token}

    def _call(self, service: str, operation: str, **parameters: Any) -> JsonObject:
        given, secret = self._settings, self._secret_key
        key = (given.region, given.endpoint, given.access_key_id, secret, service)
        client = _clients.get(key, lambda: _make_client(given, secret, service))
        from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

        if self._left_s <= 0:
            raise SystemAway(f"AWS answers too slowly: {ROUND_S:g} s were not enough.")
        asked_at = time.monotonic()  # a client is there by now: to make the first takes long on a busy machine
        try:
            answer: JsonObject = getattr(client, operation)(**parameters)
        except ClientError as error:
            about = error.response.get("Error", {})
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
            raise AWSRefusal(about.get("Code", ""), about.get("Message", ""), status) from error
        except ParamValidationError as error:
            raise AWSRefusal("ValidationException", str(error)) from error
        except (BotoCoreError, OSError) as error:
            raise SystemAway(f"AWS cannot be asked: {short(error)}.") from error
        finally:
            self._left_s -= time.monotonic() - asked_at
        return answer


_clients = Kept[Any](CLIENT_LIFE_S)  # to make one takes a tenth of a second


def _make_client(settings: SageMakerSettings, secret_key: str, service: str) -> Any:
    """Raises SystemAway."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        words = "AWS cannot be asked: its client is not on this server (pip install trainyard[sagemaker])."
        raise SystemAway(words) from error
    if settings.access_key_id and not secret_key:
        raise SystemAway(f"The secret of access key {settings.access_key_id} is not there: enter it in the settings.")
    try:
        session = boto3.session.Session(
            aws_access_key_id=settings.access_key_id or None,
            aws_secret_access_key=secret_key if settings.access_key_id else None,
            region_name=settings.region,
        )
        config = Config(connect_timeout=CONNECT_S, read_timeout=ANSWER_S, retries={"total_max_attempts": 1})
        return session.client(service, endpoint_url=settings.endpoint or None, config=config)
    except (BotoCoreError, OSError, ValueError) as error:
        raise SystemAway(f"AWS cannot be asked: {short(error)}.") from error


def _read(answer: JsonObject, kind: type[T]) -> T:
    try:
        return msgspec.convert(answer, prepared(kind))
    except msgspec.ValidationError as error:
        raise SystemAway(f"AWS' answer cannot be read: {error}.") from error
