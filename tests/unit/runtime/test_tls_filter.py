"""Goal: plain bytes come out as they went in, and whatever else arrives ends in an error of TLS.

Method: two filters in memory, whose bytes the test carries to and fro.
"""

import random
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.unit.tls.stores import client_tls, key_store, server_tls
from tidelog.config.values import TlsConfig
from tidelog.limits import SEALED_BYTES
from tidelog.runtime.tls_filter import TlsFilter, reason_of
from tidelog.testing.certificates import Authority
from tidelog.tls.contexts import client_context, server_context

AUTHORITY = Authority.create()
SERVER = server_tls(AUTHORITY, "requested")
CLIENT = client_tls(AUTHORITY, "alice")


class Pair:
    """Both sides of one connection."""

    def __init__(
        self, server: TlsConfig = SERVER, client: TlsConfig = CLIENT, host: str = "localhost"
    ) -> None:
        self.server = TlsFilter(server_context(server, "SSL"))
        self.client = TlsFilter(client_context(client), host)
        self.buffer = memoryview(bytearray(1 << 20))

    def shake_hands(self) -> None:
        """Both handshakes; raises what either side does."""
        done = [False, False]
        while not all(done):
            done[0] = done[0] or self.client.handshake()
            self.server.feed(self.client.take())
            done[1] = done[1] or self.server.handshake()
            self.client.feed(self.server.take())

    def read_server(self) -> bytes:
        """What the server makes of what it was fed."""
        return bytes(self.buffer[: self.server.read_into(self.buffer)])


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_bytes_arrive_whole_however_they_are_cut(version: str) -> None:
    pair = Pair(client=replace(CLIENT, enabled_protocols=(version,)))
    pair.shake_hands()
    data = bytes(range(256)) * 400
    sealed = b"".join(pair.client.seal([data[:3], memoryview(data)[3:50_000], data[50_000:]]))
    assert data[:64] not in sealed
    received = b""
    for begin in range(0, len(sealed), 7001):
        pair.server.feed(sealed[begin : begin + 7001])
        received += pair.read_server()
    assert received == data


def test_a_full_buffer_leaves_the_rest_for_later() -> None:
    pair = Pair()
    pair.shake_hands()
    pair.server.feed(*pair.client.seal([b"x" * 40_000]))
    small = memoryview(bytearray(30_000))
    assert pair.server.read_into(small) == 30_000
    assert pair.server.read_into(small) == 10_000


@pytest.mark.parametrize("cuts", [[], [1], [100, 70_000, 70_001, 400_000]])
def test_large_data_is_encrypted_in_pieces(cuts: list[int]) -> None:
    """OpenSSL's buffer keeps the size that it grew to: it never has more than a piece."""
    pair = Pair()
    pair.shake_hands()
    data = random.Random(7).randbytes(7 * SEALED_BYTES + 1)
    chunks = [data[begin:end] for begin, end in pairwise([0, *cuts, len(data)])]
    sealed = pair.client.seal(chunks)
    assert len(sealed) == 8
    assert max(map(len, sealed)) < SEALED_BYTES + (1 << 10), "a record of 16 KiB adds 22 bytes"
    received = b""
    for piece in sealed:
        pair.server.feed(piece)
        received += pair.read_server()
    assert received == data


@pytest.mark.parametrize("name", ["alice", ""])
def test_the_clients_certificate_is_known_if_it_has_one(name: str) -> None:
    pair = Pair(client=client_tls(AUTHORITY, name))
    pair.shake_hands()
    found = pair.server.certificate
    assert (found is not None) == bool(name)
    assert found is None or name.encode() in found


def test_an_end_is_an_end() -> None:
    pair = Pair()
    pair.shake_hands()
    last = b"".join(pair.client.seal([b"last"]))
    pair.client.shut_down()
    pair.server.feed(last + pair.client.take())
    assert pair.read_server() == b"last"
    assert pair.server.has_ended
    pair.server.feed(b"more")
    assert pair.read_server() == b""


def test_a_changed_byte_is_noticed() -> None:
    pair = Pair()
    pair.shake_hands()
    sealed = bytearray(*pair.client.seal([b"pay 10"]))
    sealed[-1] ^= 1
    pair.server.feed(sealed)
    with pytest.raises(ssl.SSLError):
        pair.read_server()


def expired() -> TlsConfig:
    begin = datetime.now(UTC) - timedelta(days=30)
    pem = AUTHORITY.issue("old", ["localhost"], begin=begin, lifetime=timedelta(days=1))
    return replace(SERVER, keystore=key_store(pem))


@pytest.mark.parametrize(
    ("server", "client", "host", "problem"),
    [
        (
            SERVER,
            client_tls(Authority.create()),
            "localhost",
            "the peer's certificate is not accepted",
        ),
        (SERVER, CLIENT, "example.org", "Hostname mismatch"),
        (SERVER, CLIENT, "10.0.0.1", "IP address mismatch"),
        (expired(), CLIENT, "localhost", "certificate has expired"),
        (
            replace(SERVER, truststore=client_tls(Authority.create()).truststore),
            CLIENT,
            "localhost",
            "the peer's certificate is not accepted",
        ),
        (replace(SERVER, client_auth="required"), client_tls(AUTHORITY), "localhost", "peer did"),
        (
            replace(SERVER, enabled_protocols=("TLSv1.3",)),
            replace(CLIENT, enabled_protocols=("TLSv1.2",)),
            "localhost",
            "unsupported protocol",
        ),
    ],
    ids=["authority", "host", "address", "expired", "client", "no client", "version"],
)
def test_a_side_that_is_not_accepted_fails_with_the_reason(
    server: TlsConfig, client: TlsConfig, host: str, problem: str
) -> None:
    with pytest.raises(ssl.SSLError) as caught:
        Pair(server, client, host).shake_hands()
    assert problem in reason_of(caught.value)


@pytest.mark.parametrize(
    "data",
    [b"\0\0\0\x0a\0\x12\0\x03\0\0\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n"],
    ids=["kafka", "http"],
)
def test_what_is_none_of_tls_is_called_that(data: bytes) -> None:
    server = Pair().server
    server.feed(data)
    with pytest.raises(ssl.SSLError) as caught:
        server.handshake()
    assert reason_of(caught.value) == "the peer does not speak TLS"
