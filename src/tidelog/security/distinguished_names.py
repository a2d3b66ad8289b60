"""The subject of a certificate as Java's text of it: what Kafka makes a principal of.

RFC 2253: the parts stand in the reverse of their order in the certificate, joined by commas; a part
of several attributes joins them by `+` in their own order. Nine types of attributes have names, all
others stand as `OID=#` and the hexadecimal DER of their value. `, + " \\ < > ; = #` get a
backslash, and so do spaces at both ends. Other characters stand as they are.

It is read from the DER by hand, forty lines: the text that libraries print escapes otherwise and
names other types. The certificate has passed OpenSSL's checks, so its DER is sound; a length that
points outside of it still ends in `ValueError`.

Source: RFC 2253, RFC 5280; `X500Principal.getName()` of OpenJDK 17, whose answers are the test's.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0

_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""The types of strings; a value of another type stands in hexadecimal."""
_ESCAPED: Final = frozenset(',+"\\<>;=#')


class _Element(NamedTuple):
    """One element of DER."""

    tag: int
    content: bytes
    encoded: bytes
    """With tag and length."""


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER; `""` for an empty one. Raises `ValueError`."""
    (outer,) = _elements(certificate)
    to_be_signed, *_ = _elements(outer.content)
    fields = [e for e in _elements(to_be_signed.content) if e.tag != _VERSION]
    # Serial number, algorithm, issuer, validity, subject.
    parts = [_part(relative.content) for relative in _elements(fields[4].content)]
    return ",".join(reversed(parts))


def _part(relative: bytes) -> str:
    return "+".join(_attribute(each.content) for each in _elements(relative))


def _attribute(content: bytes) -> str:
    kind, value = _elements(content)
    oid = _oid(kind.content)
    if oid not in _NAMES or value.tag not in _ENCODINGS:
        return f"{oid}=#{value.encoded.hex()}"
    return f"{_NAMES[oid]}={_escaped(value.content.decode(_ENCODINGS[value.tag]))}"


def _escaped(text: str) -> str:
    inner = text.strip(" ")
    if not inner:
        return "\\ " * len(text)
    lead = len(text) - len(text.lstrip(" "))
    trail = len(text) - lead - len(inner)
    written = "".join(f"\\{c}" if c in _ESCAPED else c for c in inner).replace("\0", "\\00")
    return "\\ " * lead + written + "\\ " * trail


def _oid(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: bytes) -> Iterator[_Element]:
    """The elements that stand one after the other; raises `ValueError`."""
    begin = 0
    while begin < len(data):
        if begin + 2 > len(data):
            raise ValueError("DER ends within an element")
        tag, length, place = data[begin], data[begin + 1], begin + 2
        if length >= 0x80:
            place += length & 0x7F
            length = int.from_bytes(data[begin + 2 : place], "big")
        end = place + length
        if end > len(data):
            raise ValueError("DER ends within an element")
        yield _Element(tag, data[place:end], data[begin:end])
        begin = end
