"""The language model and the ViT, as workers/training/recipes has them: blocks of attention and a two-matrix MLP."""

from dataclasses import dataclass

from trainyard.spec.strategies.costs import Pass, Section
from trainyard.spec.strategies.messages import WHOLE

INDEX = 8  # bytes of a token, or of a class, in a batch
MLP_RATIO = 2
GATHERED = ("all-gather", "reduce-scatter")  # of pieces of a sequence: forward, and backward


@dataclass(frozen=True, slots=True)
class Stream:
    """Activations between the blocks: ``time`` tokens a row. ``is_text``: tensor-parallel ranks have a piece of the
    sequence each, else all of it; queries and keys have rotary positions, in whole precision."""

    time: int
    width: int
    heads: int
    kv_heads: int
    is_text: bool

    def block(self, at: Pass) -> Section:
        section = Section(at, "layers.0.", self.numbers(at) * WHOLE)
        self._attention(section)
        self._mlp(section)
        return section

    def numbers(self, at: Pass) -> float:
        """Return how many numbers a rank holds between two blocks."""
        return at.rows * self.time * self.width / (at.tensor if self.is_text else 1)

    def _exchange(self, section: Section) -> None:
        """Write what brings a whole sequence to matrices that are cut, or their sums back to its pieces."""
        num_bytes = float(section.at.rows * self.time * self.width * WHOLE)
        section.exchange(num_bytes, *(GATHERED if self.is_text else ("all-reduce",)))

    def _attention(self, section: Section) -> None:
        """Norm, projections, attention and residual sum."""
        at, width, between = section.at, self.width, self.numbers(section.at)
        tokens, kv_width = at.rows * self.time, width // self.heads * self.kv_heads
        section.norm("attention_norm", between / width, width)
        self._exchange(section)
        # Under autocast each of the three products rounds the normed input for itself.
        section.keep(tokens * width * (WHOLE if at.small == WHOLE else 3 * at.small))
        for name, outputs in (("query", width), ("key", kv_width), ("value", kv_width)):
            section.linear(f"attention.{name}", tokens, width, outputs, cut="columns")
        queries, keys = tokens * width / at.tensor, tokens * kv_width / at.tensor
        if self.is_text:  # four products and two sums of halves, put together again
            section.move(9 * (queries + keys) * WHOLE, 9.5 * (queries + keys) * WHOLE, operators=20)
            section.move(2 * queries * at.small, 2 * queries * at.small)
        # Keys and values are repeated where groups of queries share them. What comes out is kept by heads, and by
        # tokens: the same, unless queries were put together anew.
        section.keep((4 if self.is_text else 3) * queries * at.small)
        given = queries * at.small + tokens * self.heads / at.tensor * WHOLE
        section.keep(given)
        section.products += given
        if self.kv_heads < self.heads:
            section.move(2 * (queries + keys) * at.small, 2 * (queries + keys) * at.small, operators=2)
        a_head_of_a_row = 4.0 * self.time**2 * (width // self.heads)
        section.work("attention", 4.0 * tokens * self.time * width / at.tensor, 2.5, piece=a_head_of_a_row)
        section.linear("attention.output", tokens, width, width, cut="rows")
        self._exchange(section)
        section.add(between)
        # Gradients of the stream, of what attention gave, of its three inputs; what the MLP had kept is free by then.
        section.need((2 * between + 2 * queries + 3 * keys) * WHOLE)

    def _mlp(self, section: Section) -> None:
        """Norm, two products around a squared ReLU, and the residual sum."""
        at, width, hidden, between = section.at, self.width, MLP_RATIO * self.width, self.numbers(section.at)
        tokens = at.rows * self.time
        inner = tokens * hidden / at.tensor
        section.norm("mlp_norm", between / width, width)
        self._exchange(section)
        section.keep(tokens * width * at.small)
        section.linear("mlp.up", tokens, width, hidden, cut="columns")
        # ReLU keeps what it gives, which the square keeps too, and the second product what it takes.
        section.keep(2 * inner * at.small)
        section.move(5 * inner * at.small, 12 * inner * at.small, operators=2)
        section.linear("mlp.down", tokens, hidden, width, cut="rows")
        self._exchange(section)
        section.add(between)
        # Three gradients around the square, where the input of the second product is free already.
        section.need(2 * between * WHOLE + 2 * inner * at.small)


@dataclass(frozen=True, slots=True)
class GPT:
    layers: int
    width: int
    heads: int
    kv_heads: int
    context: int
    vocabulary: int

    @property
    def stream(self) -> Stream:
        return Stream(self.context, self.width, self.heads, self.kv_heads, is_text=True)

    def sections(self, at: Pass) -> list[Section]:
        return [self._embedding(at), *[self.stream.block(at)] * self.layers, self._end(at)]

    def flow(self, at: Pass) -> float:
        return self.stream.numbers(at) * WHOLE

    def batch_bytes(self, rows: int) -> float:
        return 2.0 * rows * self.context * INDEX

    def _embedding(self, at: Pass) -> Section:
        section, numbers = Section(at), at.rows * self.context * self.width
        section.parameter("embedding.weight", self.vocabulary, self.width, is_cut=True)
        # Backward fills a whole gradient with zeros first, and then adds row by row.
        section.move(2 * numbers * WHOLE, (3 * numbers + self.vocabulary * self.width / at.tensor) * WHOLE)
        section.exchange(numbers * WHOLE, *GATHERED)
        section.keep(at.rows * self.context * INDEX)
        section.need(numbers / at.tensor * WHOLE)
        section.num_modules = 1
        return section

    def _end(self, at: Pass) -> Section:
        section, tokens = Section(at), at.rows * self.context
        section.norm("norm", tokens / at.tensor, self.width)
        section.exchange(tokens * self.width * WHOLE, *GATHERED)
        section.keep(tokens * self.width * at.small)
        section.linear("head", tokens, self.width, self.vocabulary, cut="columns")
        logits = tokens * self.vocabulary / at.tensor
        section.keep(logits * WHOLE + tokens * INDEX)  # the logarithms of the softmax
        section.work("softmax", logits * WHOLE)
        section.exchange(tokens * WHOLE, "all-reduce", "all-reduce")
        section.need(2 * logits * WHOLE)
        return section


@dataclass(frozen=True, slots=True)
class ViT:
    layers: int
    width: int
    heads: int
    patch: int
    channels: int
    size: int
    outputs: int

    @property
    def stream(self) -> Stream:
        return Stream(max(1, self.size // self.patch) ** 2, self.width, self.heads, self.heads, is_text=False)

    def sections(self, at: Pass) -> list[Section]:
        return [self._embedding(at), *[self.stream.block(at)] * self.layers, self._end(at)]

    def flow(self, at: Pass) -> float:
        return self.stream.numbers(at) * WHOLE

    def batch_bytes(self, rows: int) -> float:
        return rows * (self.channels * self.size**2 * WHOLE + INDEX)

    def _embedding(self, at: Pass) -> Section:
        section, numbers = Section(at, "embedding."), self.stream.numbers(at)
        tokens, pixels = at.rows * self.stream.time, self.channels * self.patch**2
        section.parameter("places", self.stream.time, self.width)
        section.linear("pixels", tokens, pixels, self.width, back=1)
        section.keep(tokens * pixels * WHOLE)
        section.move(2 * tokens * pixels * WHOLE, 0.0)
        section.add(numbers)
        section.need(numbers * WHOLE)
        return section

    def _end(self, at: Pass) -> Section:
        section, numbers = Section(at), self.stream.numbers(at)
        section.norm("norm", at.rows * self.stream.time, self.width)
        section.move(numbers * WHOLE, numbers * WHOLE)
        section.linear("head.outputs", at.rows, self.width, self.outputs, bias=True)
        section.keep(at.rows * (self.width * at.small + self.outputs * WHOLE + INDEX))
        section.need(2 * numbers * WHOLE)
        return section
