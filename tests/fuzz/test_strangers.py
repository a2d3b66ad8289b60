"""Damaged frames on connections that have not logged in: EveryRequestIsAnsweredOrClosed.

Each case opens a connection on a listener that asks for a login, brings it into one of the phases
of a login, and sends frames of strangers, most of them damaged. Their senders do not know a
password. Nothing may come of it but the answers of a login, or the end of the connection; no
request stays without one of the two, and no exception leaves the node.

`STRANGERS=1000000` in the environment tries so many, from a first case that `STRANGERS_FIRST` says.
"""

import os
from itertools import islice

from tests.fuzz.mutations import REQUEST_MUTATIONS, mutated
from tests.unit.broker.logged_in import ISSUER, add_user, login_node
from tests.unit.broker.one_node import OneNode
from tests.wire_corpus import wire_corpus
from tidelog.broker.login import Phase
from tidelog.env.effects import Closed, CloseReason, Opened, Received
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.model import ANONYMOUS, Mechanism
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, parse_header
from tidelog.wire.entities import make
from tidelog.wire.frames import FrameReader
from tidelog.wire.values import error_of

CASES = int(os.environ.get("STRANGERS", "4000"))
FIRST = int(os.environ.get("STRANGERS_FIRST", "0"))
SLICE = 100
ALLOWED = {
    ErrorCode.NONE,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
}


def framed(key: ApiKey, version: int, **values: object) -> bytes:
    """A request without its length."""
    return codec.encode_request(make(codec.request_class(key, version), **values), 7, "c")[4:]


def token(text: bytes) -> bytes:
    return framed(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=text)


def choice(mechanism: str, version: int = 1) -> bytes:
    return framed(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)


NAMES = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI")
NAME = {"client_software_name": "c", "client_software_version": "1"}
GREETING = framed(ApiKey.API_VERSIONS, 3, **NAME)
PLAIN_TEXT = b"\0alice\0not-her-password"
FIRST_TEXT = b"n,,n=alice,r=abcdefgh"
FINAL_TEXT = b"c=biws,r=abcdefgh,p=" + b"A" * 43 + b"="
FORGED = ISSUER.token("alice", "second", exp=1)
BEARER_TEXT = b"n,a=alice,\x01auth=Bearer " + FORGED.encode() + b"\x01realm=x\x01\x01"
PHASES = {
    "new": (),
    "greeted": (GREETING,),
    "plain": (choice("PLAIN"),),
    "scram": (choice("SCRAM-SHA-256"),),
    "proof": (choice("SCRAM-SHA-512"), token(FIRST_TEXT)),
    "bearer": (choice("OAUTHBEARER"),),
    "status": (choice("OAUTHBEARER"), token(BEARER_TEXT)),
    "raw bearer": (choice("OAUTHBEARER", 0),),
    "raw plain": (choice("PLAIN", 0),),
    "raw scram": (choice("SCRAM-SHA-256", 0), FIRST_TEXT),
}
"""What brings a connection into a phase."""
FRAMES = (
    *(framed(ApiKey.API_VERSIONS, version, **NAME) for version in range(5)),
    *(choice(name, version) for name in NAMES for version in (0, 1)),
    *(token(text) for text in (PLAIN_TEXT, FIRST_TEXT, FINAL_TEXT, BEARER_TEXT, b"\x01", b"")),
    *(PLAIN_TEXT, FIRST_TEXT, FINAL_TEXT, BEARER_TEXT, b"\x01"),
)


def a_stream(prng: Prng, corpus: list[bytes]) -> tuple[bytes, list[bytes], bool]:
    """Bytes, the frames in them as long as their lengths are honest, and whether all are."""
    frames = list(prng.choice(list(PHASES.values())))
    for _ in range(prng.between(1, 3)):
        frame = prng.choice(FRAMES) if prng.below(4) else prng.choice(corpus)
        frames.append(mutated(prng, frame, REQUEST_MUTATIONS) if prng.below(8) else frame)
    data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    if prng.below(8):
        return data, frames, True
    return mutated(prng, data, REQUEST_MUTATIONS), frames, False


def code_of(request: bytes, answer: bytes) -> ErrorCode:
    """The error in the answer to a request of a login."""
    header, _ = parse_header(memoryview(request))
    version, key = header.api_version, header.api_key
    if key is ApiKey.API_VERSIONS and version > 4:
        version = 0
    return error_of(codec.decode_response(key, version, answer)[1].error_code)


class Door:
    """A node and the strangers that come one after the other."""

    def __init__(self) -> None:
        self.node: OneNode = login_node()
        add_user(self.node, "alice", "wonder-s3cret", Mechanism.SCRAM_SHA_256)
        self.corpus = list(islice((each.request for each in wire_corpus()), 300))
        self.number = 1_000_000

    def knock(self, prng: Prng) -> None:
        """One connection with all that comes of it."""
        node, core, number = self.node, self.node.node, self.number
        self.number += 1
        data, frames, honest = a_stream(prng, self.corpus)
        core.receive(Opened(number, "PLAINTEXT", "10.0.0.1"), node.now)
        connection = node.broker.connections.get(number)
        cut = prng.below(len(data) + 1) if prng.below(3) == 0 else len(data)
        for part in (data[:cut], data[cut:]):
            if part and connection.open:
                core.receive(Received(number, part), node.now)
        core.wake(node.now)
        for effect in core.take_effects():
            node.carry_out(effect)
        answers = bytes(node.sent.pop(number, b""))
        assert (node.closed[-1:] == [number]) is not connection.open
        assert connection.principal is ANONYMOUS
        node.broker.logins.check()
        if connection.open:
            refused = connection.login.phase is Phase.REFUSED
            assert refused or all(slot.answered for slot in connection.slots)
            assert not connection.backlog
            core.receive(Closed(number, CloseReason.PEER), node.now)
        self.judge(frames, FrameReader().feed(answers), honest)

    def judge(self, frames: list[bytes], answers: list[memoryview], honest: bool) -> None:
        """Only answers of a login, as long as it is known what they answer."""
        assert len(answers) <= len(frames) or not honest
        for request, answer in zip(frames, answers, strict=False) if honest else ():
            code = code_of(request, bytes(answer))
            assert code in ALLOWED, f"{code!r}"
            if request[:4] == b"\0\x11\0\0":
                break


def test_of_a_stranger_nothing_comes_but_the_answers_of_a_login():
    door = Door()
    for case in range(FIRST, FIRST + CASES):
        try:
            door.knock(Prng(case))
        except BaseException as cause:
            raise AssertionError(f"case {case}: {cause!r}") from cause
        if case % SLICE == 0:
            door.node.now = Instant(door.node.now + 1000)
            door.node.settle()
            door.node.trace.events.clear()
    assert not door.node.broker.connections.unauthenticated
