"""A protected local cluster: what `tidelog up --secure` and `LocalCluster(secure=True)` add.

Clients log in by SCRAM over TLS at the listener `SASL_SSL`. Nodes call each other at the listeners
`SSL` and `CONTROLLER`, where both sides show a certificate; a client that has one is served at
`SSL` too. An authorizer decides: the administrator and the nodes may do everything, other users
what entries allow. A user's principal is `User:` and the name, at `SSL` by the rule
`PRINCIPAL_RULES`.

Everything is in `security/` of the cluster's directory and is kept over restarts: the authority
(`ca.key.pem`, and `ca.pem` for clients), a certificate for each node and each user, and for each
user a properties file in the names of Kafka's clients, which is also where the password is.
Formatting puts the users into the metadata; what is changed there later is not in these files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Final

from tidelog.client.security_options import PLAINTEXT, ClientSecurity
from tidelog.config import format_properties, parse_properties
from tidelog.config.values import STANDARD_AUTHORIZER
from tidelog.model import Mechanism, Secret
from tidelog.security.jaas import SCRAM_MODULE, parse_jaas
from tidelog.testing.cluster_state import read_state
from tidelog.testing.files import replace_file

PROTOCOL: Final = "SASL_SSL"
"""Of the listener for clients, and its name."""
PEERS: Final = "SSL"
"""The same of the listener between brokers."""
MECHANISM: Final = Mechanism.SCRAM_SHA_512
PRINCIPAL_RULES: Final = "RULE:^CN=([^,]+)$/$1/,DEFAULT"
ADMIN: Final = "admin"
USERS: Final = (ADMIN, "guest")
"""The administrator, and a user without rights."""
HOSTS: Final = ("127.0.0.1", "localhost", "::1")
DIRECTORY: Final = "security"
_JAAS: Final = "sasl.jaas.config"
_PASSWORD_BYTES: Final = 18


@dataclass(frozen=True, slots=True)
class LocalSecurity:
    """The files of a protected cluster."""

    data_dir: Path
    """The cluster's directory."""

    @property
    def directory(self) -> Path:
        """Where they are."""
        return self.data_dir / DIRECTORY

    @property
    def ca_pem(self) -> Path:
        """The authority that clients trust."""
        return self.directory / "ca.pem"

    def key_store(self, name: str) -> Path:
        """Private key and certificate of a node or a user."""
        return self.directory / f"{name}.pem"

    def properties_file(self, user: str) -> Path:
        """What a user's client needs, in the names of Kafka's clients."""
        return self.directory / f"{user}.properties"

    @property
    def _token_key(self) -> Path:
        """What the nodes make the secrets of delegation tokens with."""
        return self.directory / "delegation-tokens.key"

    def prepare(self, node_ids: list[int]) -> None:
        """Makes what is not there yet."""
        # It takes a moment to import, and only protected clusters need it.
        from tidelog.testing.certificates import Authority

        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority = Authority.kept_in(self.directory / "ca.key.pem")
        replace_file(self.ca_pem, authority.pem)
        for name in (*map(node_name, node_ids), *USERS):
            path = self.key_store(name)
            if not path.exists():
                hosts = HOSTS if name not in USERS else ()
                replace_file(path, authority.issue(name, hosts), secret=True)
        if not self._token_key.exists():
            replace_file(self._token_key, token_urlsafe(_PASSWORD_BYTES), secret=True)
        for user in USERS:
            path = self.properties_file(user)
            password = self.password(user) if path.exists() else token_urlsafe(_PASSWORD_BYTES)
            text = format_properties(
                self._of_client(user, password), f"The connection of `{user}`."
            )
            replace_file(path, text, secret=True)

    def node_settings(self, node_id: int, node_ids: Sequence[int]) -> dict[str, str]:
        """What a node's properties file has besides its listeners; `node_ids` are all nodes."""
        rulers = (ADMIN, *map(node_name, node_ids))
        return {
            "listener.security.protocol.map": f"{PROTOCOL}:{PROTOCOL},{PEERS}:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": PEERS,
            "sasl.enabled.mechanisms": str(MECHANISM),
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": PRINCIPAL_RULES,
            **self._stores(node_name(node_id)),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": ";".join(f"User:{name}" for name in rulers),
        }

    def node_secrets(self) -> dict[str, str]:
        """What it has that others must not read, the same for all nodes."""
        return {"delegation.token.secret.key": self._token_key.read_text(encoding="utf-8")}

    def first_users(self) -> list[str]:
        """The users, as `tidelog format --add-scram` takes them."""
        return [f"{MECHANISM}=[name={user},password={self.password(user)}]" for user in USERS]

    def password(self, user: str) -> str:
        """What a user logs in with."""
        text = Secret(self._properties(user)[_JAAS])
        return parse_jaas(text, _JAAS).option("password")

    def client(self, user: str = ADMIN) -> ClientSecurity:
        """The connection of a user."""
        return ClientSecurity(self._properties(user))

    def describe(self) -> dict[str, Any]:
        """For `--output json`: the administrator first, then the user without rights."""
        return {
            "protocol": PROTOCOL,
            "mechanism": str(MECHANISM),
            "ca_pem": str(self.ca_pem),
            "users": [
                {
                    "name": user,
                    "password": self.password(user),
                    "properties_file": str(self.properties_file(user)),
                }
                for user in USERS
            ],
        }

    def usage(self, bootstrap_servers: str) -> list[str]:
        """How clients of each family connect, line by line."""
        authority, password, file = self.ca_pem, self.password(ADMIN), self.properties_file(ADMIN)
        return [
            f"users: {', '.join(USERS)} (without rights); "
            f"their properties files are in {self.directory}",
            f"Kafka's tools:    --bootstrap-server {bootstrap_servers} --command-config {file}",
            f"tidelog:          --data-dir {self.data_dir}, or the options of Kafka's tools",
            f"Java, Spark:      the lines of {file}; for Spark with `kafka.` before each name",
            f"librdkafka, kcat: security.protocol={PROTOCOL} sasl.mechanism={MECHANISM} "
            f"sasl.username={ADMIN} sasl.password={password} ssl.ca.location={authority}",
            f"kafka-python:     security_protocol='{PROTOCOL}', sasl_mechanism='{MECHANISM}', "
            f"sasl_plain_username='{ADMIN}', sasl_plain_password='{password}', "
            f"ssl_cafile='{authority}'",
            f"aiokafka:         the same with ssl_context=ssl.create_default_context("
            f"cafile='{authority}') for ssl_cafile",
            f"kafkajs:          ssl: {{ ca: [fs.readFileSync('{authority}')] }}, "
            f"sasl: {{ mechanism: '{MECHANISM.lower()}', "
            f"username: '{ADMIN}', password: '{password}' }}",
            f"franz-go:         kgo.DialTLSConfig(&tls.Config{{RootCAs: pool}}) with {authority} "
            f'in the pool, kgo.SASL(scram.Auth{{User: "{ADMIN}", Pass: "{password}"}}'
            ".AsSha512Mechanism())",
        ]

    def _properties(self, user: str) -> dict[str, str]:
        return parse_properties(self.properties_file(user).read_text(encoding="utf-8"))

    def _of_client(self, user: str, password: str) -> Mapping[str, str]:
        return {
            "security.protocol": PROTOCOL,
            "sasl.mechanism": str(MECHANISM),
            _JAAS: f'{SCRAM_MODULE} required username="{user}" password="{password}";',
            **self._trust(),
        }

    def _stores(self, name: str) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.key_store(name)),
            **self._trust(),
        }

    def _trust(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_pem)}


def node_name(node_id: int) -> str:
    """The common name of a node's certificate."""
    return f"node-{node_id}"


def local_security(data_dir: Path) -> ClientSecurity:
    """The connection of the administrator of the local cluster in a directory, protected or not."""
    state = read_state(data_dir)
    if state is None or not state.secure:
        return PLAINTEXT
    return LocalSecurity(data_dir.resolve()).client()
