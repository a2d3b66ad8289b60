"""The quorum's messages on the wire.

Fetches have a connection of their own, because a parked fetch would hold up a vote behind it.
A response that does not parse counts as no response.

Which versions a peer knows is not known before its metadata is fetched. Apache Kafka before 4.1
does not know our Fetch, and before 4.0 our Vote; it closes the connection on what it does not know.
So when a peer has closed the connection on `MOST_CUT` of one of them in a row, the next ones go in
the version before. After `OLDER_FOR_MS` one is tried in the newest again: a peer that knows it may
have ended twice. The version before has no high watermark (KIP-1166), so its leader holds the fetch
until there is a record, and what was committed meanwhile comes late. It has no pre-vote (KIP-996)
either: who asks for one is answered here that the peer knows none, and does without.
"""

from dataclasses import replace
from typing import Final

from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.broker.router import Router
from tidelog.config import NodeConfig
from tidelog.env.effects import CloseReason
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft import codec as quorum_codec
from tidelog.kraft import fetch_codec
from tidelog.kraft.messages import (
    QuorumFetchRequest,
    Request,
    SendRequest,
    VoteRequest,
    VoteResponse,
)
from tidelog.kraft.quorum import Quorum
from tidelog.model import NO_LEADER, Endpoint
from tidelog.wire import codec
from tidelog.wire import fetch as wire_fetch
from tidelog.wire.api import ApiKey

FETCH_VERSION: Final = quorum_codec.SENT_VERSIONS[ApiKey.FETCH]
MAY_BE_OLDER: Final = (QuorumFetchRequest, VoteRequest)
"""What goes in the version before where a peer does not know the newest."""
MOST_CUT: Final = 2
"""A peer that ends by itself rarely cuts two in a row without an answer between."""
OLDER_FOR_MS: Final = 10_000
"""How long a peer that has cut so many gets the version before."""


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
        # How often in a row a peer has closed the connection on requests of a kind in the newest
        # version, and when it did last; an answer in that version ends the row.
        self._cut: dict[tuple[int, type[Request]], tuple[int, Instant]] = {}
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
        self.set_address(output.peer_id, output.endpoint)
        request, client_id = output.request, f"raft-client-{self._config.node_id}"
        deadline = Instant(now + self._config.quorum.request_timeout_ms)
        is_older = self._wants_older(output.peer_id, request, now)
        if isinstance(request, QuorumFetchRequest):
            fetch = fetch_codec.fetch_request_to_wire(request)
            correlation_id = self._peers.next_correlation_id()
            frame = wire_fetch.pack_request(
                FETCH_VERSION - is_older, correlation_id, client_id, fetch
            )
            self._peers.send(output.peer_id, Purpose.QUORUM_FETCH, [frame], request, deadline)
        elif isinstance(request, VoteRequest) and request.pre_vote and is_older:
            unknown = VoteResponse(ErrorCode.UNSUPPORTED_VERSION, NO_LEADER, 0)
            self._quorum.on_response(output.peer_id, request, unknown, now)
        else:
            entity = quorum_codec.request_to_entity(request, is_older=is_older)
            purpose = Purpose.QUORUM_RPC
            self._peers.ask(output.peer_id, purpose, entity, client_id, request, deadline)

    def _wants_older(self, peer_id: int, request: Request, now: Instant) -> bool:
        count, last = self._cut.get((peer_id, type(request)), (0, now))
        return count >= MOST_CUT and now < last + OLDER_FOR_MS

    def set_address(self, node_id: int, endpoint: Endpoint) -> None:
        """Where a voter, the leader or a bootstrap server is reached. An address from a message has
        no name of a listener. It is one of controllers, at which this node must log in."""
        if not endpoint.listener:
            endpoint = replace(endpoint, listener=self._config.controller_listener_names[0])
        for purpose in (Purpose.QUORUM_FETCH, Purpose.QUORUM_RPC, Purpose.CONTROL):
            self._peers.set_address(node_id, purpose, endpoint)

    def on_answered(
        self, peer_id: int, token: object, frame: memoryview | bytes, now: Instant
    ) -> None:
        """A voter answered. Raises `MalformedFrame`."""
        assert isinstance(token, Request), f"unexpected token {token!r}"
        if not self._wants_older(peer_id, token, now):
            self._cut.pop((peer_id, type(token)), None)
        # Where a request may go in the version before, its answer is the same in both.
        if isinstance(token, QuorumFetchRequest):
            _, fetched = wire_fetch.parse_response(FETCH_VERSION, frame)
            fetch_response = fetch_codec.fetch_response_of(fetched)
            self._quorum.on_response(peer_id, token, fetch_response, now)
            return
        key = quorum_codec.api_of(token)
        _, entity = codec.decode_response(key, quorum_codec.SENT_VERSIONS[key], frame)
        self._quorum.on_response(peer_id, token, quorum_codec.response_of(entity), now)

    def on_failed(
        self, peer_id: int, token: object, now: Instant, reason: CloseReason | None = None
    ) -> None:
        """A voter did not answer; `reason` is why the connection ended, if it did."""
        assert isinstance(token, Request), f"unexpected token {token!r}"
        if reason is CloseReason.PEER and isinstance(token, MAY_BE_OLDER):
            count, last = self._cut.get((peer_id, type(token)), (0, None))
            # Requests of one connection end at once.
            if last != now and not self._wants_older(peer_id, token, now):
                self._cut[peer_id, type(token)] = count + 1, now
        self._quorum.on_response(peer_id, token, None, now)
