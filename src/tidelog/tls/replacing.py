"""Whether a certificate may take the place of another while a node runs (KIP-226).

A wrong file must not cut a node off from its cluster. So the new certificate has the name of the
old one and all of its host names, unless the configuration allows otherwise, and where nodes
connect to each other the old and the new trust each other: a node that has changed and one that
has not still connect.
"""

import ssl
from collections.abc import Iterable

from cryptography import x509

from tidelog.config.values import TlsConfig
from tidelog.errors import UsageError


def _host_names(certificate: x509.Certificate) -> set[str]:
    """The names and addresses that a certificate is for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in found.value}


def check_names(tls: TlsConfig, old_chain: str, new_chain: str) -> None:
    """Raises `UsageError` for a name that has changed or is missing; the chains are PEM."""
    old, new = map(_first, (old_chain, new_chain))
    if new.subject != old.subject and not tls.allows_dn_changes:
        problem = f"its name is `{new.subject.rfc4514_string()}` now"
        raise UsageError(problem, "set `ssl.allow.dn.changes=true`")
    missing = _host_names(old) - _host_names(new)
    if missing and not tls.allows_san_changes:
        problem = f"it lacks the host name `{min(missing)}`"
        raise UsageError(problem, "set `ssl.allow.san.changes=true`")


def check_trust(pairs: Iterable[tuple[ssl.SSLContext, ssl.SSLContext]], new_chain: str) -> None:
    """Raises `UsageError` unless the server and the client of each pair accept each other."""
    name = min(_host_names(_first(new_chain)), default="")
    if not name:
        return
    for server, client in pairs:
        try:
            _shake_hands(server, client, name)
        except ssl.SSLError as error:
            raise UsageError(
                f"old and new do not trust each other: {error.reason}",
                "let all nodes trust the new authority first",
            ) from None


def _first(chain: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(chain.encode())


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(down, up, server_hostname=name),
        server.wrap_bio(up, down, server_side=True),
    ]
    # Each of these handshakes has ended after three flights of each side.
    for side in sides * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
