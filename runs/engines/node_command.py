"""The command that every engine starts on a machine which it brings, and what that command's environment needs."""

from collections.abc import Sequence


def node_words(interpreter: str, *, attempt: str, server: str, home: str, slots: int) -> list[str]:
    """Return the command as an argument list. ``home`` is a folder of the machine. Nothing in it is secret."""
    return [
        interpreter,
        "-P",  # the working folder may be shared: nothing of it is imported
        "-m",
        "workers.node",
        "--for-attempt",
        attempt,
        "--server",
        server,
        "--home",
        home,
        "--slots",
        str(slots),
    ]


def node_variables(tokens: Sequence[str], *, checkpoints: str, cores: int | None = None) -> dict[str, str]:
    """Return the variables of the command. ``tokens`` are secret: they go by the environment alone, never as an
    argument. ``cores``: how many the ranks may use together, where others may have the machine's other ones."""
    made = {"TRAINYARD_JOIN": " ".join(tokens), "TRAINYARD_CHECKPOINTS": checkpoints}
    return made if cores is None else {**made, "TRAINYARD_CORES": str(cores)}
