"""Strangers at the door of a node: what they send before a login, and what may come of it.

A case opens a connection on a listener that asks for a login, brings it into one of the phases of a
login, and sends frames, most of them damaged. Nothing may come of it but the answers of a login, or
the end of the connection; no request stays without one of the two, and no exception leaves the
node. Every eighth case is a user who has logged in and has few rights: recorded requests of all
APIs, damaged, meet the checks of the authorizer.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.fuzz.mutations import REQUEST_MUTATIONS, mutated
from tests.unit.broker.logged_in import ISSUER, add_user, login_node
from tests.unit.broker.one_node import OneNode
from tests.unit.broker.secured_node import CLUSTER, DESCRIBE, add, entry
from tests.wire_corpus import wire_corpus
from tidelog.broker.connections import Connection
from tidelog.broker.login import Phase
from tidelog.config.values import STANDARD_AUTHORIZER
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
LOGIN = (choice("PLAIN"), token(b"\0alice\0wonder-s3cret"))
FOR_OTHERS = {1, *range(52, 60), 62, 63, 64}
"""APIs between nodes; and Fetch, which waits."""


class Stream(NamedTuple):
    """What one connection sends."""

    data: bytes
    frames: list[bytes]
    """In `data`, as long as their lengths are honest."""
    honest: bool
    """Whether they are."""
    damaged: int
    """How many frames are not what a client would send."""


def a_stream(prng: Prng, corpus: Sequence[bytes], begin: Sequence[bytes], known: int) -> Stream:
    """One to three frames behind those that begin it, of the corpus or, `known` times in four, of
    those that make a login."""
    frames, damaged = list(begin), 0
    for _ in range(prng.between(1, 3)):
        frame = prng.choice(FRAMES) if prng.below(4) < known else prng.choice(corpus)
        if prng.below(8):
            frame, damaged = mutated(prng, frame, REQUEST_MUTATIONS), damaged + 1
        frames.append(frame)
    data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    if prng.below(8):
        return Stream(data, frames, True, damaged)
    return Stream(mutated(prng, data, REQUEST_MUTATIONS), frames, False, max(damaged, 1))


def of_a_stranger(prng: Prng, corpus: Sequence[bytes]) -> Stream:
    """What a client sends that has no password."""
    return a_stream(prng, corpus, prng.choice(list(PHASES.values())), 3)


def code_of(request: bytes, answer: bytes) -> ErrorCode:
    """The error in the answer to a request of a login."""
    header, _ = parse_header(memoryview(request))
    version, key = header.api_version, header.api_key
    if key is ApiKey.API_VERSIONS and version > 4:
        version = 0
    return error_of(codec.decode_response(key, version, answer)[1].error_code)


class Door:
    """A node and those who come one after the other."""

    def __init__(self) -> None:
        self.node: OneNode = login_node(
            authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:node;User:ANONYMOUS"
        )
        add_user(self.node, "alice", "wonder-s3cret", Mechanism.SCRAM_SHA_256)
        rights = entry(DESCRIBE, "kafka-cluster", resource_type=CLUSTER, principal="User:alice")
        owner = self.node.client("CONTROLLER")
        assert add(self.node, rights, wire=owner) == [ErrorCode.NONE]
        self.requests = [each.request for each in wire_corpus() if each.api_key not in FOR_OTHERS]
        self.corpus = self.requests[:300]
        self.number = 1_000_000
        # Damaged frames that were sent.
        self.damaged = 0

    def open(self, cases: Iterable[int]) -> None:
        """One connection for each case, which names its bytes; every eighth has logged in."""
        for case in cases:
            prng = Prng(case)
            try:
                if case % 8:
                    self.knock(of_a_stranger(prng, self.corpus))
                else:
                    self.come_in(a_stream(prng, self.requests, LOGIN, 0))
            except BaseException as cause:
                raise AssertionError(f"case {case}: {cause!r}") from cause
            if case % SLICE == 0:
                self.node.now = Instant(self.node.now + 1000)
                self.node.settle()
                self.node.trace.events.clear()
                self.node.closed.clear()

    def knock(self, stream: Stream) -> None:
        """A stranger, with all that comes of it."""
        connection, answers = self._send(stream)
        assert connection.principal is ANONYMOUS
        if connection.open:
            refused = connection.login.phase is Phase.REFUSED
            assert refused or all(slot.answered for slot in connection.slots)
            assert not connection.backlog
            self._leave(connection)
        self.judge(stream.frames, answers, stream.honest)

    def come_in(self, stream: Stream) -> None:
        """A user; that each of its requests is answered or held, the connections check."""
        connection, _ = self._send(stream)
        # A frame without a byte closes the connection, and those that came with it are not read.
        is_read = stream.honest and all(stream.frames)
        assert connection.principal.name == "alice" or not is_read
        self.node.broker.connections.check()
        self._leave(connection)

    def _send(self, stream: Stream) -> tuple[Connection, list[memoryview]]:
        """Opens a connection and sends, in one piece or two; the connection and its answers."""
        node, core, number = self.node, self.node.node, self.number
        self.number += 1
        self.damaged += stream.damaged
        core.receive(Opened(number, "PLAINTEXT", "10.0.0.1"), node.now)
        connection = node.broker.connections.get(number)
        assert connection is not None
        data = stream.data
        cut = number * 7919 % (len(data) + 1) if number % 3 == 0 else len(data)
        for part in (data[:cut], data[cut:]):
            if part and connection.open:
                core.receive(Received(number, part), node.now)
        core.wake(node.now)
        for effect in core.take_effects():
            node.carry_out(effect)
        assert (node.closed[-1:] == [number]) is not connection.open
        node.broker.logins.check()
        return connection, FrameReader().feed(bytes(node.sent.pop(number, b"")))

    def _leave(self, connection: Connection) -> None:
        if connection.open:
            closed = Closed(connection.connection_id, CloseReason.PEER)
            self.node.node.receive(closed, self.node.now)

    def judge(self, frames: list[bytes], answers: list[memoryview], honest: bool) -> None:
        """Only answers of a login, as long as it is known what they answer."""
        assert len(answers) <= len(frames) or not honest
        for request, answer in zip(frames, answers, strict=False) if honest else ():
            code = code_of(request, bytes(answer))
            assert code in ALLOWED, f"{code!r}"
            if request[:4] == b"\0\x11\0\0":
                break
