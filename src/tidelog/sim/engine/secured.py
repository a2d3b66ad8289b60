"""A cluster of the simulator that asks for logins and decides about rights.

Clients and brokers log in by SCRAM, as users that formatting leaves behind in the bootstrap
metadata. Controllers let nodes in by PLAIN, because they have no metadata when they start. The
nodes and the administrator are super users; what the other users may do, the workload's
administrator says (`workloads/keeper.py`).

Passwords are salted once in a process of the simulator: PBKDF2 takes milliseconds of real time, and
none of the world's.
"""

from functools import cache
from typing import Final

from tidelog.config.values import STANDARD_AUTHORIZER, JaasSetting
from tidelog.controller.bootstrap import BOOTSTRAP_FILE, bootstrap_file
from tidelog.limits import MIN_SCRAM_ITERATIONS
from tidelog.metadata.records import UserScramCredentialRecord
from tidelog.metadata.scram_keys import salt_password, scram_record
from tidelog.model import Mechanism, Secret
from tidelog.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from tidelog.security.listener_logins import NodeSecrets, OwnLogin
from tidelog.sim.engine.client_machine import CLIENT
from tidelog.sim.engine.formation import WALL_START_MS
from tidelog.sim.engine.world import World

MECHANISM: Final = Mechanism.SCRAM_SHA_256
NODE: Final = "node"
ADMIN: Final = "admin"
INTRUDER: Final = "intruder"
USERS: Final = (NODE, ADMIN, CLIENT, INTRUDER)
"""Of whom `CLIENT` gets the rights that the workload needs, and `INTRUDER` gets none."""


def settings(session_ms: int) -> dict[str, str]:
    """The properties of each node; sessions end after this time, if it is not 0."""
    password = first_password(NODE)
    own = f'required username="{NODE}" password="{password}"'
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "listener.name.plaintext.sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} {own};",
        "listener.name.controller.sasl.enabled.mechanisms": Mechanism.PLAIN,
        "sasl.mechanism.controller.protocol": Mechanism.PLAIN,
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} {own} user_{NODE}="{password}";'
        ),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{NODE};User:{ADMIN}",
        "connections.max.reauth.ms": str(session_ms),
    }


def first_password(user: str) -> str:
    """What a user has until it is changed."""
    return f"{user}-secret"


@cache
def salted(password: str, salt: bytes) -> bytes:
    """The salted password; computed once."""
    return salt_password(MECHANISM, password, salt, MIN_SCRAM_ITERATIONS)


def salt_of(user: str) -> bytes:
    """The same in every run."""
    return f"the salt of {user}".encode()


@cache
def _first_users() -> tuple[UserScramCredentialRecord, ...]:
    return tuple(
        scram_record(
            user,
            MECHANISM,
            salted(first_password(user), salt_of(user)),
            salt_of(user),
            MIN_SCRAM_ITERATIONS,
        )
        for user in USERS
    )


def login_of(user: str, password: str, secrets: NodeSecrets) -> OwnLogin:
    """How a client logs in."""
    text = f'{SCRAM_MODULE} required username="{user}" password="{password}";'
    return OwnLogin(MECHANISM, JaasSetting("sasl.jaas.config", Secret(text)), secrets)


def secure(world: World, seed: int) -> None:
    """Formats the nodes of a world, none of them started, with the first users, and gives its
    clients their passwords. Its nodes have `settings`."""
    for host in world.hosts.values():
        with host.disk.observed():
            host.disk.replace(BOOTSTRAP_FILE, bootstrap_file(_first_users(), WALL_START_MS))
    secrets = NodeSecrets.from_seed(seed)
    world.clients.logins |= {
        user: login_of(user, first_password(user), secrets) for user in USERS if user != NODE
    }
