"""A cluster as `tidelog up --secure` makes it, and what is changed of that while clients work.

The clients of a round log in as one user by SCRAM over TLS, have the rights that entries give them,
and log in anew every few seconds (`connections.max.reauth.ms`). Three things are changed:

| changed | how | what may be noticed |
| --- | --- | --- |
| certificates | files of all nodes, signed by the other one of two authorities | nothing |
| the user's password | another one for a while; who logs in anew is refused | as a cut |
| the user's rights | by other entries, which are there before the old ones go | nothing |

Who is refused a topic or a group at any time has found an anomaly. After healing, each listener of
each node shows the certificate that is in its file, each node accepts the user's password and no
other, and a guest sees what its own entries say.
"""

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from tidelog.client import AdminClient, AdminError, ClientSecurity, Unreachable
from tidelog.client.acls import Acl, AclQuery
from tidelog.client.core.errors import AuthenticationFailed
from tidelog.errors import UsageError
from tidelog.model import Mechanism, Secret
from tidelog.security.jaas import SCRAM_MODULE
from tidelog.testing import LocalCluster
from tidelog.testing.certificates import Authority
from tidelog.testing.cluster_state import HOST, LocalNode
from tidelog.testing.files import replace_file
from tidelog.testing.security import HOSTS, MECHANISM, PROTOCOL, LocalSecurity, node_name
from tidelog.testing.waiting import wait_until
from tidelog.wire.acl_values import Operation, PatternType, ResourceType

USER: Final = "worker"
PASSWORD: Final = "worker-s3cret"
OTHER_PASSWORD: Final = "another-s3cret"
GUEST: Final = "guest"
SETTINGS: Final = {"connections.max.reauth.ms": "5000"}
_ASK_S: Final = 5.0
_FAILURES: Final = (Unreachable, AdminError, AuthenticationFailed, UsageError, TimeoutError)

Pattern = tuple[str, str]
"""The type of a pattern, and its text."""


class Protection:
    """See the module's docstring."""

    def __init__(self, cluster: LocalCluster, topics: Sequence[str]) -> None:
        """Before the nodes start: they trust both authorities from then on, and so do clients."""
        assert cluster.security is not None, "the cluster is not protected"
        self._cluster = cluster
        self._security: LocalSecurity = cluster.security
        self._topics = topics
        first = Authority.kept_in(self._security.directory / "ca.key.pem")
        self._authorities = (first, Authority.create())
        replace_file(self._security.ca_pem, "".join(each.pem for each in self._authorities))
        # How often each was changed.
        self._rotations = 0
        self._exchanges = 0
        # Whether the user's password is the other one, or may be.
        self._is_locked_out = False

    # What clients need ------------------------------------------------------------------------

    def login(self) -> dict[str, str]:
        """Of the user, in the names of librdkafka."""
        return {
            "security.protocol": PROTOCOL,
            "sasl.mechanism": str(MECHANISM),
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self._security.ca_pem),
        }

    def admit(self) -> None:
        """Makes the user and its first rights."""
        with self._cluster.admin() as admin:
            admin.users.add(USER, Mechanism(MECHANISM), Secret(PASSWORD))
            admin.acls.add([*self._entries(0), *_allowed(USER, "GROUP", ("LITERAL", "*"), "READ")])
            admin.acls.add(_allowed(GUEST, "TOPIC", ("LITERAL", self._topics[0]), "DESCRIBE"))
        wait_until(lambda: not list(self._wrong_logins()), 60, "the user on all nodes")

    # Changes: each returns whether it was carried out ----------------------------------------

    def rotate(self) -> bool:
        """Certificates of all nodes by the other authority, in their files."""
        self._rotations += 1
        signer = self._authorities[self._rotations % 2]
        for node in self._cluster.nodes:
            name = node_name(node.node_id)
            replace_file(self._security.key_store(name), signer.issue(name, HOSTS), secret=True)
        return True

    def lock_out(self) -> bool:
        """Gives the user the other password."""
        self._is_locked_out = True
        return self._try(lambda admin: self._set_password(admin, OTHER_PASSWORD))

    def let_in(self) -> bool:
        """Gives the user its own password again."""
        if self._is_locked_out and self._try(lambda admin: self._set_password(admin, PASSWORD)):
            self._is_locked_out = False
        return not self._is_locked_out

    def exchange_rights(self) -> bool:
        """The user has the same rights by other entries; the guest has others."""
        return self._try(self._exchange)

    def _exchange(self, admin: AdminClient) -> None:
        gone, come = self._entries(self._exchanges), self._entries(self._exchanges + 1)
        admin.acls.add(come)
        for pattern in dict.fromkeys((each.pattern_type, each.resource_name) for each in gone):
            if pattern not in {(each.pattern_type, each.resource_name) for each in come}:
                self._remove(admin, USER, pattern)
        shown = self._topics[self._exchanges % len(self._topics)]
        shows = self._topics[(self._exchanges + 1) % len(self._topics)]
        admin.acls.add(_allowed(GUEST, "TOPIC", ("LITERAL", shows), "DESCRIBE"))
        if shown != shows:
            self._remove(admin, GUEST, ("LITERAL", shown))
        self._exchanges += 1

    def _entries(self, turn: int) -> list[Acl]:
        """The rights of the user in one of three forms."""
        forms: tuple[list[Pattern], ...] = (
            [("LITERAL", topic) for topic in self._topics],
            [("PREFIXED", topic[:2]) for topic in self._topics],
            [("LITERAL", "*")],
        )
        return [
            entry
            for pattern in forms[turn % len(forms)]
            for operation in ("READ", "WRITE")
            for entry in _allowed(USER, "TOPIC", pattern, operation)
        ]

    @staticmethod
    def _remove(admin: AdminClient, user: str, pattern: Pattern) -> None:
        kind, name = pattern
        for entry in admin.acls.list(AclQuery(ResourceType.TOPIC, principal=f"User:{user}")):
            if (entry.pattern_type, entry.resource_name) == (kind, name):
                admin.acls.remove(_query_of(entry))

    def _set_password(self, admin: AdminClient, password: str) -> None:
        admin.users.add(USER, Mechanism(MECHANISM), Secret(password))

    def _try(self, change: Any) -> bool:
        try:
            with self._cluster.admin(_ASK_S) as admin:
                change(admin)
        except _FAILURES:
            return False
        return True

    # After healing ----------------------------------------------------------------------------

    def complaints(self, timeout_s: float) -> list[str]:
        """What is not as it was left, within the time."""
        for change in (self.let_in, self.exchange_rights):
            with suppress(TimeoutError):
                wait_until(change, timeout_s, "a change of what may have been left half done")
        with suppress(TimeoutError):
            wait_until(lambda: not self._wrong(), timeout_s, "what was changed last, on all nodes")
        return self._wrong()

    def _wrong(self) -> list[str]:
        return [*self._wrong_logins(), *self._wrong_rights(), *self._wrong_certificates()]

    def _wrong_logins(self) -> Iterator[str]:
        for node in self._cluster.nodes:
            for password, is_right in ((PASSWORD, True), (OTHER_PASSWORD, False)):
                if self._accepts(node, password) is not is_right:
                    outcome = "accepted" if is_right else "refused"
                    yield f"node {node.node_id}: `{password}` is not {outcome}"

    def _accepts(self, node: LocalNode, password: str) -> bool | None:
        """`None`: it cannot be asked."""
        jaas = f'{SCRAM_MODULE} required username="{USER}" password="{password}";'
        settings = {**self._security.client().settings, "sasl.jaas.config": jaas}
        try:
            self._topics_for(node, settings)
        except AuthenticationFailed:
            return False
        except (Unreachable, AdminError):
            return None
        return True

    def _wrong_rights(self) -> Iterator[str]:
        wanted = [self._topics[self._exchanges % len(self._topics)]]
        for node in self._cluster.nodes:
            try:
                seen = self._topics_for(node, self._security.client(GUEST).settings)
            except (Unreachable, AdminError) as error:
                seen = [str(error)]
            if seen != wanted:
                yield f"node {node.node_id}: the guest sees {seen}, not {wanted}"

    def _wrong_certificates(self) -> Iterator[str]:
        for node in self._cluster.nodes:
            file = self._security.key_store(node_name(node.node_id))
            for port in (node.port, node.peer_port, node.controller_port):
                try:
                    shown = ssl.get_server_certificate((HOST, port), timeout=_ASK_S)
                except OSError as error:
                    shown = str(error)
                if shown.strip() not in file.read_text(encoding="utf-8"):
                    yield f"node {node.node_id}: port {port} does not show its new certificate"

    @staticmethod
    def _topics_for(node: LocalNode, settings: Mapping[str, str]) -> list[str]:
        security = ClientSecurity(settings)
        with AdminClient([node.address], timeout_s=_ASK_S, security=security) as admin:
            return admin.list_topics()


def _allowed(user: str, kind: str, pattern: Pattern, operation: str) -> list[Acl]:
    return [Acl(kind, pattern[1], pattern[0], f"User:{user}", "*", operation, "ALLOW")]


def _query_of(entry: Acl) -> AclQuery:
    """Exactly this entry."""
    return AclQuery(
        ResourceType[entry.resource_type],
        entry.resource_name,
        PatternType[entry.pattern_type],
        entry.principal,
        entry.host,
        Operation[entry.operation],
    )
