"""Outbound connections: every request ends once, in order, and a loss is reported."""

import pytest

from tests.unit.broker.logged_in import PASSWORDS, jaas, login_node
from tidelog.broker.peers import (
    Answered,
    ChannelKey,
    Failed,
    PeerChannels,
    PeerLost,
    PeerReached,
    PeerRefusedLogin,
    Purpose,
)
from tidelog.config.values import JaasSetting
from tidelog.env.effects import Close, CloseReason, Connect, EffectQueue, Send
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.model import Endpoint, Mechanism, Secret
from tidelog.security.listener_logins import NodeSecrets, OwnLogin
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make

LATER = Instant(10_000)


@pytest.fixture
def effects() -> EffectQueue:
    return EffectQueue()


@pytest.fixture
def peers(effects: EffectQueue) -> PeerChannels:
    channels = PeerChannels(effects)
    for peer_id in (2, 3):
        for purpose in Purpose:
            channels.set_address(peer_id, purpose, Endpoint("C", f"host{peer_id}", 9093))
    return channels


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def send(peers: PeerChannels, token: str, deadline: int = LATER, peer_id: int = 2) -> None:
    peers.send(peer_id, Purpose.CONTROL, [token.encode()], token, Instant(deadline))


def connected(peers: PeerChannels, effects: EffectQueue, token: str = "first") -> int:
    """A channel to peer 2 with one request sent; the connection id."""
    send(peers, token)
    (connect,) = effects.take()
    peers.on_connected(connect.connection)
    peers.flush()
    assert effects.take() == [Send(connect.connection, [token.encode()])]
    assert peers.take_outputs() == [PeerReached(2)]
    return connect.connection


def test_the_first_request_connects_and_leaves_once_connected(peers, effects):
    send(peers, "a")
    send(peers, "b")
    assert effects.take() == [Connect(-1, "host2", 9093, "C")]
    peers.flush()
    assert effects.take() == []
    peers.on_connected(-1)
    peers.flush()
    assert effects.take() == [Send(-1, [b"a", b"b"])]
    peers.flush()
    assert effects.take() == []
    assert peers.take_outputs() == [PeerReached(2)]


def test_requests_of_one_tick_leave_as_one_send(peers, effects):
    connection = connected(peers, effects)
    send(peers, "x")
    send(peers, "y")
    assert effects.take() == []
    peers.flush()
    assert effects.take() == [Send(connection, [b"x", b"y"])]


def test_no_two_requests_of_a_connection_have_the_same_correlation_id(peers, effects):
    request = make(codec.request_class(ApiKey.API_VERSIONS, 0))
    for token in ("a", "b", "c"):
        peers.ask(2, Purpose.CONTROL, request, "broker-1", token, LATER)
    (connect,) = effects.take()
    peers.on_connected(connect.connection)
    peers.flush()
    (sent,) = effects.take()
    assert len({bytes(chunk)[8:12] for chunk in sent.chunks}) == 3


def test_responses_are_matched_by_order(peers, effects):
    connection = connected(peers, effects, "a")
    send(peers, "b")
    peers.on_received(connection, framed(b"ra") + framed(b"rb"))
    assert [(o.token, bytes(o.frame)) for o in peers.take_outputs()] == [("a", b"ra"), ("b", b"rb")]


def test_a_response_in_pieces_is_one_answer(peers, effects):
    connection = connected(peers, effects)
    data = framed(b"response")
    for index in range(len(data) - 1):
        peers.on_received(connection, data[index : index + 1])
        assert not peers.has_outputs
    peers.on_received(connection, data[-1:])
    (answered,) = peers.take_outputs()
    assert (answered.peer_id, answered.purpose) == (2, Purpose.CONTROL)
    assert bytes(answered.frame) == b"response"


def test_half_a_response_of_an_old_connection_is_forgotten_with_it(peers, effects):
    connection = connected(peers, effects)
    peers.on_received(connection, framed(b"response")[:6])
    peers.on_closed(connection, CloseReason.PEER)
    peers.take_outputs()
    again = connected(peers, effects)
    peers.on_received(again, framed(b"whole"))
    assert [bytes(o.frame) for o in peers.take_outputs()] == [b"whole"]


def test_a_refused_connect_fails_what_waited_for_it(peers, effects):
    send(peers, "a")
    send(peers, "b")
    peers.on_closed(-1, CloseReason.REFUSED)
    peers.check()
    assert peers.take_outputs() == [
        PeerLost(2, CloseReason.REFUSED),
        Failed(2, Purpose.CONTROL, "a", CloseReason.REFUSED),
        Failed(2, Purpose.CONTROL, "b", CloseReason.REFUSED),
    ]
    effects.take()
    send(peers, "c")
    assert effects.take() == [Connect(-2, "host2", 9093, "C")]


def test_unsent_bytes_do_not_leak_into_the_next_connection(peers, effects):
    connection = connected(peers, effects)
    send(peers, "lost")
    peers.on_closed(connection, CloseReason.PEER)
    peers.flush()
    assert effects.take() == []
    peers.take_outputs()
    assert connected(peers, effects, "next") != connection


def test_purposes_and_peers_have_separate_connections(peers, effects):
    peers.send(2, Purpose.CONTROL, [b"c"], "c", LATER)
    peers.send(2, Purpose.QUORUM_RPC, [b"q"], "q", LATER)
    peers.send(3, Purpose.CONTROL, [b"d"], "d", LATER)
    assert [effect.host for effect in effects.take()] == ["host2", "host2", "host3"]
    peers.on_closed(-1, CloseReason.ERROR)
    assert [output.token for output in peers.take_outputs() if isinstance(output, Failed)] == ["c"]


def test_the_oldest_request_times_out_the_whole_connection(peers, effects):
    connection = connected(peers, effects, "old")
    send(peers, "young", deadline=LATER + 500)
    assert peers.deadline() == LATER
    peers.wake(Instant(LATER - 1))
    assert not peers.has_outputs
    peers.wake(LATER)
    peers.check()
    assert effects.take() == [Close(connection)]
    assert peers.take_outputs() == [
        PeerLost(2, CloseReason.TIMEOUT),
        Failed(2, Purpose.CONTROL, "old", CloseReason.TIMEOUT),
        Failed(2, Purpose.CONTROL, "young", CloseReason.TIMEOUT),
    ]
    assert peers.deadline() is None


def test_silence_ends_patience_early_and_the_first_byte_of_an_answer_gives_it_back(peers, effects):
    connection = connected(peers, effects, "a")
    peers.on_received(connection, framed(b"ra"))
    peers.take_outputs()
    peers.send(2, Purpose.CONTROL, [b"b"], "b", LATER, Instant(50))
    peers.flush()
    effects.take()
    assert peers.deadline() == 50
    answer = framed(b"rb")
    peers.on_received(connection, answer[:1])
    assert peers.deadline() == LATER
    peers.wake(Instant(50))
    assert not peers.has_outputs
    peers.on_received(connection, answer[1:])
    assert [output.token for output in peers.take_outputs()] == ["b"]
    peers.send(2, Purpose.CONTROL, [b"c"], "c", LATER, Instant(60))
    peers.flush()
    peers.wake(Instant(60))
    assert peers.take_outputs() == [
        PeerLost(2, CloseReason.TIMEOUT),
        Failed(2, Purpose.CONTROL, "c", CloseReason.TIMEOUT),
    ]


def test_a_connect_that_hangs_times_out_with_its_request(peers, effects):
    send(peers, "a", deadline=50)
    effects.take()
    peers.wake(Instant(50))
    assert effects.take() == [Close(-1)]
    assert Failed(2, Purpose.CONTROL, "a", CloseReason.TIMEOUT) in peers.take_outputs()
    peers.on_connected(-1)
    peers.on_received(-1, framed(b"late"))
    peers.on_closed(-1, CloseReason.PEER)
    assert not peers.has_outputs


@pytest.mark.parametrize(
    "data", [framed(b"unasked"), b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"]
)
def test_bytes_that_are_no_response_end_the_connection(peers, effects, data):
    connection = connected(peers, effects)
    peers.on_received(connection, framed(b"fine"))
    peers.take_outputs()
    peers.on_received(connection, data)
    assert effects.take() == [Close(connection)]
    assert peers.take_outputs() == [PeerLost(2, CloseReason.ERROR)]
    peers.check()


def test_a_new_address_counts_from_the_next_connection_on(peers, effects):
    connection = connected(peers, effects)
    peers.set_address(2, Purpose.CONTROL, Endpoint("C", "elsewhere", 1))
    send(peers, "still there")
    assert effects.take() == []
    peers.on_closed(connection, CloseReason.PEER)
    send(peers, "moved")
    assert effects.take() == [Connect(-2, "elsewhere", 1, "C")]


def test_only_peers_with_an_address_are_known(peers):
    assert peers.knows(3, Purpose.PROBE)
    assert not peers.knows(4, Purpose.PROBE)


def test_a_probe_connects_once_and_then_reports_whether_it_is_up(peers, effects):
    assert peers.probe(2) is False
    assert effects.take() == [Connect(-1, "host2", 9093, "C")]
    assert peers.probe(2) is False
    assert effects.take() == []
    peers.on_connected(-1)
    assert peers.probe(2) is True
    peers.on_closed(-1, CloseReason.PEER)
    assert peers.take_outputs() == [PeerReached(2), PeerLost(2, CloseReason.PEER)]
    assert peers.probe(2) is False
    assert effects.take() == [Connect(-2, "host2", 9093, "C")]


def test_giving_up_fails_requests_and_makes_no_suspicion(peers, effects):
    connection = connected(peers, effects, "a")
    send(peers, "b")
    peers.give_up(2, Purpose.CONTROL)
    peers.check()
    assert effects.take() == [Close(connection)]
    assert peers.take_outputs() == [
        Failed(2, Purpose.CONTROL, "a", CloseReason.TIMEOUT),
        Failed(2, Purpose.CONTROL, "b", CloseReason.TIMEOUT),
    ]
    peers.flush()
    assert effects.take() == []
    peers.give_up(2, Purpose.CONTROL)
    assert effects.take() == []
    send(peers, "c")
    assert effects.take() == [Connect(connection - 1, "host2", 9093, "C")]


def test_a_channel_key_is_its_pair():
    assert ChannelKey((2, Purpose.PROBE)) == (2, Purpose.PROBE)


@pytest.mark.parametrize("seed", range(20))
def test_every_request_ends_exactly_once(seed):
    """Random sends, connects, answers, closes and timeouts; then everything is cut."""
    effects = EffectQueue()
    peers = PeerChannels(effects)
    peers.set_address(2, Purpose.CONTROL, Endpoint("C", "host2", 9093))
    prng, now = Prng(seed), 0
    sent: list[int] = []
    ended: list[int] = []
    live: int | None = None
    for token in range(400):
        now += prng.below(30)
        match prng.below(6):
            case 0 | 1 | 2:
                sent.append(token)
                peers.send(2, Purpose.CONTROL, [b"x"], token, Instant(now + 100))
            case 3 if live is not None:
                peers.on_received(live, framed(b"r"))
            case 4 if live is not None:
                peers.on_connected(live)
            case 5 if live is not None and prng.chance(1, 4):
                peers.on_closed(live, prng.choice(list(CloseReason)))
        peers.wake(Instant(now))
        peers.flush()
        peers.check()
        for effect in effects.take():
            if isinstance(effect, Connect):
                live = effect.connection
        ended += [o.token for o in peers.take_outputs() if isinstance(o, Answered | Failed)]
    peers.wake(Instant(now + 100_000))
    ended += [o.token for o in peers.take_outputs() if isinstance(o, Answered | Failed)]
    assert ended == sent


# Logins -------------------------------------------------------------------------------------


class Pair:
    """Channels to a peer whose listener asks for a login: a whole node, which gets the messages of
    logins. Requests are answered here."""

    def __init__(self, password: str = PASSWORDS["node"]) -> None:
        self.node = login_node(connections_max_reauth_ms="10000")
        self.effects = EffectQueue()
        setting = JaasSetting("s", Secret(jaas(Mechanism.PLAIN, "node", password) + ";"))
        own = OwnLogin(Mechanism.PLAIN, setting, NodeSecrets.from_seed(3))
        self.peers = PeerChannels(self.effects, {"C": own})
        self.peers.set_address(2, Purpose.CONTROL, Endpoint("C", "host2", 9093))
        # Requests that have no answer yet.
        self.open_requests = 0
        # The other end of the one connection.
        self.wire = self.node.client()

    def ask(self) -> None:
        self.peers.send(2, Purpose.CONTROL, [b"request"], "token", Instant(10**9))

    def settle(self) -> None:
        """Carries bytes between both ends until nothing moves."""
        moved = True
        while moved:
            self.peers.wake(self.node.now)
            self.peers.flush()
            taken = self.effects.take()
            for effect in taken:
                if isinstance(effect, Connect):
                    self.peers.on_connected(effect.connection)
                elif isinstance(effect, Send):
                    data = b"".join(map(bytes, effect.chunks))
                    if data == b"request":
                        self.open_requests += 1
                    else:
                        self.wire.send(data)
            self.node.settle()
            frames = [] if self.open_requests else self.wire.frames()
            for frame in frames:
                self.peers.on_received(-1, framed(frame))
            moved = bool(taken or frames)
        self.peers.check()

    def answer(self) -> None:
        """Answers the oldest request, before anything that the node has said since."""
        self.open_requests -= 1
        self.peers.on_received(-1, framed(b"answer"))
        self.settle()

    @property
    def logins(self) -> int:
        return self.node.broker.logins.succeeded["PLAINTEXT"]


def test_a_channel_logs_in_before_its_first_request():
    pair = Pair()
    pair.ask()
    pair.settle()
    assert (pair.logins, pair.open_requests) == (1, 1)
    pair.answer()
    outputs = pair.peers.take_outputs()
    assert outputs == [PeerReached(2), Answered(2, Purpose.CONTROL, "token", b"answer")]


def test_a_login_that_is_refused_fails_the_requests_and_makes_no_suspicion():
    pair = Pair(password="wrong")
    pair.ask()
    pair.settle()
    pair.node.advance(100)
    pair.settle()
    reached, refused, failed = pair.peers.take_outputs()
    assert reached == PeerReached(2)
    assert isinstance(refused, PeerRefusedLogin)
    assert "SASL_AUTHENTICATION_FAILED" in refused.reason
    assert failed == Failed(2, Purpose.CONTROL, "token", CloseReason.ERROR)
    assert pair.open_requests == 0


def test_a_session_is_renewed_between_the_requests_before_and_behind_it():
    pair = Pair()
    pair.ask()
    pair.settle()
    assert pair.peers.deadline() is not None
    pair.node.advance(9500)
    pair.settle()
    pair.ask()
    pair.settle()
    assert (pair.logins, pair.open_requests) == (1, 1), "the second request waits"
    pair.answer()
    assert (pair.logins, pair.open_requests) == (2, 1)
    pair.answer()
    answered = [each for each in pair.peers.take_outputs() if isinstance(each, Answered)]
    assert len(answered) == 2
