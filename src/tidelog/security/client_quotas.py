"""What the clients of one node have used of their quotas.

A client is a user with a client id. Its limits are looked up once and kept by its connection until
the quotas change; what is counted is shared by all who share the quota (`quota_index.py`), over all
their connections to this node. Each node counts for itself, as in Kafka.

Invariant: what counts for a share is one object for as long as a connection may use it. When one is
forgotten, at `MAX_QUOTA_METERS`, all connections look theirs up again.

Source: KIP-13, KIP-55, KIP-124, KIP-599, KIP-612.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.env.instant import Instant
from tidelog.limits import MAX_QUOTA_METERS
from tidelog.metadata.quotas import FETCH, MUTATION, PRODUCE, REQUEST
from tidelog.security.quota_index import (
    Bound,
    Quotas,
    Share,
    bounds_of,
    connection_rate_of,
    has_client_quotas,
)
from tidelog.security.quota_meters import USUAL, QuotaWindow, RateMeter, TokenBucket

MeterT = TypeVar("MeterT", RateMeter, TokenBucket)

_LOOKED_AT: Final = 16
"""How many of the oldest are looked at for one that can be forgotten."""


class Limit(NamedTuple, Generic[MeterT]):
    """A quota that holds for a client, and what was used of it."""

    bound: float
    meter: MeterT


class Limits(NamedTuple):
    """The quotas that hold for a client; `None` is unlimited."""

    version: int
    """Of the quotas by which they were looked up."""
    user: str
    client_id: str
    produce: Limit[RateMeter] | None
    fetch: Limit[RateMeter] | None
    request: Limit[RateMeter] | None
    mutation: Limit[TokenBucket] | None


class ClientQuotas:
    """The quotas of a cluster, and what was used of them here."""

    def __init__(self, window: QuotaWindow = USUAL, of_mutations: QuotaWindow = USUAL) -> None:
        # What rates are taken over, and what limits a bucket of mutations.
        self._window, self._of_mutations = window, of_mutations
        # As the metadata has them.
        self.quotas: Quotas = {}
        # Whether any client has a limit: else nothing is looked up.
        self.limits_clients = False
        # Whether any address has one.
        self.limits_addresses = False
        # Counts the times that limits which were looked up became wrong.
        self.version = 0
        # By the name of the quota and who shares it; the oldest first.
        self._meters: dict[tuple[str, Share], RateMeter | TokenBucket] = {}
        # Connections by address.
        self._addresses: dict[str, RateMeter] = {}

    def follow(self, quotas: Quotas) -> None:
        """The quotas are these from now on; what was used stays."""
        if quotas is not self.quotas:
            self.quotas = quotas
            self.limits_clients = has_client_quotas(quotas)
            self.limits_addresses = len(quotas) > 0
            self.version += 1

    def limits_of(self, user: str, client_id: str, now: Instant) -> Limits:
        """The limits of a client."""
        bounds = bounds_of(self.quotas, user, client_id)

        def limit(name: str, new: Callable[[], MeterT]) -> Limit[MeterT] | None:
            bound = bounds.get(name)
            return None if bound is None else Limit(bound.value, self._meter(name, bound, new, now))

        produce, fetch = limit(PRODUCE, self._new_rate), limit(FETCH, self._new_rate)
        request = limit(REQUEST, self._new_rate)
        mutation = limit(MUTATION, lambda: TokenBucket(self._of_mutations))
        # Last, because to make one may have changed the version.
        return Limits(self.version, user, client_id, produce, fetch, request, mutation)

    def _new_rate(self) -> RateMeter:
        return RateMeter(self._window)

    def _meter(self, name: str, bound: Bound, new: Callable[[], MeterT], now: Instant) -> MeterT:
        key = (name, bound.share)
        meter = self._meters.get(key)
        if meter is None:
            if len(self._meters) >= MAX_QUOTA_METERS:
                self._forget_one(now)
            meter = self._meters[key] = new()
        return meter  # type: ignore[return-value]

    def _forget_one(self, now: Instant) -> None:
        oldest = list(islice(self._meters, _LOOKED_AT))
        idle = [key for key in oldest if self._meters[key].is_idle(now)]
        for key in idle or oldest[:1]:
            del self._meters[key]
        self.version += 1

    def on_connected(self, host: str, now: Instant) -> int:
        """An address has opened a connection; how many ms it is too early, or 0. Only what is in
        time is counted."""
        rate = connection_rate_of(self.quotas, host)
        if rate is None:
            return 0
        meter = self._addresses.get(host)
        if meter is None:
            if len(self._addresses) >= MAX_QUOTA_METERS:
                del self._addresses[next(iter(self._addresses))]
            meter = self._addresses[host] = self._new_rate()
        meter.record(1, now)
        pause_ms = meter.pause_ms(rate, now)
        if pause_ms:
            meter.record(-1, now)
        return pause_ms
