"""Frames come out whole and in order however the stream is cut, and lies about lengths end it."""

import pytest

from tidelog.env.prng import Prng
from tidelog.errors import MalformedFrame
from tidelog.wire.frames import FrameReader


def framed(*payloads: bytes) -> bytes:
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


def fed(reader: FrameReader, data: bytes) -> list[bytes]:
    return [bytes(frame) for frame in reader.feed(data)]


def test_frames_that_arrive_together_come_out_together() -> None:
    assert fed(FrameReader(), framed(b"a", b"bc", b"def")) == [b"a", b"bc", b"def"]


def test_every_cut_of_the_stream_gives_the_same_frames() -> None:
    payloads = [b"first", b"x", b"y" * 300, b"last"]
    stream = framed(*payloads)
    for cut in range(len(stream) + 1):
        reader = FrameReader()
        assert fed(reader, stream[:cut]) + fed(reader, stream[cut:]) == payloads, cut
        assert reader.partial_bytes == 0


def test_a_stream_in_random_pieces_gives_the_same_frames() -> None:
    prng = Prng(1)
    for _ in range(200):
        payloads = [bytes([prng.below(256)]) * prng.between(1, 60) for _ in range(8)]
        stream = framed(*payloads)
        reader, got, position = FrameReader(), [], 0
        while position < len(stream):
            size = prng.between(1, 25)
            got += fed(reader, stream[position : position + size])
            position += size
        assert got == payloads


def test_a_whole_frame_is_a_view_of_what_was_fed() -> None:
    data = bytearray(framed(b"whole"))
    frame = FrameReader().feed(data)[0]
    data[4] = ord("W")
    assert bytes(frame) == b"Whole"


def test_a_frame_in_pieces_outlives_the_pieces() -> None:
    reader = FrameReader()
    first = bytearray(framed(b"in pieces")[:7])
    reader.feed(first)
    first[:] = bytes(len(first))
    kept = reader.feed(framed(b"in pieces")[7:] + framed(b"next")[:5])[0]
    assert fed(reader, framed(b"next")[5:]) == [b"next"]
    assert bytes(kept) == b"in pieces"


def test_only_what_arrived_is_held() -> None:
    reader = FrameReader(max_bytes=1 << 30)
    reader.feed((1 << 30).to_bytes(4, "big") + b"abc")
    assert reader.partial_bytes == 7


@pytest.mark.parametrize("length", [0, -1, -(2**31), 101, 2**31 - 1])
def test_a_length_that_cannot_be_is_refused(length: int) -> None:
    prefix = length.to_bytes(4, "big", signed=True)
    with pytest.raises(MalformedFrame, match=f"`{length}`"):
        FrameReader(max_bytes=100).feed(prefix)
    split = FrameReader(max_bytes=100)
    split.feed(prefix[:2])
    with pytest.raises(MalformedFrame, match=f"`{length}`"):
        split.feed(prefix[2:])


def test_the_longest_allowed_frame_passes() -> None:
    assert fed(FrameReader(max_bytes=100), framed(b"x" * 100)) == [b"x" * 100]
