"""The contexts of Python's `ssl`: what TLS obeys on a listener, and towards a server.

A context is made of a `TlsConfig` and the files that it names, as they are now. It never changes:
new certificates make a new context, and connections that exist keep theirs.

Sessions are not resumed. A connection to a node lasts for hours, so resumption saves nothing, and a
peer whose certificate is not trusted any more could come back with an old session. Renegotiation
and compression are off. `SSLKEYLOGFILE` is not obeyed.

Private keys get into OpenSSL through a file in memory: its interface takes names of files only.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidelog.config.property_types import listener_prefix
from tidelog.config.values import TlsConfig
from tidelog.errors import UsageError
from tidelog.tls.cipher_names import restrict
from tidelog.tls.stores import KeyAndChain, read_key_store, read_trust_store

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(tls: TlsConfig, listener: str) -> ssl.SSLContext:
    """For connections that a listener accepts. Raises `UsageError`."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, tls)
    if not tls.keystore:
        raise UsageError(
            f"the listener `{listener}` uses TLS and has no certificate",
            "set `ssl.keystore.location`, or `ssl.keystore.key` and "
            f"`ssl.keystore.certificate.chain` (for this listener only: "
            f"`{listener_prefix(listener)}ssl.keystore.location`)",
        )
    if tls.client_auth != "none":
        if not tls.truststore:
            raise UsageError(
                f"the listener `{listener}` asks clients for certificates and trusts no authority",
                "set `ssl.truststore.location` or `ssl.truststore.certificates`",
            )
        context.verify_mode = _CLIENT_AUTH[tls.client_auth]
        _trust(context, tls)
    context.num_tickets = 0
    return context


def client_context(tls: TlsConfig) -> ssl.SSLContext:
    """For connections to a server. Without a trust store the authorities of this machine are
    trusted. Raises `UsageError`."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, tls)
    context.check_hostname = tls.checks_host_name
    if tls.truststore:
        _trust(context, tls)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _context(protocol: int, tls: TlsConfig) -> ssl.SSLContext:
    """What both sides share: versions, suites, the own certificate."""
    context = ssl.SSLContext(protocol)
    versions = [_VERSIONS[name] for name in tls.enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    if tls.cipher_suites:
        restrict(context, tls.cipher_suites)
    if tls.keystore:
        _show(context, read_key_store(tls))
    return context


def _trust(context: ssl.SSLContext, tls: TlsConfig) -> None:
    certificates = read_trust_store(tls.truststore)
    try:
        context.load_verify_locations(cadata=certificates)
    except ssl.SSLError as error:
        raise UsageError(
            f"a certificate of the trust store cannot be read: {error.reason}",
            "correct `ssl.truststore.location` or `ssl.truststore.certificates`",
        ) from None


def _show(context: ssl.SSLContext, own: KeyAndChain) -> None:
    try:
        with _file_of(own.chain) as chain, _file_of(own.key.reveal()) as key:
            # A password is always given: without one OpenSSL would ask at the terminal.
            context.load_cert_chain(chain, key, own.key_password.reveal() or "none")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise UsageError(
                "the private key and the first certificate of the key store do not belong together",
                "give the own certificate first, and the key that it was made with",
            ) from None
        raise UsageError(
            f"the key store cannot be used: {error.reason or 'its key or certificate is unsound'}",
            "correct the store, or `ssl.key.password`",
        ) from None


@contextmanager
def _file_of(text: str) -> Iterator[str]:
    """The name of a file in memory, which no other process can open by a name."""
    descriptor = os.memfd_create("tidelog", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
