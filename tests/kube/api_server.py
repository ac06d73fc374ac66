"""A stand-in for a Kubernetes cluster: an API server over HTTP, and pods that are processes of this machine.

**This is not Kubernetes.** It keeps objects, checks new ones against Kubernetes' published schemas, and does what the
engine meets of the Job controller, the scheduler, the kubelets, garbage collection and Kueue; tests switch on faults.
What it does was written from Kubernetes' documentation, and not compared with a real cluster.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.kube.controllers import Controllers, Faults
from tests.kube.objects import KINDS, Object, Objects, Refused, condition, merge
from tests.servers import short_folder

NAMESPACE = "training"
TOKEN = "token-of-the-tests"
LISTS = {"jobs": "batch/v1", "workloads": "kueue.x-k8s.io/v1beta1"}


class Kubernetes:
    """One cluster of one namespace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults = Faults()
        self.objects = Objects(NAMESPACE)
        self.controllers = Controllers(self.objects, folder, self.faults)
        self.requests: list[str] = []  # method and path of each
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(self))
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, name="api-server", daemon=True).start()
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(self._kubeconfig()))

    @property
    def shared(self) -> Path:
        """What the claim ``shared`` holds."""
        return self.folder / "claims" / "shared"

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self.controllers.stop()

    def names(self, *kinds: str) -> list[str]:
        """Return the objects that are there, such as jobs/NAME."""
        return [name for name in self.objects.names() if not kinds or name.partition("/")[0] in kinds]

    def delete_job(self, name: str) -> None:
        """As ``kubectl delete job`` does: in the background."""
        with self.objects.lock:
            self.objects.get("jobs", name)
            self.objects.remove("jobs", name)

    def evict(self, pod: str) -> None:
        """As ``kubectl drain`` does."""
        self.disrupt(pod, "EvictionByEvictionAPI", "Eviction API: evicting")

    def disrupt(self, pod: str, reason: str, message: str) -> None:
        with self.objects.lock:
            found = self.objects.get("pods", pod)
            condition(found, "DisruptionTarget", "True", reason, message)
            self.controllers.delete_pod(found)

    def kill_for_memory(self, pod: str) -> None:
        with self.objects.lock:
            self.objects.get("pods", pod)["status"]["killedFor"] = "OOMKilled"
            self.controllers.processes[pod].kill()

    def pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.objects.find("pods")]

    def _kubeconfig(self) -> Object:
        cluster = {"server": f"http://127.0.0.1:{self._http.server_port}"}
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": {"token": TOKEN}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        }  # fmt: skip


def handler_of(kubernetes: Kubernetes) -> type[BaseHTTPRequestHandler]:
    """Return the handler of requests to this cluster."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            faults = kubernetes.faults
            parts = urlsplit(self.path)
            kubernetes.requests.append(f"{self.command} {parts.path}")
            length = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(length)
            time.sleep(faults.slow_s)
            if faults.is_away:
                self.close_connection = True
                return
            try:
                if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    raise Refused(401, "Unauthorized", "Unauthorized")
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                answer = Request(kubernetes, self.command, parts.path, query, json.loads(text or "{}")).answer()
                status = 201 if self.command == "POST" else 200
            except Refused as error:
                status = error.status
                answer = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status,
                          "reason": error.reason, "message": str(error)}  # fmt: skip
            if faults.loses_answers and self.command != "GET":
                self.close_connection = True
                return
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = _serve

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class Request:
    """One request. Paths end with namespaces/NAMESPACE/RESOURCE[/NAME[/PART]]."""

    def __init__(self, kubernetes: Kubernetes, method: str, path: str, query: dict[str, str], body: Object) -> None:
        self._kubernetes, self._objects = kubernetes, kubernetes.objects
        self._method, self._path, self._query, self._body = method, path, query, body

    def answer(self) -> Object | bytes:
        if self._path == "/version":
            return {"major": "1", "minor": "34", "gitVersion": "v1.34.0-pods-as-processes"}
        if self._path.endswith("/selfsubjectaccessreviews"):
            about = self._body["spec"]["resourceAttributes"]
            part = f"/{about['subresource']}" if about.get("subresource") else ""
            asked = f"{about['verb']} {about['resource']}{part}"
            return {**self._body, "status": {"allowed": asked not in self._kubernetes.faults.denied}}
        _, found, rest = self._path.partition(f"/namespaces/{NAMESPACE}/")
        resource, name, part = ([*rest.split("/"), "", ""])[:3]
        if not found or resource not in KINDS:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        verb = {"GET": "get" if name else "list", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[self._method]
        if f"{verb} {resource}" in self._kubernetes.faults.denied:
            raise Refused(403, "Forbidden", f'User "tests" cannot {verb} resource "{resource}"')
        with self._objects.lock:
            return self._carry_out(verb, resource, name, part)

    def _carry_out(self, verb: str, resource: str, name: str, part: str) -> Object | bytes:
        if part == "log":
            process = self._kubernetes.controllers.processes.get(name)
            return b"" if process is None else process.log.read_bytes()[-4000:]
        if verb == "list":
            return self._list(resource)
        if verb == "create":
            if resource == "jobs" and self._kubernetes.faults.refusal is not None:
                raise Refused(*self._kubernetes.faults.refusal)
            made = self._objects.create(resource, self._body, is_trial=self._query.get("dryRun") == "All")
            return {name: value for name, value in made.items() if name != "stringData"}
        document = self._objects.get(resource, name)
        if verb == "patch":
            merge(document, self._body)
            self._objects.touch(document)
        elif verb == "delete" and self._body.get("propagationPolicy") == "Foreground":
            document["metadata"].setdefault("deletionTimestamp", document["metadata"]["creationTimestamp"])
        elif verb == "delete":
            self._objects.remove(resource, name)
        return document

    def _list(self, resource: str) -> Object:
        wanted = dict(one.split("=") for one in self._query.get("labelSelector", "").split(",") if one)
        about = self._query.get("fieldSelector", "").removeprefix("involvedObject.uid=")

        def matches(row: Object) -> bool:
            labels = row["metadata"].get("labels", {})
            is_about = not about or row.get("involvedObject", {}).get("uid") == about
            return is_about and all(labels.get(name) == value for name, value in wanted.items())

        rows = self._objects.find(resource, matches)
        return {"apiVersion": LISTS.get(resource, "v1"), "kind": f"{KINDS[resource]}List",
                "metadata": {"resourceVersion": self._objects.version}, "items": rows}  # fmt: skip


@contextmanager
def running_kubernetes() -> Iterator[Kubernetes]:
    """Start one, or skip the test where this machine makes no namespaces for it."""
    trial = ["unshare", "--pid", "--fork", "--mount", "--mount-proc", "--uts", "--kill-child", "true"]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("pods need `unshare` and root")
    with short_folder("ty-kube-") as folder:
        kubernetes = Kubernetes(folder)
        try:
            yield kubernetes
        finally:
            kubernetes.stop()
