"""The API server through the official client: dictionaries go, types come back, and every call has a time limit."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from runs.engines.kubernetes.documents import Access, Items, Job, Notice, Pod, Version, Workload
from runs.engines.kubernetes.settings import KubernetesSettings
from runs.engines.refusals import MAX_QUOTED, Refusal, SystemAway, passing_over, short
from runs.values.kept import Kept
from trainyard.contract.base import JsonObject, prepared

LIMIT_S = (3.0, 8.0)  # to connect, and for the answer
CLIENT_LIFE_S = 300.0  # a kubeconfig that was changed counts after it
KUEUE = ("kueue.x-k8s.io", ("v1beta2", "v1beta1"))
T = TypeVar("T")


class KubernetesRefusal(Refusal):
    """``status`` is that of HTTP."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message[:MAX_QUOTED] or reason or f"HTTP {status}")
        self.status, self.reason = status, reason

    @property
    def is_passing(self) -> bool:
        """Return whether the same request may succeed later."""
        return self.status in (401, 408, 409, 429) or self.status >= 500 or "exceeded quota" in str(self)


class Api:
    """The objects of one namespace. Methods raise Refusal, and SystemAway where nobody answers."""

    def __init__(self, settings: KubernetesSettings, own_data: Path) -> None:
        """``own_data``: the folder of the server's own data, from where no kubeconfig is read."""
        self._namespace = settings.namespace
        self._client = _clients.get((settings.kubeconfig, settings.context), lambda: _make_client(settings, own_data))

    def version(self) -> str:
        return self._get(Version, "/version").git_version

    def jobs(self, selector: str) -> list[Job]:
        return self._get(Items[Job], self._batch("jobs"), labelSelector=selector).items or []

    def job(self, name: str) -> Job | None:
        with passing_over(KubernetesRefusal, lambda error: error.status == 404):
            return self._get(Job, self._batch(f"jobs/{name}"))
        return None

    def pods(self, selector: str) -> list[Pod]:
        return self._get(Items[Pod], self._core("pods"), labelSelector=selector).items or []

    def events(self, uid: str) -> list[Notice]:
        return self._get(Items[Notice], self._core("events"), fieldSelector=f"involvedObject.uid={uid}").items or []

    def workloads(self, job_uid: str) -> list[Workload]:
        """Return what Kueue has for the Job; nothing where there is no Kueue."""
        group, versions = KUEUE
        for version in versions:
            path = f"/apis/{group}/{version}/namespaces/{self._namespace}/workloads"
            with passing_over(KubernetesRefusal, lambda error: error.status == 404):
                return self._get(Items[Workload], path, labelSelector=f"kueue.x-k8s.io/job-uid={job_uid}").items or []
        return []

    def log_tail(self, pod: str, num_lines: int) -> str:
        """Return the last lines that the pod printed; nothing where they are not to be had."""
        try:
            text = self._call("GET", self._core(f"pods/{pod}/log"), tailLines=str(num_lines), limitBytes="4000")
        except KubernetesRefusal:
            return ""
        return text.decode(errors="replace")

    def create_job(self, document: JsonObject, *, is_trial: bool = False) -> Job:
        trial = {"dryRun": "All"} if is_trial else {}
        return self._read(self._call("POST", self._batch("jobs"), document, **trial), Job)

    def create(self, kind: str, document: JsonObject) -> None:
        """Create a Secret or a Service (``kind`` in the plural); one that is there already is taken for ours."""
        with passing_over(KubernetesRefusal, lambda error: error.status == 409):
            self._call("POST", self._core(kind), document)

    def patch_job(self, name: str, document: JsonObject) -> Job:
        return self._read(self._call("PATCH", self._batch(f"jobs/{name}"), document), Job)

    def delete_job(self, name: str) -> None:
        """End the Job and what it owns. One that is gone is no error."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
        with passing_over(KubernetesRefusal, lambda error: error.status == 404):
            self._call("DELETE", self._batch(f"jobs/{name}"), options)

    def may(self, verb: str, group: str, resource: str) -> Access:
        name, _, part = resource.partition("/")
        about = {"namespace": self._namespace, "verb": verb, "group": group, "resource": name, "subresource": part}
        api = "authorization.k8s.io/v1"
        document = {"apiVersion": api, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": about}}
        return self._read(self._call("POST", f"/apis/{api}/selfsubjectaccessreviews", document), Access)

    def _batch(self, name: str) -> str:
        return f"/apis/batch/v1/namespaces/{self._namespace}/{name}"

    def _core(self, name: str) -> str:
        return f"/api/v1/namespaces/{self._namespace}/{name}"

    def _get(self, kind: type[T], path: str, **query: str) -> T:
        return self._read(self._call("GET", path, None, **query), kind)

    def _call(self, method: str, path: str, body: JsonObject | None = None, **query: str) -> bytes:
        """Raises Refusal, or SystemAway."""
        from kubernetes.client.exceptions import OpenApiException
        from urllib3.exceptions import HTTPError

        headers = {"Accept": "application/json", "User-Agent": "trainyard"}
        if body is not None:
            patch = "application/merge-patch+json"
            headers["Content-Type"] = patch if method == "PATCH" else "application/json"
        try:
            request = self._client.param_serialize(
                method=method,
                resource_path=path,
                query_params=list(query.items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = self._client.call_api(*request, _request_timeout=LIMIT_S)
            text = bytes(answer.read() or b"")
        except (OpenApiException, HTTPError, OSError) as error:
            raise SystemAway(f"Kubernetes does not answer: {short(error)}.") from error
        if not 200 <= answer.status < 300:
            problem = _problem_in(text)
            raise KubernetesRefusal(answer.status, problem.reason, problem.message or str(answer.reason or ""))
        return text

    def _read(self, text: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(text, type=prepared(kind))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise SystemAway(f"Kubernetes' answer cannot be read: {error}.") from error


_clients = Kept[Any](CLIENT_LIFE_S)  # programs that a kubeconfig names for its sign-in are slow


def _make_client(settings: KubernetesSettings, own_data: Path) -> Any:
    """Raises SystemAway."""
    try:
        from kubernetes import client, config
    except ImportError as error:
        words = "Kubernetes cannot be asked: its client is not on this server (pip install trainyard[kubernetes])."
        raise SystemAway(words) from error
    configuration = client.Configuration()
    try:
        _load(config, configuration, settings, own_data)
    except (config.ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        raise SystemAway(f"Kubernetes cannot be asked: {short(error)}.") from error
    configuration.retries = False
    return client.ApiClient(configuration)


def _load(config: Any, configuration: Any, settings: KubernetesSettings, own_data: Path) -> None:
    in_pod = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
    if settings.kubeconfig:
        path = Path(settings.kubeconfig).resolve()
        if path.is_relative_to(own_data.resolve()):  # people upload files there, and a kubeconfig may name programs
            raise ValueError(f"{settings.kubeconfig} lies in the server's own data")
        config.load_kube_config(str(path), context=settings.context or None, client_configuration=configuration)
    elif settings.context or not in_pod.exists():
        config.load_kube_config(context=settings.context or None, client_configuration=configuration)
    else:
        config.load_incluster_config(client_configuration=configuration)


def _problem_in(text: bytes) -> Notice:
    try:
        return msgspec.json.decode(text, type=prepared(Notice))
    except (msgspec.MsgspecError, UnicodeDecodeError):  # of a proxy before the API server
        return Notice(message=" ".join(text.decode(errors="replace").split())[:MAX_QUOTED])
