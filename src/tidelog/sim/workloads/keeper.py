"""The administrator of a secured cluster: gives the workload its rights, and changes passwords and
rights while nodes fail.

The rights are there before the other clients begin. From then on one change follows the other: the
clients' password becomes another one, or they lose a right and get it back. A change that got no
answer is asked for again, because what became of it is not known; it is the same twice.

A request without an answer may still be on its way: a broker may forward it long after the right it
takes away was given back, or after the next password. So once there are no more changes, all rights
and the last password are given again and again.

Clients go on through all of this: they log in again, or they are denied for a while. No
acknowledged record may be lost over it, and the checkers of every run look at that.
"""

from collections.abc import Callable
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.limits import MIN_SCRAM_ITERATIONS
from tidelog.metadata.acls import WILDCARD
from tidelog.metadata.scram_keys import SCRAM_NUMBERS
from tidelog.security.listener_logins import NodeSecrets
from tidelog.sim.engine.client_machine import CLIENT
from tidelog.sim.engine.secured import MECHANISM, first_password, login_of, salt_of, salted
from tidelog.sim.workloads.cluster_view import ClusterView, request
from tidelog.wire.acl_values import Operation, PatternType, Permission, ResourceType
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import error_of

ACLS_VERSION: Final = 3
SCRAM_VERSION: Final = 0
RETRY_MS: Final = 100
LONGEST_DENIAL_MS: Final = 600
GIVEN_AGAIN_MS: Final = 1000
"""How often rights and password are given once there are no more changes."""

Right = tuple[ResourceType, str, PatternType, int]
"""What the clients may do with which resources."""

_WRITE: Final = (ResourceType.TOPIC, "t", PatternType.PREFIXED, Operation.WRITE)
_READ: Final = (ResourceType.TOPIC, "t", PatternType.PREFIXED, Operation.READ)
_OTHERS: Final = tuple(
    (ResourceType.TOPIC, "t", PatternType.PREFIXED, operation)
    for operation in (Operation.DESCRIBE, Operation.CREATE, Operation.DELETE)
)
_WHOLE: Final = (
    (ResourceType.TOPIC, "x1", PatternType.LITERAL, Operation.ALL),
    (ResourceType.TOPIC, "k1", PatternType.LITERAL, Operation.ALL),
    (ResourceType.TOPIC, "y", PatternType.PREFIXED, Operation.ALL),
    (ResourceType.TOPIC, "__", PatternType.PREFIXED, Operation.ALL),
    (ResourceType.GROUP, WILDCARD, PatternType.LITERAL, Operation.ALL),
    (ResourceType.TRANSACTIONAL_ID, "tx", PatternType.PREFIXED, Operation.ALL),
    (ResourceType.TRANSACTIONAL_ID, "copier", PatternType.PREFIXED, Operation.ALL),
)
RIGHTS: Final[tuple[Right, ...]] = (_WRITE, _READ, *_OTHERS, *_WHOLE)
TEMPORARY: Final = (_WRITE, _READ)
"""What is taken from the clients for a while."""


class Keeper:
    """One client that is a super user."""

    def __init__(self, view: ClusterView, prng: Prng) -> None:
        self._view = view
        self._prng = prng
        # For the logins with later passwords.
        self._secrets = NodeSecrets.from_seed(prng.next_u64())
        # Passwords that the clients have had.
        self._password_count = 1
        # Whether no change is under way.
        self.is_settled = True

    def start(self, then: Callable[[], None]) -> None:
        """Gives the clients their rights; then the others begin."""
        self.is_settled = False

        def given() -> None:
            self._settle()
            then()

        self._give(RIGHTS, given)

    def stop(self) -> None:
        """There are no more changes. See the module."""

        def later() -> None:
            self._view.world.at(GIVEN_AGAIN_MS, again)

        def again() -> None:
            self._give(RIGHTS, lambda: self._set_password(later))

        later()

    def act(self) -> None:
        """Begins one change, if none is under way."""
        if self.is_settled:
            self.is_settled = False
            self._prng.choice((self._change_password, self._deny_for_a_while))()

    def _settle(self) -> None:
        self.is_settled = True

    def _change_password(self) -> None:
        self._password_count += 1
        self._set_password(self._settle)

    def _set_password(self, then: Callable[[], None]) -> None:
        """Gives the clients the newest password; they know it once that is done."""
        password = f"{first_password(CLIENT)}-{self._password_count}"
        salt = salt_of(password)
        change = {
            "name": CLIENT,
            "mechanism": SCRAM_NUMBERS[MECHANISM],
            "iterations": MIN_SCRAM_ITERATIONS,
            "salt": salt,
            "salted_password": salted(password, salt),
        }

        def done() -> None:
            logins = self._view.world.clients.logins
            logins[CLIENT] = login_of(CLIENT, password, self._secrets)
            then()

        wanted = request(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, SCRAM_VERSION, deletions=[], upsertions=[change]
        )
        self._insist(wanted, lambda answer: answer.results, done)

    def _deny_for_a_while(self) -> None:
        right = self._prng.choice(TEMPORARY)
        resource_type, name, pattern, operation = right
        entry = {
            "resource_type_filter": resource_type,
            "resource_name_filter": name,
            "pattern_type_filter": pattern,
            "principal_filter": f"User:{CLIENT}",
            "host_filter": WILDCARD,
            "operation": operation,
            "permission_type": Permission.ALLOW,
        }
        wanted = request(ApiKey.DELETE_ACLS, ACLS_VERSION, filters=[entry])
        pause = self._prng.between(0, LONGEST_DENIAL_MS)

        def restore() -> None:
            self._give((right,), self._settle)

        self._insist(
            wanted,
            lambda answer: answer.filter_results,
            lambda: self._view.world.at(pause, restore),
        )

    def _give(self, rights: tuple[Right, ...], then: Callable[[], None]) -> None:
        entries = [
            {
                "resource_type": resource_type,
                "resource_name": name,
                "resource_pattern_type": pattern,
                "principal": f"User:{CLIENT}",
                "host": WILDCARD,
                "operation": operation,
                "permission_type": Permission.ALLOW,
            }
            for resource_type, name, pattern, operation in rights
        ]
        wanted = request(ApiKey.CREATE_ACLS, ACLS_VERSION, creations=entries)
        self._insist(wanted, lambda answer: answer.results, then)

    def _insist(
        self,
        wanted: Entity,
        results_of: Callable[[Entity], tuple[Entity, ...]],
        then: Callable[[], None],
    ) -> None:
        """Asks until it is done."""

        def answered(answer: Entity | None) -> None:
            results = () if answer is None else results_of(answer)
            codes = {error_of(result.error_code) for result in results}
            if codes == {ErrorCode.NONE}:
                then()
            else:
                self._view.world.at(RETRY_MS, lambda: self._view.ask(wanted, answered))

        self._view.ask(wanted, answered)
