"""Optuna's own storages: its studies read as ours, and ours written as its.

Only the terminal comes here, with a URL of the person who typed it: the server never opens one. Optuna keeps
distributions and attributes as JSON in a database, so nothing is unpickled.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from trainyard.interchange.study import MOST_TRIALS, Direction, Distribution, State, Study, StudyTrial, number_of
from trainyard.spec.problems import Problem, SpecError, show

SCHEMES = ("sqlite", "postgresql", "mysql")
FILE = "sqlite:///"
STATES: dict[str, State] = {"COMPLETE": "COMPLETE", "PRUNED": "PRUNED", "FAIL": "FAILED"}


def read_study(url: str, name: str = "") -> tuple[Study, int]:
    """Return the study's finished trials, and how many others it has. Without a name the storage has just one study.

    Raises SpecError, naming the studies that there are, and for a study with more than MOST_TRIALS.
    """
    with _storage(url, must_exist=True) as storage:
        names = sorted(study.study_name for study in storage.get_all_studies())
    if not name and len(names) == 1:
        (name,) = names
    if name not in names:
        there = ", ".join(map(show, names[:20])) or "none"
        wanted = f"there is no study {show(name)}" if name else "say which study with --study"
        raise SpecError([Problem("study", f"{wanted}; the storage has {there}")])
    with _storage(url, must_exist=True) as storage:
        import optuna

        found = optuna.load_study(study_name=name, storage=storage)
        total = storage.get_n_trials(found._study_id)
        if total > MOST_TRIALS:
            raise SpecError([Problem("study", f"it has {total:,} trials; at most {MOST_TRIALS:,} are accepted")])
        trials = found.get_trials(deepcopy=False)
        finished = [_trial_of(one) for one in trials if one.state.is_finished()]
        directions: list[Direction] = ["maximize" if one.name == "MAXIMIZE" else "minimize" for one in found.directions]
        metrics = list(found.metric_names or [])
    return Study(name=name, directions=directions, metrics=metrics, trials=finished), len(trials) - len(finished)


def write_study(url: str, study: Study) -> None:
    """Make a study of this name in the storage, which is made where it is a file that is not there. Raises SpecError
    where the storage has a study of that name."""
    with _storage(url, must_exist=False) as storage:
        import optuna

        trials = [_optuna_trial(one) for one in study.trials]  # what cannot be is found before anything is written
        try:
            made = optuna.create_study(study_name=study.name, storage=storage, directions=study.directions)
        except optuna.exceptions.DuplicatedStudyError:
            raise SpecError([Problem("study", f"{show(study.name)} is there already; give it another name")]) from None
        if len(study.metrics) == len(study.directions):
            made.set_metric_names(study.metrics)
        made.add_trials(trials)


def _trial_of(trial: Any) -> StudyTrial:
    return StudyTrial(
        number=trial.number,
        state=STATES[trial.state.name],
        parameters=dict(trial.params),
        distributions={name: _distribution_of(one) for name, one in trial.distributions.items()},
        values=[number_of(one) for one in trial.values or []],
        reports=[(step, number_of(value)) for step, value in sorted(trial.intermediate_values.items())],
        started_at=_seconds(trial.datetime_start),
        ended_at=_seconds(trial.datetime_complete),
        attributes=dict(trial.user_attrs),
    )


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()  # Optuna's times are this machine's


def _distribution_of(one: Any) -> Distribution:
    from optuna import distributions

    if isinstance(one, distributions.CategoricalDistribution):
        return Distribution(kind="choice", values=list(one.choices))
    if isinstance(one, distributions.IntDistribution):
        step = None if one.step == 1 else one.step
        return Distribution(kind="int", low=one.low, high=one.high, step=step, log=one.log)
    if isinstance(one, distributions.FloatDistribution):
        return Distribution(kind="float", low=one.low, high=one.high, step=one.step, log=one.log)
    raise SpecError([Problem("study", f"a parameter comes from {show(str(one))}, which is no known distribution")])


def optuna_distribution(one: Distribution) -> Any:
    """Return the distribution as Optuna has it. Raises ValueError for ends that do not go together."""
    from optuna import distributions

    if one.kind == "choice":
        return distributions.CategoricalDistribution(one.values)
    assert one.low is not None and one.high is not None, "a range has ends"
    if one.kind == "int":
        low, high, step = int(one.low), int(one.high), int(one.step or 1)
        return distributions.IntDistribution(low, high, log=one.log, step=step)
    return distributions.FloatDistribution(float(one.low), float(one.high), log=one.log, step=one.step)


def _optuna_trial(trial: StudyTrial) -> Any:
    import optuna

    state = {ours: theirs for theirs, ours in STATES.items()}[trial.state]
    values = [float(one) for one in trial.values] if state != "FAIL" else []
    ended = trial.ended_at or trial.started_at or 0.0
    return optuna.trial.FrozenTrial(
        number=trial.number,
        trial_id=-1,
        state=optuna.trial.TrialState[state],
        value=None,
        values=values if values and not any(map(math.isnan, values)) else None,
        datetime_start=datetime.fromtimestamp(trial.started_at if trial.started_at is not None else ended),
        datetime_complete=datetime.fromtimestamp(ended),
        params=dict(trial.parameters),
        distributions={name: optuna_distribution(one) for name, one in trial.distributions.items()},
        user_attrs=dict(trial.attributes),
        system_attrs={},
        intermediate_values={step: float(value) for step, value in trial.reports},
    )


@contextmanager
def _storage(url: str, *, must_exist: bool) -> Iterator[Any]:
    """Open a storage. Its own words on errors may have the password of the URL, so ours name the kind alone."""
    _refuse_url(url, must_exist=must_exist)
    try:
        import optuna
    except ModuleNotFoundError:
        raise SpecError([Problem("storage", "needs the package optuna here: pip install optuna")]) from None
    from sqlalchemy.exc import SQLAlchemyError

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna warns that names of metrics are experimental
        try:
            storage = optuna.storages.RDBStorage(url)
            yield storage
        except (SQLAlchemyError, ModuleNotFoundError, RuntimeError, optuna.exceptions.StorageInternalError) as error:
            words = f"{_without_password(url)} cannot be used: {type(error).__name__}"
            if isinstance(error, ModuleNotFoundError):
                words = f"{_without_password(url)} needs the package {error.name}"
            elif isinstance(error, RuntimeError):  # of another version of Optuna: it says what to do
                words = f"{_without_password(url)}: {' '.join(str(error).split())[:500]}"
            raise SpecError([Problem("storage", words)]) from None
        finally:
            optuna.logging.set_verbosity(before)
            if storage is not None:
                storage.remove_session()
                storage.engine.dispose()


def _refuse_url(url: str, *, must_exist: bool) -> None:
    scheme = url.partition("://")[0]
    if "://" not in url or scheme.partition("+")[0] not in SCHEMES:
        accepted = ", ".join(f"{one}://" for one in SCHEMES)
        raise SpecError([Problem("storage", f"{show(_without_password(url))} is none of {accepted}…")])
    if scheme == "sqlite":
        path = url.removeprefix(FILE)
        if not url.startswith(FILE) or not path or "?" in path or path == ":memory:":
            raise SpecError([Problem("storage", f"{show(url)} names no file: {FILE}studies.db")])
        if must_exist and not Path(path).is_file():
            raise SpecError([Problem("storage", f"there is no file {show(path)}")])


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    account, at, place = rest.rpartition("@")
    user = account.partition(":")[0]
    return f"{scheme}{separator}{user}{at}{place}" if separator else url
