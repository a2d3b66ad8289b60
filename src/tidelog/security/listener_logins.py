"""Who may log in at a listener, and who this node is at the listeners of others.

Both come from the configuration of the listener (`config/sasl.py`), and SCRAM's users from the
metadata. A node whose configuration makes no login possible refuses to start.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.config.property_types import listener_prefix
from tidelog.config.values import JaasSetting, ListenerSasl
from tidelog.env.entropy import Entropy
from tidelog.errors import UsageError
from tidelog.model import NO_SECRET, Mechanism
from tidelog.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, Jaas, parse_jaas
from tidelog.security.oauthbearer import OAuthClient, OAuthServer
from tidelog.security.plain import PlainClient, PlainServer, PlainUsers
from tidelog.security.sasl import SaslClient, SaslServer
from tidelog.security.scram import Accounts, SaltedPasswords, ScramClient, ScramServer
from tidelog.security.tokens import Judge, Keys, SignedTokens, UnsecuredTokens

_MODULE_OF: Final = {
    Mechanism.PLAIN: PLAIN_MODULE,
    Mechanism.SCRAM_SHA_256: SCRAM_MODULE,
    Mechanism.SCRAM_SHA_512: SCRAM_MODULE,
    Mechanism.OAUTHBEARER: OAUTHBEARER_MODULE,
}
_EXTENSIONS: Final = ("extension_", "unsecuredLoginExtension_")
"""Begin the options of a JAAS string that a login by OAUTHBEARER shows beside its token."""


@dataclass(frozen=True, slots=True)
class NodeSecrets:
    """What the logins of one node share."""

    entropy: Entropy
    # Makes salts for names that do not exist, and digests of PLAIN's passwords.
    key: bytes
    # Of this node's own logins.
    salted: SaltedPasswords

    @classmethod
    def from_seed(cls, seed: int) -> "NodeSecrets":
        """Drawn anew by each process."""
        entropy = Entropy(seed)
        return cls(entropy, entropy.draw(), SaltedPasswords())


class ListenerLogins:
    """Makes the server's side of the logins at one listener."""

    def __init__(
        self, sasl: ListenerSasl, accounts: Accounts, secrets: NodeSecrets, keys: Keys
    ) -> None:
        """Raises `UsageError` for a JAAS string that cannot be used."""
        # The names of the mechanisms, as clients see them.
        self.mechanisms = tuple(map(str, sasl.mechanisms))
        # How long a session lasts, by mechanism; 0 is for ever.
        self.session_ms = sasl.session_ms
        # SCRAM's users and tokens.
        self._accounts = accounts
        self._secrets = secrets
        jaas = {m: read_jaas(m, setting) for m, setting in sasl.jaas.items()}
        # PLAIN's users.
        options = jaas[Mechanism.PLAIN].options if Mechanism.PLAIN in jaas else {}
        self._users = PlainUsers(options, secrets.key)
        # What decides about tokens; `None` where the listener takes none.
        self._judge = None if sasl.tokens is None else _judge(sasl, keys, jaas)

    def begin(self, mechanism: Mechanism, wall_ms: int) -> SaslServer:
        """A login by one of the mechanisms, at this time."""
        if mechanism is Mechanism.PLAIN:
            return PlainServer(self._users)
        if mechanism is Mechanism.OAUTHBEARER:
            assert self._judge is not None, "a mechanism that the listener does not have"
            return OAuthServer(self._judge, wall_ms)
        secrets = self._secrets
        nonce = secrets.entropy.nonce()
        return ScramServer(mechanism, self._accounts, nonce, secrets.key)


def _judge(sasl: ListenerSasl, keys: Keys, jaas: Mapping[Mechanism, Jaas]) -> Judge:
    assert sasl.tokens is not None, "a listener that takes no tokens"
    if sasl.tokens.keys_url:
        return SignedTokens(sasl.tokens, keys)
    own = jaas.get(Mechanism.OAUTHBEARER)
    try:
        return UnsecuredTokens({} if own is None else own.options)
    except ValueError:
        setting = sasl.jaas[Mechanism.OAUTHBEARER].setting
        problem = f"`unsecuredValidatorAllowableClockSkewMs` in `{setting}` is not a number"
        raise UsageError(problem, "give milliseconds") from None


class OwnLogin:
    """Makes the client's side: how this node, or a program, logs in at one listener."""

    def __init__(
        self, mechanism: Mechanism, setting: JaasSetting | None, secrets: NodeSecrets
    ) -> None:
        """Raises `UsageError` for a JAAS string without a name and a password."""
        self.mechanism = mechanism
        # The name and the password, or the options of OAUTHBEARER, which needs none.
        self.jaas = no_jaas(mechanism) if setting is None else read_jaas(mechanism, setting)
        self._secrets = secrets
        # The newest token, which the driver or the client brings; OAUTHBEARER shows it.
        self.token = NO_SECRET
        # What OAUTHBEARER shows beside it.
        self._extensions = _extensions(self.jaas) if mechanism is Mechanism.OAUTHBEARER else {}
        if mechanism is not Mechanism.OAUTHBEARER:
            assert setting is not None, f"{mechanism} needs a name and a password"
            self._check_named(setting)

    def _check_named(self, setting: JaasSetting) -> None:
        for option in ("username", "password"):
            if not self.jaas.option(option):
                hint = 'add `username="NAME" password="PASSWORD"` to it'
                raise UsageError(f"`{setting.setting}` has no `{option}`", hint)

    def begin(self) -> SaslClient:
        """A login."""
        if self.mechanism is Mechanism.OAUTHBEARER:
            return OAuthClient(self.token, self._extensions)
        name, password = self.jaas.option("username"), self.jaas.options["password"]
        if self.mechanism is Mechanism.PLAIN:
            return PlainClient(name, password)
        secrets = self._secrets
        nonce = secrets.entropy.nonce()
        is_token = self.jaas.option("tokenauth").lower() == "true"
        return ScramClient(self.mechanism, name, password, nonce, secrets.salted, is_token=is_token)


def no_jaas(mechanism: Mechanism) -> Jaas:
    """Of a login that needs no options."""
    assert mechanism is Mechanism.OAUTHBEARER, f"{mechanism} needs a name and a password"
    return Jaas(OAUTHBEARER_MODULE, {})


def _extensions(jaas: Jaas) -> dict[str, str]:
    found = {}
    for name, value in jaas.options.items():
        for prefix in _EXTENSIONS:
            key = name.removeprefix(prefix)
            if key == name:
                continue
            if not (key.isascii() and key.isalpha()) or key == "auth" or not value:
                problem = f"`{name}` in a JAAS string is not an extension of OAUTHBEARER"
                raise UsageError(problem, "name it by letters, not `auth`, and give a value")
            found[key] = value.reveal()
    return found


def read_jaas(mechanism: Mechanism, setting: JaasSetting) -> Jaas:
    """The JAAS string for a mechanism. Raises `UsageError`."""
    jaas = parse_jaas(setting.text, setting.setting)
    module = _MODULE_OF[mechanism]
    if jaas.module != module:
        problem = f"`{setting.setting}` names `{jaas.module}`, which does not serve {mechanism}"
        raise UsageError(problem, f"use `{module}`")
    return jaas


def own_logins(sasl: Mapping[str, ListenerSasl], secrets: NodeSecrets) -> dict[str, OwnLogin]:
    """How this node logs in at the listeners of others, by their names. Raises `UsageError`."""
    logins = {}
    for listener, of_listener in sasl.items():
        mechanism = of_listener.own_mechanism
        if mechanism is None:
            continue
        setting = of_listener.jaas.get(mechanism)
        if setting is None and mechanism is not Mechanism.OAUTHBEARER:
            name = f"{listener_prefix(listener, mechanism)}sasl.jaas.config"
            hint = f'add `{name}={_MODULE_OF[mechanism]} required username="…" password="…";`'
            raise UsageError(f"nodes log in at the listener `{listener}`, and have no name", hint)
        logins[listener] = OwnLogin(mechanism, setting, secrets)
    return logins
