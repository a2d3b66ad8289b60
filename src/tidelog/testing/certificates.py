"""Certificates for a cluster on this machine: an authority of its own, and what it signs.

For local clusters and for tests. The authority's key lies beside its certificates, unencrypted:
a user who can read the cluster's directory can have any name there. Keys are of P-256, whose
handshakes are the fastest.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tidelog.testing.files import replace_file

TEN_YEARS: Final = timedelta(days=3650)


class Authority:
    """Signs certificates; see the module's docstring."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        # Its private key, and what its clients trust.
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, name: str = "Tidelog local authority") -> Self:
        """A new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key, datetime.now(UTC), TEN_YEARS)
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        builder = builder.add_extension(constraints, critical=True)
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(own, critical=False)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def kept_in(cls, path: Path) -> Self:
        """The one in a file, which is made if there is none."""
        if not path.exists():
            made = cls.create()
            replace_file(path, _key_pem(made._key) + made.pem, secret=True)
            return made
        text = path.read_bytes()
        key = serialization.load_pem_private_key(text, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey), f"`{path}` has another kind of key"
        return cls(key, x509.load_pem_x509_certificate(text))

    @property
    def pem(self) -> str:
        """Its certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(
        self,
        name: str | x509.Name,
        hosts: Sequence[str] = (),
        *,
        begin: datetime | None = None,
        lifetime: timedelta = TEN_YEARS,
    ) -> str:
        """A new private key and the certificate for it, in PEM; `name` is the common name, or the
        whole. `hosts` are names and addresses of a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        if isinstance(name, str):
            name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        begin = begin or datetime.now(UTC)
        builder = _builder(name, self._certificate.subject, key, begin, lifetime)
        public = self._key.public_key()
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return _key_pem(key) + certificate.public_bytes(serialization.Encoding.PEM).decode()


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begin: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of machines differ a little.
        .not_valid_before(begin - timedelta(minutes=5))
        .not_valid_after(begin + lifetime)
    )


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
