"""Tokens of a client: from a file, from an endpoint, or made without a signature."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.issuer import Issuer
from tidelog.client.core.errors import AuthenticationFailed
from tidelog.client.security_options import ClientSecurity
from tidelog.client.tokens import OwnToken, TokenSource
from tidelog.client.web import FetchFailed, fetch_file, fetch_web
from tidelog.config.token_values import TokenOrigin
from tidelog.errors import UsageError
from tidelog.limits import MAX_WEB_ANSWER_BYTES
from tidelog.model import Secret
from tidelog.security.jaas import Jaas
from tidelog.security.tokens import UnsecuredTokens
from tidelog.testing.files import replace_file

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredLoginCallbackHandler"
)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


def jaas(**options: str) -> Jaas:
    return Jaas(MODULE, {name: Secret(text) for name, text in options.items()})


def test_an_endpoint_gives_a_token_for_an_id_and_a_secret(issuer: Issuer):
    for source in (
        TokenSource(TokenOrigin(issuer.token_url, "node", Secret("node-s3cret")), jaas()),
        TokenSource(
            TokenOrigin(issuer.token_url), jaas(clientId="node", clientSecret="node-s3cret")
        ),
    ):
        assert source.fetch().text.reveal().startswith("ey")


def test_a_wrong_secret_is_named_without_it(issuer: Issuer):
    source = TokenSource(TokenOrigin(issuer.token_url, "node", Secret("wrong-s3cret")), jaas())
    with pytest.raises(FetchFailed, match="status 401") as failed:
        source.fetch()
    assert "s3cret" not in str(failed.value)


def test_a_token_is_kept_for_most_of_its_life(issuer: Issuer):
    own = OwnToken(
        TokenSource(TokenOrigin(issuer.token_url, "node", Secret("node-s3cret")), jaas())
    )
    assert own.get() == own.get()
    assert issuer.asked == ["/token"]
    issuer.lasts_s = -1
    with pytest.raises(FetchFailed, match="expired"):
        TokenSource(TokenOrigin(issuer.token_url, "node", Secret("node-s3cret")), jaas()).fetch()


def test_a_file_is_read_again_when_its_token_is_old(tmp_path: Path):
    file = tmp_path / "token"
    own = OwnToken(TokenSource(TokenOrigin(f"file://{file}"), jaas()))
    replace_file(file, "opaque-1", secret=True)
    assert own.get().reveal() == "opaque-1"
    replace_file(file, "opaque-2\n", secret=True)
    assert own.get().reveal() == "opaque-2"


def test_a_token_that_every_user_may_read_is_refused(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("opaque")
    file.chmod(0o644)
    with pytest.raises(FetchFailed, match="chmod 600"):
        TokenSource(TokenOrigin(f"file://{file}"), jaas()).fetch()


def test_an_unsecured_token_has_the_claims_of_the_options():
    options = jaas(
        unsecuredLoginStringClaim_sub="alice", unsecuredLoginListClaim_scope=" read write"
    )
    token = TokenSource(TokenOrigin(), options).fetch().text.reveal()
    judge = UnsecuredTokens({"unsecuredValidatorRequiredScope": Secret("write")})
    assert judge.judge(token, time.time_ns() // 1_000_000).name == "alice"
    with pytest.raises(UsageError, match="no claim `sub`"):
        TokenSource(TokenOrigin(), jaas())


def test_an_endpoint_needs_an_id_and_a_secret(issuer: Issuer):
    with pytest.raises(UsageError, match="without an id and a secret"):
        TokenSource(TokenOrigin(issuer.token_url, "node"), jaas())


@pytest.mark.parametrize("status", [302, 404, 500])
def test_only_a_good_answer_counts(issuer: Issuer, status: int):
    issuer.status = status
    with pytest.raises(FetchFailed, match=f"status {status}"):
        fetch_web(issuer.keys_url)


def test_what_cannot_be_had_is_said_without_the_query(tmp_path: Path):
    with pytest.raises(FetchFailed) as failed:
        fetch_web("http://127.0.0.1:1/keys?password=s3cret")
    assert "s3cret" not in str(failed.value)
    with pytest.raises(FetchFailed, match="cannot be read"):
        fetch_file("name", f"file://{tmp_path}/none", is_secret=False)
    (tmp_path / "large").write_bytes(bytes(MAX_WEB_ANSWER_BYTES + 1))
    with pytest.raises(FetchFailed, match="has more than"):
        fetch_file("name", f"file://{tmp_path}/large", is_secret=False)


def properties(**more: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        **{name.replace("_", "."): text for name, text in more.items()},
    }


def test_client_properties_lead_to_a_login(issuer: Issuer):
    security = ClientSecurity(
        properties(
            sasl_oauthbearer_token_endpoint_url=issuer.token_url,
            sasl_jaas_config=f'{MODULE} required clientId="alice" clientSecret="alice-s3cret";',
        )
    )
    assert security.login("client") is not None
    assert issuer.asked == ["/token"]
    issuer.clients.clear()
    other = ClientSecurity(security.__reduce__()[1][0])
    with pytest.raises(AuthenticationFailed, match="no token to log in with") as refused:
        other.login("client")
    assert "s3cret" not in refused.value.message + refused.value.hint


def test_without_an_origin_a_client_is_refused_at_once():
    with pytest.raises(UsageError, match="needs a token"):
        ClientSecurity(properties())
    ClientSecurity(
        properties(
            sasl_login_callback_handler_class=UNSECURED,
            sasl_jaas_config=f'{MODULE} required unsecuredLoginStringClaim_sub="alice";',
        )
    )
