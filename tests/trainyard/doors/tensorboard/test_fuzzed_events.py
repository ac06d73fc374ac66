"""Whatever bytes lie in an event file, reading it ends, and gives records that the contract takes."""

from __future__ import annotations

from hypothesis import strategies as st
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2

from tests.fuzzing import fuzz, mutated
from trainyard.contract.records import decode_record, encode_record
from trainyard.doors.gathering import Gathering
from trainyard.doors.tensorboard.event_files import record, split
from trainyard.doors.tensorboard.events import Translator


def event(**value: object) -> bytes:
    made = summary_pb2.Summary.Value(tag="loss", **value)
    return event_pb2.Event(wall_time=5.0, step=3, summary=summary_pb2.Summary(value=[made])).SerializeToString()


NUMBER = event(simple_value=0.5)
TENSOR = event(tensor=tensor_pb2.TensorProto(dtype=2, double_val=[1.5]))
BINS = event(histo=summary_pb2.HistogramProto(min=0, max=1, bucket_limit=[0.5, 1], bucket=[1, 2]))


def test_any_bytes_are_read_as_events() -> None:
    def check(body: bytes) -> None:
        gathering = Gathering()
        Translator(gathering).take([NUMBER, body, NUMBER])
        for one in gathering.take():
            decode_record(encode_record(one))

    fuzz(mutated(NUMBER, TENSOR, BINS), check, "bodies of events")


def test_a_changed_byte_of_a_file_costs_one_record_or_the_rest_and_is_said() -> None:
    data = record(NUMBER) * 3

    def check(change: tuple[int, int]) -> None:
        place, bits = change
        changed = bytearray(data)
        changed[place] ^= bits
        piece = split(bytes(changed))
        assert len(piece.damages) == 1 and set(piece.bodies) <= {NUMBER}
        assert len(piece.bodies) == 2 or piece.is_broken

    fuzz(st.tuples(st.integers(0, len(data) - 1), st.integers(1, 255)), check, "damaged event files")
