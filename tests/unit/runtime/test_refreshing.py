"""Keys and tokens of a node: fetched before the start, then again and again in the background."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from tests.issuer import AUDIENCE, NAME, Issuer
from tests.unit.runtime.harness import TIMEOUT_S
from tidelog.config import parse_node_config
from tidelog.config.token_values import TokenRules
from tidelog.env.effects import Input, KeysFetched, TokenFetched
from tidelog.errors import UsageError
from tidelog.model import Mechanism
from tidelog.runtime.log_lines import LogLines
from tidelog.runtime.refreshing import KeySource, Refreshing, fetch_first, sources_of
from tidelog.runtime.server import EXIT_USAGE, run_node
from tidelog.security.listener_logins import no_jaas
from tidelog.testing.files import replace_file
from tidelog.testing.waiting import wait_until

JAAS = no_jaas(Mechanism.OAUTHBEARER)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


def rules(issuer: Issuer) -> TokenRules:
    return TokenRules(issuer.keys_url, refresh_ms=20, backoff_ms=10, backoff_max_ms=40)


class Watch:
    """What a core would get, and what the log says."""

    def __init__(self, source: KeySource) -> None:
        self.source = source
        self.loop = asyncio.new_event_loop()
        self.text = StringIO()
        self.inputs: list[Input] = []
        self.refreshing = Refreshing(self.loop, LogLines("b1", self.text), self.inputs.append)

    def until(self, condition: Callable[[], bool]) -> None:
        """Runs the loop until something has happened."""

        def turn() -> bool:
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
            return condition()

        wait_until(turn, TIMEOUT_S, "what the loop does")


def test_newer_keys_reach_the_core_and_the_same_ones_do_not(issuer: Issuer):
    watch = Watch(KeySource(rules(issuer), JAAS))
    old = issuer.document()
    watch.refreshing.begin(watch.source, fetch_first(watch.source))
    watch.until(lambda: len(issuer.asked) >= 3)
    issuer.published = ["second"]
    watch.until(lambda: len(watch.inputs) == 2)
    documents = [old, issuer.document()]
    assert watch.inputs == [KeysFetched(issuer.keys_url, each) for each in documents]


def test_what_fails_changes_nothing_and_is_tried_again(issuer: Issuer):
    watch = Watch(KeySource(rules(issuer), JAAS))
    watch.refreshing.begin(watch.source, fetch_first(watch.source))
    issuer.status = 500
    watch.until(lambda: watch.text.getvalue().count("status 500") >= 2)
    assert "kept the old ones" in watch.text.getvalue()
    assert len(watch.inputs) == 1
    issuer.published, issuer.status = ["first"], 200
    watch.until(lambda: len(watch.inputs) == 2)


def test_the_core_may_ask_before_the_time(issuer: Issuer):
    watch = Watch(KeySource(replace(rules(issuer), refresh_ms=3_600_000), JAAS))
    watch.refreshing.begin(watch.source, fetch_first(watch.source))
    issuer.published = ["first"]
    watch.refreshing.refresh("https://other.example")
    watch.refreshing.refresh(issuer.keys_url)
    watch.until(lambda: len(watch.inputs) == 2)
    assert len(issuer.asked) == 2


def test_a_first_fetch_is_tried_several_times(issuer: Issuer):
    source = KeySource(rules(issuer), JAAS)
    issuer.published = []
    with pytest.raises(UsageError, match="cannot be had: it is not a JWKS") as refused:
        fetch_first(source)
    assert len(issuer.asked) == 3
    assert refused.value.hint


def node_settings(issuer: Issuer, directory: Path) -> dict[str, str]:
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "log.dirs": str(directory / "data"),
        "listeners": "CLIENTS://127.0.0.1:23901,CONTROLLER://127.0.0.1:23902",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENTS",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": "1@127.0.0.1:23902",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.keys_url,
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "100",
        "sasl.oauthbearer.expected.issuer": NAME,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.token.endpoint.url": f"file://{directory}/token",
    }


def test_a_node_has_a_source_for_its_keys_and_its_token(issuer: Issuer, tmp_path: Path):
    replace_file(tmp_path / "token", issuer.token("node"), secret=True)
    config = parse_node_config(node_settings(issuer, tmp_path))
    fetched = [source.fetch() for source in sources_of(config)]
    kinds = {type(each.event): each.again_in_ms for each in fetched}
    assert kinds == {KeysFetched: 3_600_000, TokenFetched: 10_000}


def test_keys_that_cannot_be_had_refuse_the_start(
    issuer: Issuer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings = node_settings(issuer, tmp_path)
    settings["sasl.oauthbearer.jwks.endpoint.url"] = "http://127.0.0.1:1/keys"
    assert run_node(parse_node_config(settings)) == EXIT_USAGE
    text = capsys.readouterr().err
    assert "the keys at `http://127.0.0.1:1/keys`" in text
    assert "hint: " in text
