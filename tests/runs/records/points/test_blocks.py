from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.records.metrics.codec import Columns
from runs.records.points.blocks import Part, decode_block, decode_blocks
from tests.blocks import block_of

# Each block: the layout it has, and how long its two axes are.
layouts = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=8)


def parts_of(layout: int, *sizes: int) -> list[Part]:
    generator = np.random.default_rng(sum(sizes))
    axes = [(generator.integers(0, 99, size), generator.normal(0, 1, size)) for size in sizes]
    series = ([(1, 0), (2, 0), (3, 1)], [(1, 0), (2, 1)], [(3, 0), (3, 1)])[layout]
    return [(pk, Columns(*axes[axis], generator.normal(0, 1, sizes[axis]))) for pk, axis in series]


@settings(max_examples=50, deadline=None)
@given(layouts)
def test_blocks_opened_together_say_what_each_says_alone(layouts: list[tuple[int, int, int]]) -> None:
    blocks = [block_of(parts_of(*layout)) for layout in layouts]
    places = [place for place, _ in decode_blocks(blocks)]
    assert places == sorted(places)
    assert places[-1] == len(blocks) - 1
    # The series that stand once in a block keep all their points in turn, whichever blocks were opened as one.
    for pk in (1, 2):
        alone = [columns for block in blocks for own, columns in decode_block(block) if own == pk]
        together = [columns for _, (own, columns) in decode_blocks(blocks) if own == pk]
        for column in range(3):
            wanted = np.concatenate([np.zeros(0), *(columns[column] for columns in alone)])
            assert np.array_equal(np.concatenate([np.zeros(0), *(part[column] for part in together)]), wanted)
    assert sum(part.size for _, (_, part) in decode_blocks(blocks)) == sum(
        part.size for block in blocks for _, part in decode_block(block)
    )
