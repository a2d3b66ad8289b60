"""Damaged messages end in `ProtocolError`, of which `MalformedFrame` is one, and in nothing else.

100,000 recorded requests and responses are damaged and pushed through everything that looks at
bytes from a peer: framing, headers, the schema codec, the hand-packed Produce and Fetch. Whatever
is accepted must survive being written and read again. Each case has its own seed; a failure prints
it together with the bytes.
"""

import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.fuzz.mutations import REQUEST_MUTATIONS, RESPONSE_MUTATIONS, lie, mutated, random_bytes
from tests.wire_corpus import wire_corpus
from tidelog.env.prng import Prng
from tidelog.errors import MalformedFrame, ProtocolError
from tidelog.wire import fetch, produce
from tidelog.wire.api import ApiKey, RequestHeader, parse_header
from tidelog.wire.codec import decode_request, decode_response, encode_request, encode_response
from tidelog.wire.frames import FrameReader

SEED = 20_261_121
REQUEST_CASES = 70_000
RESPONSE_CASES = 30_000

Target = Callable[[bytes], object]


class Escaped(AssertionError):
    """A decoder raised something else than a `ProtocolError`."""


def fuzz(seed: int, cases: int, make: Callable[[Prng], bytes], target: Target) -> Counter[str]:
    """Runs the target on `cases` inputs; counts how they ended.

    Raises `Escaped` with the seed and the bytes of the first input that ends otherwise.
    """
    ends: Counter[str] = Counter()
    for case in range(cases):
        data = make(Prng(seed + case))
        try:
            target(data)
        except ProtocolError as refused:
            ends[type(refused).__name__] += 1
        except BaseException as cause:
            # A panic in native code is not an `Exception`, and must not hide.
            raise Escaped(f"seed {seed + case}: {cause!r} from {data.hex()}") from cause
        else:
            ends["accepted"] += 1
    return ends


# What a node does with bytes of a client ----------------------------------------------------


def read_request(frame: bytes) -> None:
    """Header and body, as the node's router would; accepted ones are written and read again."""
    header, body = parse_header(frame)
    view = memoryview(frame)
    if header.api_key in (ApiKey.PRODUCE, ApiKey.FETCH):
        hot = produce if header.api_key == ApiKey.PRODUCE else fetch
        request = hot.parse_request(header.api_version, view, body)
        again = hot.pack_request(
            header.api_version, header.correlation_id, header.client_id, request
        )[4:]
        header_again, body_again = parse_header(again)
        assert header_again == header
        assert hot.parse_request(header.api_version, again, body_again) == request
    else:
        entity = decode_request(header, view, body)
        again = encode_request(entity, header.correlation_id, header.client_id)[4:]
        header_again, body_again = parse_header(again)
        assert repr(decode_request(header_again, again, body_again)) == repr(entity)


def receive(stream: bytes) -> None:
    """A connection that delivers the bytes in two pieces."""
    reader = FrameReader(max_bytes=1 << 20)
    cut = len(stream) // 2
    for piece in (stream[:cut], stream[cut:]):
        for frame in reader.feed(piece):
            read_request(bytes(frame))


def make_request(prng: Prng) -> bytes:
    """A damaged request, with its true length or, one time in eight, a damaged stream."""
    request = prng.choice(wire_corpus()).request
    if prng.chance(1, 8):
        return mutated(prng, len(request).to_bytes(4, "big") + request, REQUEST_MUTATIONS)
    frame = mutated(prng, request, REQUEST_MUTATIONS)
    return len(frame).to_bytes(4, "big") + frame


def test_damaged_requests() -> None:
    ends = fuzz(SEED, REQUEST_CASES, make_request, receive)
    assert ends.total() == REQUEST_CASES
    assert ends["MalformedFrame"] > REQUEST_CASES // 3, ends
    assert ends["accepted"] > REQUEST_CASES // 20, ends
    assert ends["ProtocolError"] > 0, "no unsupported version was met"


# What a node does with bytes of another node ------------------------------------------------


def read_response(api_key: ApiKey, version: int, frame: bytes) -> None:
    """Header and body of an answer; accepted ones are written and read again."""
    if api_key in (ApiKey.PRODUCE, ApiKey.FETCH):
        hot = produce if api_key == ApiKey.PRODUCE else fetch
        correlation_id, response = hot.parse_response(version, frame)
        packed = hot.pack_response(version, correlation_id, response)
        again = packed if isinstance(packed, bytes) else b"".join(packed)
        assert hot.parse_response(version, again[4:])[0] == correlation_id
    else:
        correlation_id, entity = decode_response(api_key, version, frame)
        header = RequestHeader(api_key, version, correlation_id, None)
        again = encode_response(header, entity)[4:]
        assert repr(decode_response(api_key, version, again)) == repr((correlation_id, entity))


def test_damaged_responses() -> None:
    def make(prng: Prng) -> bytes:
        index = prng.below(len(wire_corpus()))
        frame = mutated(prng, wire_corpus()[index].response, RESPONSE_MUTATIONS)
        return index.to_bytes(2, "big") + frame

    def target(data: bytes) -> None:
        exchange = wire_corpus()[int.from_bytes(data[:2], "big")]
        read_response(ApiKey(exchange.api_key), exchange.version, data[2:])

    ends = fuzz(SEED, RESPONSE_CASES, make, target)
    assert ends["MalformedFrame"] > RESPONSE_CASES // 3, ends
    assert ends["accepted"] > RESPONSE_CASES // 20, ends


# Bounds ---------------------------------------------------------------------------------------


def test_lies_about_lengths_allocate_nothing() -> None:
    """The biggest frame of the corpus has 9 KiB: no input may make a node hold a megabyte."""
    for exchange in wire_corpus():
        read_request(exchange.request)
    tracemalloc.start()
    try:
        for case in range(3_000):
            prng = Prng(SEED + case)
            frame = lie(prng, lie(prng, prng.choice(wire_corpus()).request))
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            with suppress(ProtocolError):
                read_request(frame)
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < 1 << 20, f"{peak} bytes for {frame.hex()}"
    finally:
        tracemalloc.stop()


# The harness itself ---------------------------------------------------------------------------


def test_the_harness_notices_an_exception_that_escapes() -> None:
    """Canary: a decoder with a hole, and one that panics past `Exception`."""

    class Panic(BaseException):
        pass

    for error in (KeyError("hole"), Panic("native code")):

        def leaky(data: bytes, error: BaseException = error) -> None:
            if data[0] == 0xC0:
                raise error
            raise MalformedFrame("refused")

        with pytest.raises(Escaped, match=r"seed \d+: .* from c0"):
            fuzz(1, 10_000, lambda prng: random_bytes(prng, 4), leaky)


def test_a_case_is_repeated_by_its_seed() -> None:
    assert make_request(Prng(SEED + 77)) == make_request(Prng(SEED + 77))
    assert make_request(Prng(SEED + 77)) != make_request(Prng(SEED + 78))
