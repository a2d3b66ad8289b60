"""OAUTHBEARER by Kafka's names (`sasl.oauthbearer.*`): the rows, and what they come to.

On a node each may be set for one listener, or for the mechanism of one listener. A *callback
handler* is a Java class in Kafka; here its name chooses between two ways. Tokens have a signature
unless the class of Kafka's unsecured handler is named. Kafka's default is that one: there a
listener that accepts OAUTHBEARER, and has no other setting for it, believes every token.

The issuer and the audience must be set too, as from Kafka 4.4 on: without them a token that was
made for any other service of the issuer is as good as one for this cluster.

Left out: other classes, tokens from assertions (KIP-1258), the allow-list of URLs, which is a
property of a JVM. No URL of these is ever taken from a client or from the metadata.

Source: KIP-255, KIP-768, KIP-1139.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.config.property_types import Check, listener_prefix, rows, split_list, table_texts
from tidelog.config.token_values import TokenOrigin, TokenRules
from tidelog.errors import UsageError
from tidelog.model import Mechanism, Secret

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_SERVER_HANDLER: Final = "sasl.server.callback.handler.class"
_LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
_KEYS: Final = "sasl.oauthbearer.jwks.endpoint.url"
_TOKENS: Final = "sasl.oauthbearer.token.endpoint.url"
_ISSUER: Final = "sasl.oauthbearer.expected.issuer"
_AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
_UNSECURED: Final = f"{_PACKAGE}internals.unsecured."
_SCHEMES: Final = ("http://", "https://", "file:")


def _class_of_kafka(*names: str) -> Check:
    """Accepts these classes of Kafka's package for OAUTHBEARER, and the empty text."""
    kafkas = [_PACKAGE + name for name in names]
    problem = f"must be one of Kafka's {', '.join(names)}, with its package"
    return lambda value: None if value in ("", *kafkas) else problem


TOKENS: Final = rows(
    """
sasl.server.callback.handler.class STRING
    How a listener judges tokens of OAUTHBEARER, by Kafka's class; only the unsecured one must be
    named.
sasl.login.callback.handler.class STRING
    Where a login by OAUTHBEARER has its token from, by Kafka's class; only the unsecured one must
    be named.
sasl.oauthbearer.jwks.endpoint.url STRING
    The keys of the issuer (JWKS): an https, http or file URL.
sasl.oauthbearer.jwks.endpoint.refresh.ms LONG >= 1 = 3600000
    How old the keys become before they are fetched again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG >= 1 = 100
    The pause after the first fetch of keys that failed; it doubles.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG >= 1 = 10000
    The longest pause between fetches of keys that fail.
sasl.oauthbearer.expected.issuer STRING
    What the claim `iss` of a token must be.
sasl.oauthbearer.expected.audience LIST
    Of these, one must be in the claim `aud` of a token.
sasl.oauthbearer.clock.skew.seconds INT >= 0 = 30
    How far the issuer's clock may be from this node's.
sasl.oauthbearer.scope.claim.name STRING = scope
    The claim with the scopes of a token.
sasl.oauthbearer.sub.claim.name STRING = sub
    The claim with the name of the client.
sasl.oauthbearer.token.endpoint.url STRING
    Where the own token comes from: a file URL, or the issuer's token endpoint.
sasl.oauthbearer.client.credentials.client.id STRING
    By which the token endpoint knows the client.
sasl.oauthbearer.client.credentials.client.secret PASSWORD
    The secret that belongs to it.
sasl.oauthbearer.scope STRING
    The scopes that the client asks for.
sasl.oauthbearer.header.urlencode BOOLEAN = false
    Whether id and secret are URL-encoded for the token endpoint.
sasl.oauthbearer.jwt.validator.class STRING
    Kafka's own class, if any: it stands for the rules above.
sasl.oauthbearer.jwt.retriever.class STRING
    Kafka's own class, if any: a file URL means a file, and another one a token endpoint.
sasl.login.retry.backoff.ms LONG >= 1 = 100
    The pause after the first fetch of a token that failed; it doubles.
sasl.login.retry.backoff.max.ms LONG >= 1 = 10000
    The longest pause between fetches of a token that fail.
""",
    {
        "sasl.oauthbearer.jwt.validator.class": _class_of_kafka(
            "DefaultJwtValidator", "BrokerJwtValidator"
        ),
        "sasl.oauthbearer.jwt.retriever.class": _class_of_kafka(
            "DefaultJwtRetriever", "FileJwtRetriever", "ClientCredentialsJwtRetriever"
        ),
    },
)


def resolve_token_rules(settings: Mapping[str, str], listener: str) -> TokenRules:
    """How a listener judges tokens; the settings are as the mechanism of the listener sees them.
    Raises `UsageError`."""
    texts = table_texts(TOKENS, settings)
    handler = texts[_SERVER_HANDLER]
    prefix = listener_prefix(listener, Mechanism.OAUTHBEARER)
    if _is_unsecured(prefix + _SERVER_HANDLER, handler, "OAuthBearer", "ValidatorCallbackHandler"):
        return TokenRules()
    unsecured = f"{_UNSECURED}OAuthBearerUnsecuredValidatorCallbackHandler"
    _check_url(
        _KEYS,
        texts[_KEYS],
        f"the listener `{listener}` accepts OAUTHBEARER",
        f"set `{_KEYS}` to the JWKS of the issuer; only for tests, tokens without a signature are "
        f"accepted with `{prefix}{_SERVER_HANDLER}={unsecured}`",
    )
    for name in (_ISSUER, _AUDIENCE):
        if not texts[name]:
            problem = f"the listener `{listener}` accepts OAUTHBEARER, and `{name}` is missing"
            raise UsageError(problem, "set it: tokens for other services must let no client in")
    return TokenRules(
        keys_url=texts[_KEYS],
        refresh_ms=int(texts["sasl.oauthbearer.jwks.endpoint.refresh.ms"]),
        backoff_ms=int(texts["sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"]),
        backoff_max_ms=int(texts["sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"]),
        issuer=texts[_ISSUER],
        audience=tuple(split_list(texts[_AUDIENCE])),
        clock_skew_ms=1000 * int(texts["sasl.oauthbearer.clock.skew.seconds"]),
        scope_claim=texts["sasl.oauthbearer.scope.claim.name"],
        principal_claim=texts["sasl.oauthbearer.sub.claim.name"],
    )


def resolve_token_origin(settings: Mapping[str, str], prefix: str = "") -> TokenOrigin:
    """Where a client has its token from. `prefix` is that of the node's listener, for hints. Raises
    `UsageError`."""
    texts = table_texts(TOKENS, settings)
    handler = texts[_LOGIN_HANDLER]
    backoffs = (
        int(texts["sasl.login.retry.backoff.ms"]),
        int(texts["sasl.login.retry.backoff.max.ms"]),
    )
    if _is_unsecured(prefix + _LOGIN_HANDLER, handler, "OAuthBearer", "LoginCallbackHandler"):
        return TokenOrigin(backoff_ms=backoffs[0], backoff_max_ms=backoffs[1])
    unsecured = f"{_UNSECURED}OAuthBearerUnsecuredLoginCallbackHandler"
    _check_url(
        _TOKENS,
        texts[_TOKENS],
        "a login by OAUTHBEARER needs a token",
        f"set `{prefix}{_TOKENS}` to a file or to the token endpoint of the issuer; only for "
        f"tests, a token without a signature is made with `{prefix}{_LOGIN_HANDLER}={unsecured}`",
    )
    return TokenOrigin(
        url=texts[_TOKENS],
        client_id=texts["sasl.oauthbearer.client.credentials.client.id"],
        client_secret=Secret(texts["sasl.oauthbearer.client.credentials.client.secret"]),
        scope=texts["sasl.oauthbearer.scope"],
        encodes_header=texts["sasl.oauthbearer.header.urlencode"].lower() == "true",
        backoff_ms=backoffs[0],
        backoff_max_ms=backoffs[1],
    )


def _is_unsecured(setting: str, handler: str, begin: str, end: str) -> bool:
    """Whether the unsecured class is named. Raises `UsageError` for any other class but Kafka's
    secured one."""
    name = handler.rpartition(".")[2]
    if (handler and not handler.startswith(_PACKAGE)) or name not in ("", f"{begin}{end}"):
        if handler == f"{_UNSECURED}{begin}Unsecured{end}":
            return True
        problem = f"`{setting}` names the class `{handler[:200]}`, which does not exist here"
        raise UsageError(problem, f"leave it away, or use `{_PACKAGE}{begin}{end}`")
    return False


def _check_url(name: str, url: str, why: str, hint: str) -> None:
    if not url:
        raise UsageError(f"{why}, and `{name}` is missing", hint)
    if not url.lower().startswith(_SCHEMES):
        raise UsageError(f"`{name}` is `{url[:200]}`, not a URL", "begin it with https:// or file:")
