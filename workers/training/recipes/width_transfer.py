"""muP for the GPT: a learning rate that was found at one width is right at another (Yang et al. 2022).

Table 3 there says how first weights and learning rates go with the width. The GPT's first weights follow it as they
are (see ``gpt.initialize``; what is drawn with a smaller deviation there starts at zero here). What is left are the
rates, and attention scores that are divided by the width of a head in place of its root (definition 4.1). The number
of heads stays the same, so that heads grow with the width. ``ratio`` is the width over the one at which the rate was
found.
"""

import math

OPTIMIZERS = ("adamw", "sgd")  # for which the table has a column


def rate_scale(parameter: str, ratio: float, optimizer: str) -> float:
    """Return by what the learning rate of a parameter is multiplied, by its name in the whole model."""
    if parameter == "head.weight":
        return 1 / ratio
    is_in_block = not parameter.startswith("embedding.") and "norm" not in parameter
    if optimizer == "sgd":
        return 1.0 if is_in_block else ratio
    return 1 / ratio if is_in_block else 1.0


def score_scale(ratio: float) -> float:
    """Return what attention scores are multiplied by, which are divided by the root of the width of a head already."""
    return 1 / math.sqrt(ratio)
