"""A protected local cluster: what `tidelog up --secure` and `LocalCluster(secure=True)` add.

Everything is in `security/` of the cluster's directory and is kept over restarts: the authority
(`ca.key.pem`, and `ca.pem` for clients), a certificate for each node and each user, and for each
user a properties file in the names of Kafka's clients. All listeners speak TLS and ask for a
certificate, those between nodes too. A user's principal is `User:` and the name, by the rule
`PRINCIPAL_RULES`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidelog.client.security_options import PLAINTEXT, ClientSecurity
from tidelog.config import format_properties, parse_properties
from tidelog.testing.cluster_state import read_state

PROTOCOL: Final = "SSL"
PRINCIPAL_RULES: Final = "RULE:^CN=([^,]+)$/$1/,DEFAULT"
ADMIN: Final = "admin"
USERS: Final = (ADMIN, "guest")
"""The administrator, and a user without rights."""
HOSTS: Final = ("127.0.0.1", "localhost", "::1")
DIRECTORY: Final = "security"


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

    def prepare(self, node_ids: list[int]) -> None:
        """Makes what is not there yet."""
        # It takes a moment to import, and only protected clusters need it.
        from tidelog.testing.certificates import Authority, write_secret

        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority = Authority.kept_in(self.directory / "ca.key.pem")
        self.ca_pem.write_text(authority.pem, encoding="utf-8")
        for name in (*map(node_name, node_ids), *USERS):
            path = self.key_store(name)
            if not path.exists():
                hosts = HOSTS if name not in USERS else ()
                write_secret(path, authority.issue(name, hosts))
        for user in USERS:
            text = format_properties(self._of_client(user), f"The connection of `{user}`.")
            write_secret(self.properties_file(user), text)

    def node_settings(self, node_id: int) -> dict[str, str]:
        """What a node's properties file has besides its listeners."""
        return {
            "listener.security.protocol.map": f"{PROTOCOL}:{PROTOCOL},CONTROLLER:SSL",
            "inter.broker.listener.name": PROTOCOL,
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": PRINCIPAL_RULES,
            **self._stores(node_name(node_id)),
        }

    def client(self, user: str = ADMIN) -> ClientSecurity:
        """The connection of a user."""
        text = self.properties_file(user).read_text(encoding="utf-8")
        return ClientSecurity(parse_properties(text))

    def describe(self) -> dict[str, Any]:
        """For `--output json`: the administrator first, then the user without rights."""
        return {
            "protocol": PROTOCOL,
            "mechanism": None,
            "ca_pem": str(self.ca_pem),
            "users": [
                {"name": user, "password": None, "properties_file": str(self.properties_file(user))}
                for user in USERS
            ],
        }

    def usage(self, bootstrap_servers: str) -> list[str]:
        """How clients of each family connect, line by line."""
        own, authority = self.key_store(ADMIN), self.ca_pem
        return [
            f"users: {', '.join(USERS)}; their properties files are in {self.directory}",
            f"Kafka's tools:   --command-config {self.properties_file(ADMIN)}",
            f"tidelog:         --bootstrap-server {bootstrap_servers} "
            f"--command-config {self.properties_file(ADMIN)}",
            f"librdkafka, kcat: security.protocol=SSL ssl.ca.location={authority} "
            f"ssl.certificate.location={own} ssl.key.location={own}",
            f"kafka-python:    security_protocol='SSL', ssl_cafile='{authority}', "
            f"ssl_certfile='{own}', ssl_keyfile='{own}'",
        ]

    def _of_client(self, user: str) -> Mapping[str, str]:
        return {"security.protocol": PROTOCOL, **self._stores(user)}

    def _stores(self, name: str) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.key_store(name)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_pem),
        }


def node_name(node_id: int) -> str:
    """The common name of a node's certificate."""
    return f"node-{node_id}"


def local_security(data_dir: Path) -> ClientSecurity:
    """The connection of the administrator of the local cluster in a directory, protected or not."""
    state = read_state(data_dir)
    if state is None or not state.secure:
        return PLAINTEXT
    return LocalSecurity(data_dir.resolve()).client()
