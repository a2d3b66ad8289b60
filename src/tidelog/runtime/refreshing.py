"""Keys of issuers and tokens of this node, kept fresh in the background.

The core judges tokens and shows its own, and cannot fetch anything. So each document that it needs
has a source here. All are fetched once before the node starts, which ends with a message and exit
code 2 if one cannot be had. Then each is fetched anew when it is time to, in a thread of its own,
and reaches the core as an input. A fetch that fails changes nothing: the core keeps what it has,
a log line says why, and the next attempts follow with growing pauses.

A file is looked at every ten seconds, as certificates are.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from tidelog.client.tokens import TokenSource
from tidelog.client.web import FetchFailed, fetch_file, fetch_web, is_file
from tidelog.config import NodeConfig
from tidelog.config.tls_properties import resolve_tls
from tidelog.config.token_values import TokenRules
from tidelog.env import effects
from tidelog.env.trace import Level
from tidelog.errors import UsageError
from tidelog.model import Mechanism
from tidelog.runtime.log_lines import LogLines
from tidelog.security.jaas import Jaas
from tidelog.security.listener_logins import no_jaas, read_jaas
from tidelog.security.tokens import read_keys
from tidelog.tls.contexts import client_context

_FILE_CHECK_MS: Final = 10_000
_KEYS: Final = "sasl.oauthbearer.jwks.endpoint.url"
_SHORTEST_PAUSE_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a source has given."""

    event: effects.Input
    again_in_ms: int
    """When to fetch anew."""


class Source(Protocol):
    """What keeps one document."""

    @property
    def name(self) -> str:
        """What it is, for messages."""

    @property
    def backoffs_ms(self) -> tuple[int, int]:
        """The first and the longest pause after failures."""

    def fetch(self) -> Fetched:
        """The document as it is now; may wait for a server. Raises `FetchFailed`."""


class KeySource:
    """The keys of an issuer."""

    def __init__(self, rules: TokenRules, jaas: Jaas) -> None:
        """Raises `UsageError` for `ssl.*` options of the JAAS string that cannot be used."""
        self.url = rules.keys_url
        self._rules = rules
        # Of the connection to the issuer.
        tls = {n: text.reveal() for n, text in jaas.options.items() if n.startswith("ssl.")}
        is_https = self.url.lower().startswith("https:")
        self._context = client_context(resolve_tls(tls)) if is_https else None

    @property
    def name(self) -> str:
        """What it is, for messages."""
        return f"the keys at `{self.url.partition('?')[0]}` (`{_KEYS}`)"

    @property
    def backoffs_ms(self) -> tuple[int, int]:
        """The first and the longest pause after failures."""
        return self._rules.backoff_ms, self._rules.backoff_max_ms

    def fetch(self) -> Fetched:
        """The newest keys. Raises `FetchFailed`."""
        again_in_ms = self._rules.refresh_ms
        if is_file(self.url):
            document = fetch_file(_KEYS, self.url, is_secret=False)
            again_in_ms = min(again_in_ms, _FILE_CHECK_MS)
        else:
            document = fetch_web(self.url, self._context)
        try:
            read_keys(document)
        except ValueError as error:
            raise FetchFailed(f"it is not a JWKS: {error}") from None
        return Fetched(effects.KeysFetched(self.url, document), again_in_ms)


class OwnTokenSource:
    """The token with which this node logs in at one listener."""

    def __init__(self, listener: str, source: TokenSource) -> None:
        self._listener = listener
        self._source = source

    @property
    def name(self) -> str:
        """What it is, for messages."""
        return f"the token for the listener `{self._listener}`"

    @property
    def backoffs_ms(self) -> tuple[int, int]:
        """The first and the longest pause after failures."""
        return self._source.origin.backoff_ms, self._source.origin.backoff_max_ms

    def fetch(self) -> Fetched:
        """The newest token. Raises `FetchFailed`."""
        token = self._source.fetch()
        again_in_ms = token.replace_at_ms - time.time_ns() // 1_000_000
        if is_file(self._source.origin.url):
            again_in_ms = min(again_in_ms, _FILE_CHECK_MS)
        event = effects.TokenFetched(self._listener, token.text)
        return Fetched(event, max(again_in_ms, _SHORTEST_PAUSE_MS))


def sources_of(config: NodeConfig) -> Iterator[Source]:
    """What a node needs. Raises `UsageError`."""
    found: set[str] = set()
    for listener, sasl in config.sasl.items():
        setting = sasl.jaas.get(Mechanism.OAUTHBEARER)
        bearer = Mechanism.OAUTHBEARER
        jaas = no_jaas(bearer) if setting is None else read_jaas(bearer, setting)
        if sasl.tokens is not None and sasl.tokens.keys_url not in ("", *found):
            found.add(sasl.tokens.keys_url)
            yield KeySource(sasl.tokens, jaas)
        if sasl.own_token is not None:
            yield OwnTokenSource(listener, TokenSource(sasl.own_token, jaas))


def fetch_first(source: Source) -> Fetched:
    """The first fetch, which is repeated until the pauses have their longest. Raises
    `UsageError`."""
    pause_ms, longest_ms = source.backoffs_ms
    while True:
        try:
            return source.fetch()
        except FetchFailed as error:
            if pause_ms >= longest_ms:
                hint = "correct the configuration, or start the node when the issuer can be reached"
                raise UsageError(f"{source.name} cannot be had: {error}", hint) from None
        time.sleep(pause_ms / 1000)
        pause_ms *= 2


class Refreshing:
    """Fetches all documents of a node again and again."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: LogLines,
        deliver: Callable[[effects.Input], None],
    ) -> None:
        self._loop = loop
        self._log = log
        # Gives an input to the core.
        self._deliver = deliver
        # What reached the core last, by source.
        self._newest: dict[Source, effects.Input] = {}
        # The next fetch of each; none while one is under way.
        self._timers: dict[Source, asyncio.TimerHandle] = {}

    def begin(self, source: Source, first: Fetched) -> None:
        """Takes what the first fetch has given, and goes on from there."""
        self._take(source, first)

    def refresh(self, url: str) -> None:
        """The core wants newer keys."""
        for source, timer in list(self._timers.items()):
            if isinstance(source, KeySource) and source.url == url:
                timer.cancel()
                self._fetch(source, source.backoffs_ms[0])

    def _take(self, source: Source, fetched: Fetched) -> None:
        if self._newest.get(source) != fetched.event:
            if source in self._newest:
                self._log.line(Level.INFO, f"refresh: {source.name}: took the new ones")
            self._newest[source] = fetched.event
            self._deliver(fetched.event)
        self._fetch_later(source, fetched.again_in_ms, source.backoffs_ms[0])

    def _fetch_later(self, source: Source, delay_ms: int, pause_ms: int) -> None:
        self._timers[source] = self._loop.call_later(delay_ms / 1000, self._fetch, source, pause_ms)

    def _fetch(self, source: Source, pause_ms: int) -> None:
        """Begins a fetch; `pause_ms` follows if it fails."""
        self._timers.pop(source, None)
        # Of no more use when the process ends.
        threading.Thread(target=self._work, args=(source, pause_ms), daemon=True).start()

    def _work(self, source: Source, pause_ms: int) -> None:
        try:
            fetched = source.fetch()
        except FetchFailed as error:
            outcome: tuple[object, ...] = (self._on_failed, source, str(error), pause_ms)
        except BaseException as error:
            outcome = (self._on_failed, source, repr(error), pause_ms)
        else:
            outcome = (self._take, source, fetched)
        # RuntimeError: the loop is closed, because the process is about to exit.
        try:
            self._loop.call_soon_threadsafe(*outcome)  # type: ignore[arg-type]
        except RuntimeError:
            return

    def _on_failed(self, source: Source, reason: str, pause_ms: int) -> None:
        self._log.line(Level.WARN, f"refresh: {source.name}: kept the old ones ({reason})")
        self._log.flush()
        self._fetch_later(source, pause_ms, min(pause_ms * 2, source.backoffs_ms[1]))
