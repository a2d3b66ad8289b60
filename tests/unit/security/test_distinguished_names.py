"""Goal: a certificate's subject has the text that Java gives it, which access control lists name.

The expected texts are answers of `X500Principal.getName()` of OpenJDK 17 to these subjects.
"""

import base64

import pytest
from cryptography.x509 import Name, NameAttribute, NameOID, RelativeDistinguishedName

from tidelog.security.distinguished_names import subject_of
from tidelog.testing.certificates import Authority

AUTHORITY = Authority.create()
CN = NameOID.COMMON_NAME


def der_of(*parts: list[tuple[object, str]]) -> bytes:
    """A certificate whose subject has these parts."""
    relatives = [
        RelativeDistinguishedName([NameAttribute(kind, text) for kind, text in part])  # type: ignore[arg-type]
        for part in parts
    ]
    pem = AUTHORITY.issue(Name(relatives))
    lines = pem[pem.index("-----BEGIN CERTIFICATE-----") :].splitlines()
    return base64.b64decode("".join(lines[1:-1]))


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (
            [
                [(CN, "client,x")],
                [(NameOID.LOCALITY_NAME, "a b"), (NameOID.ORGANIZATIONAL_UNIT_NAME, "eng")],
                [(NameOID.ORGANIZATION_NAME, "Tide")],
                [(NameOID.COUNTRY_NAME, "DE")],
            ],
            r"C=DE,O=Tide,L=a b+OU=eng,CN=client\,x",
        ),
        ([[(CN, "a#b")]], r"CN=a\#b"),
        ([[(CN, " sp  in ")]], r"CN=\ sp  in\ "),
        ([[(CN, 'q"\\<>;=+')]], r"CN=q\"\\\<\>\;\=\+"),
        ([[(CN, "zoë\t\n")]], "CN=zoë\t\n"),
        (
            [
                [(NameOID.EMAIL_ADDRESS, "a@b.c")],
                [(NameOID.DOMAIN_COMPONENT, "x")],
                [(NameOID.USER_ID, "u1")],
                [(NameOID.STREET_ADDRESS, "s 1")],
                [(NameOID.STATE_OR_PROVINCE_NAME, "BY")],
            ],
            "ST=BY,STREET=s 1,UID=u1,DC=x,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        ([], ""),
    ],
)
def test_a_subject_has_javas_text(parts: list[list[tuple[object, str]]], text: str) -> None:
    assert subject_of(der_of(*parts)) == text


def test_der_that_ends_early_is_an_error() -> None:
    der = der_of([(CN, "client")])
    for end in (1, 3, 50, len(der) - 1):
        with pytest.raises(ValueError, match="DER ends"):
            subject_of(der[:end])
