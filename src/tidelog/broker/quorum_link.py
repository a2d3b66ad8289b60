"""The quorum's messages on the wire.

Fetches have a connection of their own, because a parked fetch would hold up a vote behind it.
A response that does not parse counts as no response.
"""

from typing import Final

from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.broker.router import Router
from tidelog.config import NodeConfig
from tidelog.env.instant import Instant
from tidelog.kraft import codec as quorum_codec
from tidelog.kraft import fetch_codec
from tidelog.kraft.messages import QuorumFetchRequest, Request, SendRequest
from tidelog.kraft.quorum import Quorum
from tidelog.model import Endpoint
from tidelog.wire import codec
from tidelog.wire import fetch as wire_fetch
from tidelog.wire.api import ApiKey

FETCH_VERSION: Final = quorum_codec.SENT_VERSIONS[ApiKey.FETCH]


class QuorumLink:
    """Carries the quorum's outputs to `peers` and the router, and answers back to it."""

    def __init__(
        self, config: NodeConfig, quorum: Quorum, *, peers: PeerChannels, router: Router
    ) -> None:
        self._config = config
        self._quorum = quorum
        # Answers what came in through it.
        self._router = router
        self._peers = peers
        # Shared by both purposes; only has to differ between requests of one connection.
        self._next_correlation_id = 0
        for node_id, endpoint in config.voters.items():
            if node_id != config.node_id:
                self.set_address(node_id, endpoint)

    def flow(self, now: Instant) -> bool:
        """Moves the quorum's outputs; returns whether there were any."""
        outputs = self._quorum.take_outputs()
        for output in outputs:
            if isinstance(output, SendRequest):
                self._send(output, now)
            else:
                self._router.on_quorum_reply(output.reply_to, output.response)
        return bool(outputs)

    def _send(self, output: SendRequest, now: Instant) -> None:
        self._next_correlation_id = self._next_correlation_id + 1 & 0x7FFFFFFF
        self.set_address(output.peer_id, output.endpoint)
        request, client_id = output.request, f"raft-client-{self._config.node_id}"
        purpose = Purpose.QUORUM_RPC
        if isinstance(request, QuorumFetchRequest):
            purpose = Purpose.QUORUM_FETCH
            fetch = fetch_codec.fetch_request_to_wire(request)
            frame = wire_fetch.pack_request(
                FETCH_VERSION, self._next_correlation_id, client_id, fetch
            )
        else:
            entity = quorum_codec.request_to_entity(request)
            frame = codec.encode_request(entity, self._next_correlation_id, client_id)
        deadline = Instant(now + self._config.quorum.request_timeout_ms)
        self._peers.send(output.peer_id, purpose, [frame], request, deadline)

    def set_address(self, node_id: int, endpoint: Endpoint) -> None:
        """Where a voter, the leader or a bootstrap server is reached."""
        for purpose in (Purpose.QUORUM_FETCH, Purpose.QUORUM_RPC, Purpose.CONTROL):
            self._peers.set_address(node_id, purpose, endpoint)

    def on_answered(
        self, peer_id: int, token: object, frame: memoryview | bytes, now: Instant
    ) -> None:
        """A voter answered. Raises `MalformedFrame`."""
        if isinstance(token, QuorumFetchRequest):
            _, fetched = wire_fetch.parse_response(FETCH_VERSION, frame)
            fetch_response = fetch_codec.fetch_response_of(fetched)
            self._quorum.on_response(peer_id, token, fetch_response, now)
            return
        assert isinstance(token, Request), f"unexpected token {token!r}"
        key = quorum_codec.api_of(token)
        _, entity = codec.decode_response(key, quorum_codec.SENT_VERSIONS[key], frame)
        self._quorum.on_response(peer_id, token, quorum_codec.response_of(entity), now)

    def on_failed(self, peer_id: int, token: object, now: Instant) -> None:
        """A voter did not answer."""
        assert isinstance(token, Request), f"unexpected token {token!r}"
        self._quorum.on_response(peer_id, token, None, now)
