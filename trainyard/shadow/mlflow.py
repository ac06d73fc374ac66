"""MLflow: metrics, parameters and tags that a script gives to its client, by whichever of its ways."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from trainyard.sdk import Run
from trainyard.sdk.buffers import number
from trainyard.shadow.mirror import after, leave_out, shadow

WHO = "MLflow"
LEFT_OUT = """log_artifact log_artifacts log_text log_dict log_figure log_image log_table log_inputs log_outputs
delete_tag create_logged_model log_stream start_trace start_span"""
MAX_REMEMBERED = 1_000  # points of one step
KEPT_IN = "TRAINYARD_SHADOW_MLFLOW"  # with --only: the folder, for children

labels: dict[str, dict[str, str]] = {}  # of what a run of MLflow's logs, by its id
_points: dict[str, dict[str, tuple[int, set[tuple[Any, str]]]]] = {}  # of the newest step, by run and metric
_named: list[Run] = []  # the newest run in which one of MLflow's has no label


def follow(module: Any) -> None:
    """Follow the client, by which the functions of ``mlflow``, its autologging and other libraries log."""
    client = module.MlflowClient
    if shadow.only:
        keep_nothing()
    after(client, "create_run", created)
    after(client, "set_terminated", end)
    after(client, "log_metric", log_metric)
    after(client, "log_batch", log_batch)
    after(client, "log_param", lambda _, client, run_id, key, value, *__, **___: state(client, run_id, {key: value}))
    after(client, "set_tag", lambda _, client, run_id, key, value, *__, **___: tag(client, run_id, {key: value}))
    leave_out("MlflowClient", client, LEFT_OUT)


def keep_nothing() -> None:
    """Give MLflow a folder for what it must know of its runs, whatever the script names. It goes with the process."""
    folder = os.environ.get(KEPT_IN)
    if folder is None:
        folder = os.environ[KEPT_IN] = tempfile.mkdtemp(prefix="trainyard-mlflow-")
        atexit.register(forget, os.getpid(), folder)
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    registry = import_module("mlflow.tracking._tracking_service.registry").TrackingStoreRegistry
    original, uri = registry.get_store, (Path(folder) / "runs").as_uri()
    registry.get_store = lambda self, *_, **__: original(self, uri)


def forget(own: int, folder: str) -> None:
    if os.getpid() == own:  # and not a child that it forked
        shutil.rmtree(folder, ignore_errors=True)


def created(run: Any, client: Any, *_: Any, **__: Any) -> None:
    if is_known(client, run.info.run_id, run.info.run_name):
        tag(client, run.info.run_id, run.data.tags)


def is_known(client: Any, run_id: str, name: str | None = None) -> bool:
    """Return whether it is mirrored. One that another process began, or that goes on, begins here."""
    url = os.environ.get("TRAINYARD_URL", "").rstrip("/")
    if url and not shadow.only and client.tracking_uri.rstrip("/") == f"{url}/mlflow":
        shadow.warn("mlflow is ours", "shadow: MLflow sends to Trainyard by itself, so it is not mirrored")
        return False
    if run_id not in labels:
        run = shadow.begin(name=name)
        labels[run_id] = {"run": name or run_id} if run in _named else {}
        _named[:] = [run]
    return True


def end(_: Any, client: Any, run_id: str, status: str | None = None, *__: Any, **___: Any) -> None:
    _points.pop(run_id, None)
    if labels.pop(run_id, None) is not None:
        shadow.end(0 if status in (None, "FINISHED") else 1)


def log_metric(_: Any, client: Any, run_id: str, key: str, value: Any, timestamp: int | None = None,
               step: int | None = None, *__: Any, **___: Any) -> None:  # fmt: skip
    if is_known(client, run_id):
        remember(run_id, key, step or 0, timestamp, value)
        at = None if timestamp is None else timestamp / 1000
        shadow.log(WHO, {key: number(value)}, step or 0, labels[run_id], at)


def log_batch(_: Any, client: Any, run_id: str, metrics: Iterable[Any] = (), params: Iterable[Any] = (),
              tags: Iterable[Any] = (), *__: Any, **___: Any) -> None:  # fmt: skip
    for one in metrics:
        if getattr(one, "model_id", None) and remember(run_id, one.key, one.step, one.timestamp, one.value):
            continue  # with a model, MLflow logs the points of its step once more
        log_metric(None, client, run_id, one.key, one.value, one.timestamp, one.step)
    if params := list(params):
        state(client, run_id, {one.key: one.value for one in params})
    tag(client, run_id, {one.key: one.value for one in tags})


def remember(run_id: str, key: str, step: int, timestamp: int | None, value: Any) -> bool:
    """Return whether this point is one of the metric's newest step already; else it is from now on."""
    of_run = _points.setdefault(run_id, {})
    if of_run.get(key, (None,))[0] != step:
        of_run[key] = step, set()
    known, text = of_run[key][1], str(float(number(value)))
    if (timestamp, text) in known or (None, text) in known:
        return True
    if len(known) < MAX_REMEMBERED:
        known.add((timestamp, text))
    return False


def state(client: Any, run_id: str, values: dict[str, Any]) -> None:
    """Put parameters into the configuration, as the texts that MLflow keeps."""
    if is_known(client, run_id):
        texts = {name: str(value) for name, value in values.items()}
        within = labels[run_id].get("run")
        shadow.run().config.update({within: texts} if within else texts, allow_change=True)


def tag(client: Any, run_id: str, values: dict[str, Any]) -> None:
    """Keep a tag as ``key=value``, and MLflow's note; its other own tags say nothing of the training."""
    if not values or not is_known(client, run_id) or labels[run_id]:
        return
    tags = [f"{name}={value}" for name, value in values.items() if not name.startswith("mlflow.")]
    shadow.run().describe(tags=tags, notes=values.get("mlflow.note.content"))
