"""A node whose broker listener asks for a login, and the other end of one.

node = login_node()
wire = node.client()
log_in(wire, "PLAIN", "alice", "wonder-s3cret")
"""

from typing import Any

from tests.issuer import AUDIENCE, Issuer
from tests.issuer import NAME as ISSUER_NAME
from tests.unit.broker.one_node import OneNode, Wire
from tidelog.config.values import JaasSetting
from tidelog.env.effects import KeysFetched
from tidelog.env.trace import Level
from tidelog.errors import ErrorCode
from tidelog.metadata.scram_keys import SCRAM_NUMBERS, salt_password
from tidelog.model import Mechanism, Secret
from tidelog.security.client_login import ClientLogin, LoginRefused
from tidelog.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from tidelog.security.listener_logins import NodeSecrets, OwnLogin
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of

PASSWORDS = {"node": "node-s3cret", "alice": "wonder-s3cret"}
MODULES = {Mechanism.PLAIN: PLAIN_MODULE}
ISSUER = Issuer()
KEYS_URL = "https://issuer.example/keys"


def jaas(mechanism: Mechanism, name: str, password: str) -> str:
    """The JAAS string of a client."""
    module = MODULES.get(mechanism, SCRAM_MODULE)
    return f'{module} required username="{name}" password="{password}"'


def login_node(*, trace_level: Level = Level.INFO, **settings: str) -> OneNode:
    """Its own name is `node`; PLAIN knows `alice` too, SCRAM those who are added, OAUTHBEARER those
    with a token of `ISSUER`."""
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    plain = jaas(Mechanism.PLAIN, "node", PASSWORDS["node"])
    given = {
        "listener_security_protocol_map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl_mechanism_inter_broker_protocol": "PLAIN",
        "listener_name_plaintext_plain_sasl_jaas_config": f"{plain} {users};",
        "sasl_oauthbearer_jwks_endpoint_url": KEYS_URL,
        "sasl_oauthbearer_expected_issuer": ISSUER_NAME,
        "sasl_oauthbearer_expected_audience": AUDIENCE,
    }
    node = OneNode(trace_level=trace_level, **given | settings)
    node.receive(KeysFetched(KEYS_URL, ISSUER.document()))
    return node


def token_of(node: OneNode, name: str, lasts_ms: int = 60_000, key: str = "first") -> str:
    """A token of `ISSUER` for a client of this node."""
    wall_ms = node.broker.wall_ms(node.now)
    times = {"iat": wall_ms / 1000, "exp": (wall_ms + lasts_ms) / 1000}
    return ISSUER.token(name, key, **times)


def add_user(node: OneNode, name: str, password: str, mechanism: Mechanism) -> None:
    """Gives SCRAM a user, by way of the controller."""
    wire = node.client("CONTROLLER")
    row = {
        "name": name,
        "mechanism": SCRAM_NUMBERS[mechanism],
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": salt_password(mechanism, password, b"salt", 4096),
    }
    answer = wire.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=(), upsertions=(row,))
    assert error_of(answer.results[0].error_code) is ErrorCode.NONE


def client_login(
    mechanism: Mechanism, name: str, password: str, *, is_delegated: bool = False
) -> ClientLogin:
    """The client's part of a login; the password of OAUTHBEARER is a token."""
    secrets = NodeSecrets.from_seed(5)
    if mechanism is Mechanism.OAUTHBEARER:
        own = OwnLogin(mechanism, None, secrets)
        own.token = Secret(password)
        return ClientLogin(own, "client")
    end = " tokenauth=true;" if is_delegated else ";"
    setting = JaasSetting("sasl.jaas.config", Secret(jaas(mechanism, name, password) + end))
    return ClientLogin(OwnLogin(mechanism, setting, secrets), "client")


def log_in(
    wire: Wire, mechanism: Mechanism, name: str, password: str, *, is_delegated: bool = False
) -> ClientLogin:
    """Logs in, maybe with a delegation token. Raises `LoginRefused`."""
    login = client_login(mechanism, name, password, is_delegated=is_delegated)
    request: bytes | None = login.start()
    while request is not None:
        wire.send(request)
        request = login.on_frame(answer_of(wire))
    return login


def answer_of(wire: Wire) -> bytes:
    """The next frame, when it comes. Raises `LoginRefused` if the node closes instead."""
    for _ in range(100):
        frames = wire.frames()
        if frames:
            assert len(frames) == 1
            return frames[0]
        if wire.closed:
            break
        wire.node.advance(10)
    raise LoginRefused("closed")


def metadata(wire: Wire) -> Any:
    """An ordinary request; its answer, or `None` when the node closed instead."""
    request = make(
        codec.request_class(ApiKey.METADATA, 12),
        topics=(),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    return wire.ask(ApiKey.METADATA, request)
