"""Key stores and trust stores: private keys and certificates as PEM text.

A store of type PEM is a text with blocks, in a file or in the configuration; what stands between
the blocks is not looked at. A key store has one private key, in PKCS#8 (plain or encrypted) or in
the older forms of OpenSSL, and its certificates, the own one first. PKCS12 is read by
`cryptography`, which is imported only then.

`JKS` is the default type of Kafka's configuration, and Java reads PKCS12 under that name too; so
does this. A file that really is in Java's own format is refused with the command that converts it.

A file with a private key that other users of the machine may read is refused: the key is not a
secret any more.
"""

import os
import re
import stat
from pathlib import Path
from textwrap import wrap
from typing import Final, NamedTuple

from tidelog.config.values import StoreConfig, TlsConfig
from tidelog.errors import UsageError
from tidelog.limits import MAX_STORE_BYTES
from tidelog.model import Secret

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"


class KeyAndChain(NamedTuple):
    """A private key and its certificates, in PEM."""

    key: Secret
    key_password: Secret
    """Of the key; empty for one that is not encrypted."""
    chain: str
    """The own certificate first."""


def read_key_store(tls: TlsConfig) -> KeyAndChain:
    """The private key and certificates of a key store. Raises `UsageError`."""
    store = tls.keystore
    if store.location:
        data = read_file("ssl.keystore.location", store.location, is_secret=True)
        if store.type != "PEM":
            return _key_of_pkcs12(store, data)
        text = _text_of("ssl.keystore.location", store.location, data)
        return _key_of_pem(f"`{store.location}`", text, tls.key_password)
    text = f"{store.key.reveal()}\n{store.certificates}"
    return _key_of_pem("`ssl.keystore.key`", text, tls.key_password)


def read_trust_store(store: StoreConfig) -> str:
    """The certificates of a trust store, in PEM. Raises `UsageError`."""
    place = f"`{store.location}`" if store.location else "`ssl.truststore.certificates`"
    text = store.certificates
    if store.location:
        data = read_file("ssl.truststore.location", store.location, is_secret=False)
        if store.type != "PEM":
            return _certificates_of_pkcs12(store, data)
        text = _text_of("ssl.truststore.location", store.location, data)
    certificates = [block for kind, block in _blocks(text) if kind == "CERTIFICATE"]
    if not certificates:
        raise UsageError(f"{place} has no certificate", "give authorities' certificates in PEM")
    return "\n".join(certificates)


def files_of(tls: TlsConfig) -> tuple[str, ...]:
    """The files that a configuration names."""
    return tuple(filter(None, (tls.keystore.location, tls.truststore.location)))


def is_open_to_all(path: Path) -> bool:
    """Whether a file is one that every user of the machine may read or write; a pipe is not."""
    mode = path.stat().st_mode
    return stat.S_ISREG(mode) and _others_may_read(mode)


def _others_may_read(mode: int) -> bool:
    """Whether every user of the machine may read or write a file with this mode."""
    return bool(mode & stat.S_IRWXO)


def read_file(
    name: str, location: str, *, is_secret: bool, max_bytes: int = MAX_STORE_BYTES
) -> bytes:
    """A file that the property `name` names. Raises `UsageError`, also for a secret one that
    everybody may read."""
    try:
        # Not blocking: a pipe would wait for its writer.
        descriptor = os.open(location, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise UsageError(f"`{name}`: `{location}` is not a regular file", "name a file")
            if is_secret and _others_may_read(mode):
                raise UsageError(
                    f"`{name}`: every user of the machine may read the secret in `{location}`",
                    f"run `chmod 600 {location}`",
                )
            data = os.read(descriptor, max_bytes + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UsageError(
            f"`{name}`: `{location}` cannot be read: {error.strerror}",
            "correct the path, or give this user the right to read it",
        ) from None
    if len(data) > max_bytes:
        problem = f"`{name}`: `{location}` has more than {max_bytes} bytes"
        raise UsageError(problem, "name a file with keys or certificates only")
    return data


# PEM ---------------------------------------------------------------------------------------


def _text_of(name: str, location: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(
            f"`{name}`: `{location}` is not PEM", "set the store's type: `PKCS12` perhaps"
        ) from None


def _blocks(text: str) -> list[tuple[str, str]]:
    """The blocks of a PEM text with their kinds, their lines broken anew: a block in a properties
    file may be one long line."""
    blocks = []
    for kind, body in _BLOCK.findall(text):
        if ":" not in body:  # The headers of an old encrypted key must stay as they are.
            body = "\n".join(["", *wrap("".join(body.split()), 64), ""])
        blocks.append((kind, f"-----BEGIN {kind}-----{body}-----END {kind}-----"))
    return blocks


def _key_of_pem(place: str, text: str, password: Secret) -> KeyAndChain:
    blocks = _blocks(text)
    keys = [block for kind, block in blocks if kind.endswith("PRIVATE KEY")]
    chain = [block for kind, block in blocks if kind == "CERTIFICATE"]
    if len(keys) != 1 or not chain:
        raise UsageError(
            f"{place} has {len(keys)} private keys and {len(chain)} certificates",
            "it needs one private key and the certificates that belong to it, in PEM",
        )
    is_encrypted = "ENCRYPTED" in keys[0]
    if is_encrypted and not password:
        raise UsageError(f"the private key in {place} is encrypted", "set `ssl.key.password`")
    return KeyAndChain(Secret(keys[0]), password if is_encrypted else Secret(), "\n".join(chain))


# PKCS12 ------------------------------------------------------------------------------------


def _load_pkcs12(name: str, store: StoreConfig, data: bytes) -> "_Loaded":
    location = store.location
    if data[:4] in (_JKS_MAGIC, _JCEKS_MAGIC):
        converted = Path(location).with_suffix(".p12")
        raise UsageError(
            f"`{name}`: `{location}` is in Java's own format, which is not read here",
            f"run `keytool -importkeystore -srckeystore {location} -destkeystore {converted} "
            f"-deststoretype PKCS12`, and name `{converted}`",
        )
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        found = pkcs12.load_pkcs12(data, store.password.reveal().encode() or None)
    except ValueError:
        if data.startswith(b"-----BEGIN"):
            kind = name.removesuffix(".location")
            raise UsageError(f"`{name}`: `{location}` is PEM", f"set `{kind}.type=PEM`") from None
        raise UsageError(
            f"`{name}`: `{location}` is not a PKCS12 store that opens with this password",
            "correct the password, or the store's type",
        ) from None
    from cryptography.hazmat.primitives import serialization as s

    certificates = [found.cert, *found.additional_certs] if found.cert else found.additional_certs
    key = found.key
    return _Loaded(
        Secret(
            key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()).decode()
            if key is not None
            else ""
        ),
        "".join(each.certificate.public_bytes(s.Encoding.PEM).decode() for each in certificates),
    )


class _Loaded(NamedTuple):
    """What a PKCS12 store has."""

    key: Secret
    certificates: str


def _key_of_pkcs12(store: StoreConfig, data: bytes) -> KeyAndChain:
    key, chain = _load_pkcs12("ssl.keystore.location", store, data)
    if not key or not chain:
        raise UsageError(
            f"`{store.location}` has no private key with a certificate",
            "name the store of this node, not a trust store",
        )
    return KeyAndChain(key, Secret(), chain)


def _certificates_of_pkcs12(store: StoreConfig, data: bytes) -> str:
    _, certificates = _load_pkcs12("ssl.truststore.location", store, data)
    if not certificates:
        raise UsageError(f"`{store.location}` has no certificate", "name a trust store")
    return certificates
