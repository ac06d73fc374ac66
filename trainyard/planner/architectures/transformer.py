"""What attention and the two-matrix MLP of a transformer block cost, as GPT and ViT share them."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.planner.architectures.tape import WHOLE, Tape

MLP_RATIO = 2


@dataclass(frozen=True, slots=True)
class Stream:
    """What flows between the blocks: ``time`` tokens a row. ``is_cut``: tensor-parallel ranks have a piece of the
    sequence each, else all of it. ``is_turned``: queries and keys have rotary positions, in whole precision."""

    time: int
    width: int
    heads: int
    kv_heads: int
    is_cut: bool
    is_turned: bool

    @property
    def kv_width(self) -> int:
        return self.width // self.heads * self.kv_heads

    def tokens(self, tape: Tape) -> float:
        """Return how many tokens a rank holds between two blocks."""
        return tape.at.rows * self.time / (tape.at.tensor if self.is_cut else 1)

    def enter(self, tape: Tape) -> None:
        """Write what brings the whole sequence to matrices that are cut: a gathering, and its sum backward."""
        num_bytes = float(tape.at.rows * self.time * self.width * WHOLE)
        for operation in ("all-gather", "reduce-scatter") if self.is_cut else ("all-reduce",):
            tape.exchange(operation, num_bytes)

    leave = enter  # a sum that is handed out by pieces, and their gathering backward; or a sum


def attention(tape: Tape, stream: Stream) -> None:
    """Write norm, projections, attention and residual sum."""
    at, width = tape.at, stream.width
    tokens, between = at.rows * stream.time, stream.tokens(tape) * width
    tape.norm("attention_norm", stream.tokens(tape), width)
    stream.enter(tape)
    # Under autocast each of the three products rounds the normed input for itself.
    tape.keep(tokens * width * (at.small if at.small == WHOLE else 3 * at.small))
    for name, outputs in (("query", width), ("key", stream.kv_width), ("value", stream.kv_width)):
        tape.linear(f"attention.{name}", tokens, width, outputs, cut="columns")
    queries, keys = tokens * width / at.tensor, tokens * stream.kv_width / at.tensor
    if stream.is_turned:
        for numbers in (queries, keys):  # four products and two sums of halves, put together again
            tape.move(9 * numbers * WHOLE, 9.5 * numbers * WHOLE, operators=7, backward_operators=10)
            tape.call(4, 4)
        if at.small != WHOLE:
            tape.move(6 * (queries + keys), 6 * (queries + keys), operators=2)
    tape.call(8, 8)
    # Keys and values are repeated where groups of queries share them. What comes out is kept by heads, and by tokens:
    # the same, unless queries were put together anew.
    tape.keep((4 if stream.is_turned else 3) * queries * at.small)
    tape.keep(queries * at.small + tokens * stream.heads / at.tensor * WHOLE, is_dear=True)
    if stream.is_turned:
        tape.move(2 * queries * at.small, 2 * queries * at.small)
    if stream.kv_heads < stream.heads:
        tape.move(2 * (queries + keys) * at.small, 2 * (queries + keys) * at.small, operators=2)
    piece = 4.0 * stream.time**2 * (width // stream.heads)  # a head of a row
    tape.work("attention", 4.0 * tokens * stream.time * width / at.tensor, 1, 2.5, piece=piece)
    tape.linear("attention.output", tokens, width, width, cut="rows")
    stream.leave(tape)
    tape.add(between)
    # Gradients of the stream, of what attention gave, of its three inputs; what the MLP had kept is free by then.
    tape.need((2 * between + 2 * queries + 3 * keys) * WHOLE)


def mlp(tape: Tape, stream: Stream) -> None:
    """Write norm, two products around a squared ReLU, and the residual sum."""
    at, width, hidden = tape.at, stream.width, MLP_RATIO * stream.width
    tokens, between = at.rows * stream.time, stream.tokens(tape) * width
    inner = tokens * hidden / at.tensor
    tape.norm("mlp_norm", stream.tokens(tape), width)
    stream.enter(tape)
    tape.keep(tokens * width * at.small)
    tape.linear("mlp.up", tokens, width, hidden, cut="columns")
    # ReLU keeps what it gives, which the square keeps too, and the second product what it takes.
    tape.keep(2 * inner * at.small)
    tape.move(5 * inner * at.small, 12 * inner * at.small, operators=2, backward_operators=4)
    tape.linear("mlp.down", tokens, hidden, width, cut="rows")
    stream.leave(tape)
    tape.add(between)
    # Three gradients around the square, where the input of the second product is free already.
    tape.need(2 * between * WHOLE + 2 * inner * at.small)
