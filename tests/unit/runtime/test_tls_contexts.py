"""Goal: new files are taken over for new connections, and wrong ones change nothing.

Method: files of a listener over which nodes connect, replaced one after the other.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tidelog.config.property_types import listener_prefix
from tidelog.config.values import StoreConfig, TlsConfig
from tidelog.model import Secret
from tidelog.runtime.tls_contexts import TlsContexts
from tidelog.testing.certificates import Authority
from tidelog.testing.files import replace_file

AUTHORITY = Authority.create()
HOSTS = ["localhost", "127.0.0.1"]


class Files:
    """A listener's files and its contexts."""

    def __init__(self, directory: Path, **changes: bool) -> None:
        self.own, self.trusted = directory / "own.pem", directory / "ca.pem"
        self.write(AUTHORITY.issue("node-1", HOSTS))
        self.trusted.write_text(AUTHORITY.pem)
        stores = [StoreConfig("PEM", str(path)) for path in (self.own, self.trusted)]
        tls = replace(TlsConfig(*stores, client_auth="required"), **changes)
        self.contexts = TlsContexts({"SSL": tls}, ["SSL"], ["SSL"])

    def write(self, pem: str) -> None:
        """Replaces the key store."""
        replace_file(self.own, pem, secret=True)

    def outcomes(self) -> list[str]:
        """What a reload says, and checks that it matches what it did."""
        before = self.contexts.of_opened("SSL"), self.contexts.of_dialled("SSL")
        outcomes = [reason for _, reason in self.contexts.reload()]
        after = self.contexts.of_opened("SSL"), self.contexts.of_dialled("SSL")
        changed = [old is not new for old, new in zip(before, after, strict=True)]
        assert changed == ([True, True] if outcomes == [""] else [False, False])
        return outcomes


def test_a_new_certificate_is_taken_over_once(tmp_path: Path) -> None:
    files = Files(tmp_path)
    assert files.outcomes() == []
    files.write(AUTHORITY.issue("node-1", [*HOSTS, "more"]))
    assert files.outcomes() == [""]
    assert files.outcomes() == []


@pytest.mark.parametrize(
    ("pem", "reason"),
    [
        (AUTHORITY.issue("node-2", HOSTS), "its name is `CN=node-2` now"),
        (AUTHORITY.issue("node-1", ["localhost"]), "lacks the host name `127.0.0.1`"),
        (Authority.create().issue("node-1", HOSTS), "do not trust each other"),
        ("nothing", "0 private keys"),
    ],
    ids=["name", "host", "authority", "unsound"],
)
def test_what_would_cut_the_node_off_changes_nothing(tmp_path: Path, pem: str, reason: str) -> None:
    files = Files(tmp_path)
    files.write(pem)
    (outcome,) = files.outcomes()
    assert reason in outcome
    assert files.outcomes() == [], "it is reported once"
    files.write(AUTHORITY.issue("node-1", HOSTS))
    assert files.outcomes() == [""]


def test_other_names_may_be_allowed(tmp_path: Path) -> None:
    files = Files(tmp_path, allows_dn_changes=True, allows_san_changes=True)
    files.write(AUTHORITY.issue("node-2", ["localhost"]))
    assert files.outcomes() == [""]


def test_an_authority_is_replaced_by_trusting_both_first(tmp_path: Path) -> None:
    files, other = Files(tmp_path), Authority.create()
    files.trusted.write_text(AUTHORITY.pem + other.pem)
    assert files.outcomes() == [""]
    files.write(other.issue("node-1", HOSTS))
    assert files.outcomes() == [""]
    files.trusted.write_text(other.pem)
    assert files.outcomes() == [""]


def test_missing_files_change_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.own.unlink()
    (outcome,) = files.outcomes()
    assert "cannot be read" in outcome


def dynamic(path: Path, listener: str = "SSL") -> dict[str, Secret]:
    """The settings that place a listener's key store elsewhere."""
    return {f"{listener_prefix(listener)}ssl.keystore.location": Secret(str(path))}


def test_a_store_of_the_dynamic_configuration_is_used_until_it_is_removed(tmp_path: Path) -> None:
    files, other = Files(tmp_path), tmp_path / "other.pem"
    replace_file(other, AUTHORITY.issue("node-1", HOSTS), secret=True)
    contexts, settings = files.contexts, dynamic(other)
    before = contexts.of_opened("SSL")
    assert contexts.complaint_about(settings) == ""
    assert contexts.of_opened("SSL") is before, "only tried"
    assert list(contexts.use(settings)) == [("SSL", "")]
    assert contexts.of_opened("SSL") is not before
    assert list(contexts.use(settings)) == [], "the same file"
    replace_file(other, AUTHORITY.issue("node-1", HOSTS), secret=True)
    assert list(contexts.use(settings)) == [("SSL", "")], "the same place is read anew"
    assert list(contexts.use({})) == [("SSL", "")]
    assert list(contexts.use(dynamic(other, "OTHER"))) == []


@pytest.mark.parametrize(
    ("pem", "more", "reason"),
    [
        (AUTHORITY.issue("node-2", HOSTS), {}, "its name is `CN=node-2` now"),
        (AUTHORITY.issue("node-1", []), {}, "lacks the host name"),
        (Authority.create().issue("node-1", HOSTS), {}, "do not trust each other"),
        ("", {}, "0 private keys"),
        (AUTHORITY.issue("node-1", HOSTS), {"ssl.keystore.type": "JKX"}, "must be one of"),
        (AUTHORITY.issue("node-1", HOSTS), {"ssl.keystore.password": "marker"}, "has none"),
        (AUTHORITY.issue("node-1", HOSTS), {"ssl.keystore.key": "marker"}, "give one of the two"),
    ],
    ids=["name", "host", "authority", "unsound", "type", "password", "two places"],
)
def test_a_store_of_the_dynamic_configuration_that_is_bad_changes_nothing(
    tmp_path: Path, pem: str, more: dict[str, str], reason: str
) -> None:
    contexts, other = Files(tmp_path).contexts, tmp_path / "other.pem"
    replace_file(other, pem, secret=True)
    settings = dynamic(other)
    settings |= {listener_prefix("SSL") + name: Secret(value) for name, value in more.items()}
    before = contexts.of_opened("SSL"), contexts.of_dialled("SSL")
    refusal = contexts.complaint_about(settings)
    assert reason in refusal
    assert "hint: " in refusal
    assert "marker" not in f"{refusal} {settings}"
    ((name, reported),) = contexts.use(settings)
    assert (name, reason in reported) == ("SSL", True)
    assert (contexts.of_opened("SSL"), contexts.of_dialled("SSL")) == before
