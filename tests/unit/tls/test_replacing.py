"""Goal: a certificate is replaced only by one with its names; trust is in `test_tls_contexts`."""

import pytest

from tests.unit.tls.stores import key_store
from tidelog.config.values import TlsConfig
from tidelog.errors import UsageError
from tidelog.testing.certificates import Authority
from tidelog.tls.replacing import check_names

AUTHORITY = Authority.create()


def chain(name: str, *hosts: str) -> str:
    return key_store(AUTHORITY.issue(name, hosts)).certificates


def test_more_host_names_are_fine_and_fewer_are_not() -> None:
    few, many = chain("a", "x"), chain("a", "x", "::1")
    check_names(TlsConfig(), few, many)
    check_names(TlsConfig(allows_san_changes=True), many, few)
    with pytest.raises(UsageError, match="lacks the host name `::1`"):
        check_names(TlsConfig(), many, few)


def test_another_name_needs_leave() -> None:
    check_names(TlsConfig(allows_dn_changes=True), chain("a"), chain("b"))
    with pytest.raises(UsageError, match="its name is `CN=b`"):
        check_names(TlsConfig(), chain("a"), chain("b"))
