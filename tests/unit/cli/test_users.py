"""Goal: users are added, listed and removed; passwords come from a file or a prompt only."""

import os
import pty
import subprocess
import sys

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.test_users import Kept
from tidelog.errors import ErrorCode
from tidelog.metadata.scram_keys import salt_password
from tidelog.model import Mechanism


@pytest.fixture
def kept():
    found = Kept()
    with found.brokers:
        yield found


@pytest.fixture
def run(capsys, kept):
    where = ("--bootstrap-server", kept.brokers.bootstrap_servers)
    return lambda *words: tidelog(capsys, "users", *words, *where)


@pytest.fixture
def password(tmp_path):
    """A file with a password."""
    path = tmp_path / "password"
    path.write_text("ada-s3cret\n")
    path.chmod(0o600)
    return path


def is_password(kept, text, name="ada", mechanism=Mechanism.SCRAM_SHA_512):
    sent = kept.rows[name, 2 if mechanism is Mechanism.SCRAM_SHA_512 else 1]
    return sent.salted_password == salt_password(mechanism, text, sent.salt, sent.iterations)


def test_users_are_added_listed_and_removed(run, kept, password):
    run("add", "ada", "--password-file", password)
    assert is_password(kept, "ada-s3cret")
    weak = ("--mechanism", "scram-sha-256", "--iterations", "8192")
    run("add", "ada", "--password-file", password, *weak)
    run("add", "bob", "--password-file", password)
    listed = run("list", "ada", "--output", "json").json
    assert [tuple(each.values()) for each in listed] == [
        ("ada", "SCRAM-SHA-256", 8192),
        ("ada", "SCRAM-SHA-512", 4096),
    ]
    shown = run("list").out
    assert "bob" in shown and "s3cret" not in shown
    gone = run("remove", "ada", "--mechanism", "SCRAM-SHA-256", "--output", "json").json
    assert [each["mechanism"] for each in gone] == ["SCRAM-SHA-256"]
    run("remove", "ada")
    assert [each["user"] for each in run("list", "--output", "json").json] == ["bob"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("add", "ada"), "no terminal"),
        (("add", "ada", "--password-file", "{}", "--mechanism", "PLAIN"), "`PLAIN`"),
        (("add", "ada", "--password-file", "{}", "--iterations", "1"), "4096"),
        (("add", "ada", "--password-file", "/nowhere"), "`/nowhere`"),
        (("remove", "ada", "--mechanism", "SCRAM-SHA-256"), "`SCRAM-SHA-256`"),
    ],
)
def test_wrong_words_are_named(run, password, words, problem):
    run("add", "ada", "--password-file", password)
    result = run(*(str(word).format(password) for word in words))
    assert result.code == 2
    assert problem in result.err and "hint:" in result.err


@pytest.mark.parametrize(
    ("mode", "text", "problem"),
    [
        (0o604, b"ada-s3cret", "chmod 600"),
        (0o600, b"", "is empty"),
        (0o600, b"ada-s3cret\nbob-s3cret", "2 lines"),
        (0o600, b"\xff-s3cret", "UTF-8"),
    ],
)
def test_a_file_without_one_password_is_refused(run, password, mode, text, problem):
    password.write_bytes(text)
    password.chmod(mode)
    result = run("add", "ada", "--password-file", password)
    assert result.code == 2
    assert problem in result.err and "hint:" in result.err and "s3cret" not in result.err


def test_refusals_have_hints(run, kept, password):
    assert "tidelog users list" in run("remove", "eve").err
    assert run("list", "eve").code == 1
    kept.code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert "super.users" in run("add", "ada", "--password-file", password).err


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ((b"typed-s3cret", b"typed-s3cret"), 0, b"SCRAM-SHA-512"),
        ((b"typed-s3cret", b"typo-s3cret"), 2, b"differ"),
        ((b"", b""), 2, b"is empty"),
    ],
)
def test_a_prompt_asks_twice_and_shows_nothing(kept, typed, code, said):
    words = ("users", "add", "ada", "--bootstrap-server", kept.brokers.bootstrap_servers)
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tidelog.cli.main", *words],
        stdin=end,
        stdout=end,
        stderr=end,
        start_new_session=True,
    )
    os.close(end)
    screen = b""
    for prompt, line in zip((b"password of ada: ", b"again: "), typed, strict=True):
        while not screen.endswith(prompt):
            screen += os.read(terminal, 1024)
        os.write(terminal, line + b"\n")
    try:
        while more := os.read(terminal, 1024):
            screen += more
    except OSError:
        # The other end of a terminal is closed.
        pass
    os.close(terminal)
    assert process.wait() == code
    assert said in screen and b"s3cret" not in screen
    assert code != 0 or is_password(kept, "typed-s3cret")
