"""The command that every engine starts on a machine which it brings, and what that command's environment needs."""

from collections.abc import Sequence

from runs.engines.machine_system import MachineRequest


def node_words(interpreter: str, request: MachineRequest, *, server: str, home: str) -> list[str]:
    """Return the command as an argument list. ``home`` is a folder of the machine. Nothing in it is secret."""
    program = [
        interpreter,
        "-P",
        "-m",
        "workers.node",
    ]  # -P: the working folder may be shared: nothing of it is imported
    about = ["--server", server, "--home", home, "--slots", str(request.slots)]
    return [*program, "--for-attempt", request.attempt, *about]


def node_variables(tokens: Sequence[str], *, checkpoints: str, cores: int | None = None) -> dict[str, str]:
    """Return the variables of the command. ``tokens`` are secret: they go by the environment alone, never as an
    argument. ``cores``: how many the ranks may use together, where others may have the machine's other ones."""
    made = {"TRAINYARD_JOIN": " ".join(tokens), "TRAINYARD_CHECKPOINTS": checkpoints}
    return made if cores is None else {**made, "TRAINYARD_CORES": str(cores)}
