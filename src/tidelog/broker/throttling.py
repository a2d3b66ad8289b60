"""Clients that go beyond their quotas wait: the one seat where requests meet quotas.

| quota | counted | the client waits |
| --- | --- | --- |
| `producer_byte_rate` | the bytes of a Produce, when it comes | as long as the excess takes |
| `consumer_byte_rate` | the bytes of a fetch's answer | likewise, and is refused for a second at \
most |
| `request_percentage` | time of loop and of `Compute`, measured outside | for a second at most |
| `controller_mutation_rate` | partitions that are created or deleted | until its debt is paid |
| `connection_creation_rate` | connections of an address | for a second at most, and is cut |
| none | how long the followers of a partition lag that it writes to | for three seconds at most |

The request that goes beyond a quota is carried out. Its answer leaves when it is ready, with the
pause in `throttle_time_ms`, and none of the connection's further requests is handled before that
time is over (`Connections.mute`). A client that keeps the pause by itself notices nothing; one that
does not waits in its socket, and nothing is dropped. A fetch that comes while its client is beyond
the quota is answered without records: an answer may be as large as a batch is, which is much of
what a small quota allows. Kafka reads first, and leaves the records out if they go beyond it; here
they leave, and the pause lies behind them.

Nodes that copy records or keep the quorum are not clients: nothing is counted on the listeners
between nodes, nor of what needs CLUSTER_ACTION, nor of the fetch of a follower
(*ReplicationIsNeverMuted*).

The last line has no quota and always holds (`LeaderState.pause_of_writers_ms`), in Produce alone:
clients that write faster than followers fetch wait for them, so no client can end an ISR.

Without any quota a request costs the test of `is_on`. With one, a connection looks its limits up
once, and again when quotas, user or client id have changed.

Source: KIP-124, KIP-219, KIP-599, KIP-612.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.broker.api.checks import CLUSTER_ACTION, Asked, Check
from tidelog.broker.api.k58_envelope import EnvelopedContext
from tidelog.broker.api.mutations import charge
from tidelog.broker.connections import Connection, Connections, RequestContext
from tidelog.config import NodeConfig
from tidelog.env.disk import FileSlice
from tidelog.env.effects import Chunk
from tidelog.env.instant import Instant
from tidelog.env.steps import Pauses, Steps
from tidelog.limits import MAX_THROTTLE_MS
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.quotas import CONNECTION, FETCH, MUTATION, PRODUCE, REQUEST
from tidelog.security.client_quotas import ClientQuotas, Limit, Limits
from tidelog.security.quota_meters import QuotaWindow, RateMeter
from tidelog.wire.api import ApiKey

REPLICATION: Final = "replication"
"""What makes clients wait that write faster than followers fetch; no quota has that name."""
_NS_PER_PERCENT: Final = 10_000_000
"""Of a second."""


class Throttling:
    """The quotas of one node's clients."""

    def __init__(self, config: NodeConfig, connections: Connections, steps: Steps) -> None:
        self._connections = connections
        # The driver measures a step that has a connection.
        self._steps = steps
        self._exempt = config.listeners_between_nodes
        # Partitions of a topic whose creator names no number.
        self._usual = config.controller.num_partitions
        broker, controller = config.broker, config.controller
        self._window = QuotaWindow(broker.quota_window_num, broker.quota_window_size_seconds * 1000)
        of_mutations = QuotaWindow(
            controller.quota_window_num, controller.quota_window_size_seconds * 1000
        )
        self.quotas = ClientQuotas(self._window, of_mutations)
        # Whether any client has a limit.
        self.is_on = False
        self.pauses = Pauses()

    def on_image(self, image: MetadataImage) -> None:
        """The node has published this image."""
        self.quotas.follow(image.quotas)
        self.is_on = self.quotas.limits_clients

    # Requests ------------------------------------------------------------------------------

    def on_request(
        self,
        key: ApiKey,
        requires: tuple[Check, ...],
        context: RequestContext,
        size_bytes: int,
        now: Instant,
    ) -> None:
        """A request has come, and is handled next. Only the handler of Fetch knows who fetches."""
        connection = context.connection
        if self._steps.connection_id:
            # What follows is not its work.
            self._steps.begin(key.name)
        if connection.listener in self._exempt or requires is CLUSTER_ACTION or key is ApiKey.FETCH:
            return
        login = connection.login
        if login is not None and not login.is_ready:
            return
        limits = self._limits_of(context, now)
        if limits.produce is not None and key is ApiKey.PRODUCE:
            self._count(context, PRODUCE, limits.produce, size_bytes, now)
        if limits.request is not None:
            self._charge_time(context, limits, now)

    def most_fetched_bytes(self, context: RequestContext, most: int, now: Instant) -> int:
        """At most so many bytes may be in the answer to a consumer's fetch, which begins."""
        if context.listener in self._exempt:
            return most
        limits = self._limits_of(context, now)
        if limits.request is not None:
            self._charge_time(context, limits, now)
        if limits.fetch is None:
            return most
        return max(1, min(most, int(limits.fetch.bound * self._window.least_ms / 1000)))

    def refuses_fetch(self, context: RequestContext, now: Instant) -> bool:
        """Whether a consumer's fetch gets no records, because its client is beyond its quota."""
        if not self.is_on or context.listener in self._exempt:
            return False
        limit = self._limits_of(context, now).fetch
        pause_ms = 0 if limit is None else limit.meter.refusal_ms(limit.bound, now)
        self._pause(context, FETCH, min(self._window.sample_ms, pause_ms), now)
        return pause_ms > 0

    def on_fetched(self, context: RequestContext, answer: list[Chunk], now: Instant) -> None:
        """The framed answer to a consumer's fetch is there."""
        if context.listener in self._exempt:
            return
        limit = self._limits_of(context, now).fetch
        if limit is not None:
            head = answer[0]
            assert not isinstance(head, FileSlice), "an answer begins with its length"
            self._count(context, FETCH, limit, int.from_bytes(head[:4], "big"), now)

    def _count(
        self,
        context: RequestContext,
        name: str,
        limit: Limit[RateMeter],
        size_bytes: int,
        now: Instant,
    ) -> None:
        limit.meter.record(size_bytes, now)
        self._pause(context, name, limit.meter.pause_ms(limit.bound, now), now)

    def on_mutations(
        self, context: RequestContext | EnvelopedContext, asked: Asked, now: Instant
    ) -> None:
        """The controller of this node decides next what a client wants to create or delete. If it
        came in an envelope, the broker that sent it makes its client wait."""
        header = context.header
        if isinstance(context, EnvelopedContext):
            client_id = header.client_id or ""
            limits = self.quotas.limits_of(context.principal.name, client_id, now)
        else:
            limits = self._limits_of(context, now)
        if limits.mutation is None:
            return
        pause_ms = charge(
            header.api_key, header.api_version, asked, limits.mutation, self._usual, now
        )
        if isinstance(context, EnvelopedContext):
            context.throttle_ms = pause_ms
        else:
            self._pause(context, MUTATION, pause_ms, now)

    def on_ahead_of_followers(self, context: RequestContext, pause_ms: int, now: Instant) -> None:
        """A client has written to a partition whose followers do not keep up."""
        self._pause(context, REPLICATION, pause_ms, now)

    def on_reported(self, context: RequestContext, pause_ms: int, now: Instant) -> None:
        """The controller counted mutations of this request, and makes its client wait."""
        self._pause(context, MUTATION, pause_ms, now)

    def _charge_time(self, context: RequestContext, limits: Limits, now: Instant) -> None:
        """Makes who has used too much time wait, and has the driver measure this request."""
        assert limits.request is not None, "its time is not limited"
        bound = limits.request.bound * _NS_PER_PERCENT
        pause_ms = min(self._window.sample_ms, limits.request.meter.pause_ms(bound, now))
        self._pause(context, REQUEST, pause_ms, now)
        self._steps.begin(context.header.api_key.name)
        self._steps.connection_id = context.connection.connection_id

    def on_spent(self, times_ns: Mapping[int, int], now: Instant) -> None:
        """The driver has measured how long requests of these connections took."""
        for connection_id, spent_ns in times_ns.items():
            connection = self._connections.get(connection_id)
            limits = None if connection is None else connection.limits
            if limits is not None and limits.request is not None:
                limits.request.meter.record(spent_ns, now)

    def _limits_of(self, context: RequestContext, now: Instant) -> Limits:
        connection, client_id = context.connection, context.header.client_id or ""
        limits, user = connection.limits, connection.principal.name
        if (
            limits is None
            or limits.version != self.quotas.version
            or limits.client_id != client_id
            or limits.user != user
        ):
            limits = connection.limits = self.quotas.limits_of(user, client_id, now)
        return limits

    def _pause(self, context: RequestContext, name: str, pause_ms: int, now: Instant) -> None:
        pause_ms = min(pause_ms, MAX_THROTTLE_MS)
        if pause_ms > 0:
            self.pauses.add(name, pause_ms)
            context.throttle_ms = max(context.throttle_ms, pause_ms)
            self._connections.mute(context.connection, Instant(now + pause_ms))

    # Connections ---------------------------------------------------------------------------

    def on_opened(self, connection: Connection, now: Instant) -> None:
        """A peer connected; if its address does so too often, it is cut after a pause."""
        if not self.quotas.limits_addresses or connection.listener in self._exempt:
            return
        pause_ms = min(self._window.sample_ms, self.quotas.on_connected(connection.peer_host, now))
        if pause_ms:
            self.pauses.add(CONNECTION, pause_ms)
            connection.is_refused = True
            self._connections.mute(connection, Instant(now + pause_ms))
