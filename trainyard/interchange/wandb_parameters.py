"""The parameters of W&B's ``sweep.yaml`` as dimensions of a space."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from trainyard.contract.base import JsonObject
from trainyard.spec.problems import Problem, SpecError, show

SPREAD = 3.0  # standard deviations on either side that a range takes of a normal distribution
NORMAL = ("normal", "q_normal", "log_normal", "q_log_normal")

Entry = Callable[[str, JsonObject, list[str]], JsonObject]


def space_of_parameters(parameters: object, remarks: list[str]) -> tuple[dict[str, JsonObject], JsonObject]:
    """Return what varies, and what has one value, by the names that the program's arguments have."""
    if not isinstance(parameters, dict) or not parameters:
        raise SpecError([Problem("parameters", f"must be a map of parameters, not {show(parameters)}")])
    space: dict[str, JsonObject] = {}
    constants: JsonObject = {}
    for name, given in _flat(parameters, "", remarks):
        path = f"parameters.{name}"
        if not isinstance(given, dict):
            raise SpecError([Problem(path, f"must be a map with value, values or a distribution, not {show(given)}")])
        if "value" in given:
            constants[name] = given["value"]
            continue
        entry = _entry(path, given, remarks)
        if len(entry.get("values", [0, 0])) == 1 or ("low" in entry and entry["low"] == entry["high"]):
            constants[name] = first(entry)
        else:
            space[name] = entry
    if not space:
        raise SpecError([Problem("parameters", "nothing varies: every parameter has one value")])
    return space, constants


def _flat(parameters: JsonObject, above: str, remarks: list[str]) -> Iterator[tuple[str, Any]]:
    for key, given in parameters.items():
        name = f"{above}{key}"
        if isinstance(given, dict) and isinstance(given.get("parameters"), dict):
            remarks.append(
                f"parameters.{name}: W&B nests these in wandb.config; here each is an argument of its own, --{name}.…"
            )
            yield from _flat(given["parameters"], f"{name}.", remarks)
        else:
            yield name, given


def _entry(path: str, given: JsonObject, remarks: list[str]) -> JsonObject:
    kind = given.get("distribution") or _guess(path, given)
    if kind in ("categorical", "categorical_w_probabilities"):
        return _choices(path, given, remarks)
    if kind in ("constant",):
        raise SpecError([Problem(path, "is constant and has no value")])
    if kind in NORMAL:
        return _normal(path, str(kind), given, remarks)
    make = RANGES.get(str(kind))
    if make is None:
        accepted = ", ".join(("categorical", "constant", *RANGES, *NORMAL))
        raise SpecError([Problem(f"{path}.distribution", f"{show(kind)} has no counterpart; known are {accepted}")])
    return make(path, given, remarks)


def _guess(path: str, given: JsonObject) -> str:
    """Return what W&B takes where no distribution is named."""
    if "values" in given:
        return "categorical"
    if "mu" in given or "sigma" in given:
        return "normal"
    if "min" in given and "max" in given:
        is_whole = all(isinstance(given[one], int) and not isinstance(given[one], bool) for one in ("min", "max"))
        return "int_uniform" if is_whole else "uniform"
    raise SpecError([Problem(path, f"{show(given)} has neither value, values, min and max, nor a distribution")])


def _choices(path: str, given: JsonObject, remarks: list[str]) -> JsonObject:
    values = given.get("values")
    if not isinstance(values, list) or not values:
        raise SpecError([Problem(f"{path}.values", f"must be a list of values, not {show(values)}")])
    if any(isinstance(one, list | dict) for one in values):
        raise SpecError([Problem(f"{path}.values", f"has a list or a map, which no argument is: {show(values)}")])
    if "probabilities" in given:
        remarks.append(f"{path}.probabilities: choices have no probabilities here; each is equally likely at first")
    return {"values": values}


def number(path: str, given: JsonObject, name: str, default: float | None = None) -> float:
    value = given.get(name, default)
    if isinstance(value, str):  # YAML 1.1 reads 1e-5 as text
        with suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SpecError([Problem(f"{path}.{name}", f"must be a number, not {show(value)}")])
    return value


def _uniform(path: str, given: JsonObject, remarks: list[str]) -> JsonObject:
    return {"low": float(number(path, given, "min")), "high": float(number(path, given, "max"))}


def _int_uniform(path: str, given: JsonObject, remarks: list[str]) -> JsonObject:
    return {"low": int(number(path, given, "min")), "high": int(number(path, given, "max")), "int": True}


def _q_uniform(path: str, given: JsonObject, remarks: list[str]) -> JsonObject:
    return {**_uniform(path, given, remarks), "step": float(number(path, given, "q", 1.0))}


def _log_uniform_values(path: str, given: JsonObject, remarks: list[str]) -> JsonObject:
    found = _uniform(path, given, remarks)
    if found["low"] <= 0:
        raise SpecError([Problem(f"{path}.min", f"a logarithmic range begins above 0, not at {show(found['low'])}")])
    return {**found, "log": True}


def _log_uniform(path: str, given: JsonObject, remarks: list[str]) -> JsonObject:
    """W&B's ends are exponents of e."""
    low, high = number(path, given, "min"), number(path, given, "max")
    if max(abs(low), abs(high)) > 300:
        raise SpecError([Problem(path, f"exp({low:g}) and exp({high:g}) are no ends of a range")])
    return {"low": math.exp(low), "high": math.exp(high), "log": True}


def _q_log(of: Entry) -> Entry:
    def entry(path: str, given: JsonObject, remarks: list[str]) -> JsonObject:
        remarks.append(f"{path}.q: a logarithmic range has no steps here; its values are not rounded")
        return of(path, given, remarks)

    return entry


def _inverse(of: Entry) -> Entry:
    def entry(path: str, given: JsonObject, remarks: list[str]) -> JsonObject:
        remarks.append(
            f"{path}.distribution: {given['distribution']} (denser near the upper end) has no counterpart; it is taken "
            "as logarithmic, which is denser near the lower end"
        )
        return of(path, given, remarks)

    return entry


RANGES: dict[str, Entry] = {
    "uniform": _uniform,
    "int_uniform": _int_uniform,
    "q_uniform": _q_uniform,
    "log_uniform": _log_uniform,
    "log_uniform_values": _log_uniform_values,
    "q_log_uniform": _q_log(_log_uniform),
    "q_log_uniform_values": _q_log(_log_uniform_values),
    "inv_log_uniform": _inverse(_log_uniform),
    "inv_log_uniform_values": _inverse(_log_uniform_values),
}


def _normal(path: str, kind: str, given: JsonObject, remarks: list[str]) -> JsonObject:
    mean, deviation = number(path, given, "mu", 0.0), number(path, given, "sigma", 1.0)
    low, high = mean - SPREAD * deviation, mean + SPREAD * deviation
    words = f"{path}.distribution: {kind} has no counterpart; it is taken as uniform"
    if "log" in kind:
        low, high = math.exp(min(low, 300.0)), math.exp(min(high, 300.0))
        words = f"{path}.distribution: {kind} has no counterpart; it is taken as logarithmic"
    remarks.append(f"{words} from {low:.4g} to {high:.4g}, three standard deviations on either side")
    found: JsonObject = {"low": low, "high": high}
    if "log" in kind:
        return {**found, "log": True}
    return {**found, "step": float(number(path, given, "q", 1.0))} if kind.startswith("q_") else found


def first(entry: JsonObject) -> Any:
    """Return the value of a dimension that a base spec has in its place."""
    return entry["values"][0] if "values" in entry else entry["low"]
