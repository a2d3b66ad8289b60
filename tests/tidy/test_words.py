"""The repository speaks of the product, in the field's terms: not of the machine it was written on,
nor of how, nor in words that a stranger would have to learn first."""

import re
from typing import Final

import pytest

from tests.tidy.ratchet import FORBIDDEN_WORDS, hold
from tests.tidy.source import ROOT, texts

OWN = "tests/tidy/test_words.py"

PLACES = re.compile(
    r"(?<![\w.])/(?:work|tmp|home|root|Users|mnt|opt|private)/[\w.-]+|[A-Z]:\\\\Users"
)
"""Absolute paths of one machine."""

REGISTRIES = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|repo1?\.maven(?:\.apache)?\.org|registry\.npmjs\.org"
    r"|crates\.io|docker\.io|hub\.docker\.com|ghcr\.io)|--(?:extra-)?index-url|--trusted-host"
)
"""Where packages come from is the business of the user that installs them."""

ELSEWHERE = re.compile(
    r"\b(?:helper agents?|coding agents?|language models?|co-authored-by"
    r"|(?:design|facts|anchors) §)",
    re.IGNORECASE,
)
"""How it was made, and notes that are not in the repository."""

SESSION = re.compile(r"\bsessions?\b", re.IGNORECASE)
WORKING = re.compile(
    r"\b(?:(?:this|my|our|a|previous|earlier|later|another|next|last) (?:work(?:ing)?|coding|"
    r"chat|design|helper|build) sessions?|session(?:'s)? (?:brief|notes?|report|prompt|transcript)"
    r"|sessions? (?:of|by) (?:the )?(?:team|engineers?|authors?))\b",
    re.IGNORECASE,
)
"""Working sessions. Fetch sessions, broker sessions and Spark sessions are the product's own."""


def violations(pattern: re.Pattern[str]) -> set[str]:
    return {
        f"{path}: {match.group()}"
        for path, text in texts().items()
        if path != OWN
        for match in pattern.finditer(text)
    }


@pytest.mark.parametrize(
    "pattern",
    [PLACES, REGISTRIES, ELSEWHERE, WORKING],
    ids=["places", "registries", "elsewhere", "working"],
)
def test_no_words_of_other_places(pattern):
    allowed = {
        entry: reason
        for entry, reason in FORBIDDEN_WORDS.items()
        if pattern.search(entry.split(": ", 1)[1])
    }
    hold(violations(pattern), allowed, "words that do not belong here")


def test_sessions_are_those_of_the_product():
    """The word is spoken where sessions exist: fetches, brokers, Spark, pytest's fixtures."""
    known = re.compile(
        r"fetch|broker|spark|incremental|timeout|expire|heartbeat|KIP-227|pyspark|slots|epoch"
        r"|cache|producer|client|consumer|quorum|controller|voter|fixture",
        re.IGNORECASE,
    )
    found = [
        path
        for path, text in texts().items()
        if path != OWN and SESSION.search(text) and not known.search(text)
    ]
    assert found == []


PRIVATE: Final = {
    r"(?<!has |ake |eck )rooms?(?! for|, | bytes)|(?:the|our) house": "component or package",
    r"stor(?:y|ies)": "regression scenario, or what it is",
    r"twins?": "ablation, test double, counterpart",
    r"hears?|heard": "receive, notice",
    r"(?<!\.)tells?|told": "report, return, log, show, distinguish",
    r"play(?:s|ed|ing)?": "run",
    r"mend(?:s|ed|ing)?": "fix",
    r"stretch(?:es)?": "run of batches, period",
    r"goodbyes?|last words": "resignation, shutdown marker",
    r"nobody|somebody|whoever|whomever|anybody": "the actor",
    r"(?<!there\s)is no (?!longer\b|more\b|less\b|lower\b|higher\b)": "is not a",
}
"""Words that this project does not use for what it does, and what it writes instead. *Room* is free
where it means space."""

PLAIN: Final = (
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/",
    "examples/",
    "tools/",
    "tests/examples/",
    ".github/",
    "src/pyspark_tidelog/",
    "src/pyspark_tidelog_segments/",
    "src/tidelog/__init__.py",
    "src/tidelog/broker/",
    "src/tidelog/client/",
    "src/tidelog/config/",
    "src/tidelog/controller/",
    "src/tidelog/env/",
    "src/tidelog/errors.py",
    "src/tidelog/kraft/",
    "src/tidelog/limits.py",
    "src/tidelog/log/",
    "src/tidelog/metadata/",
    "src/tidelog/model.py",
    "src/tidelog/pipeline/",
    "src/tidelog/records/",
    "src/tidelog/replication/",
    "src/tidelog/rsm/",
    "src/tidelog/runtime/",
    "src/tidelog/security/",
    "src/tidelog/sim/",
    "src/tidelog/testing/",
    "src/tidelog/wire/",
    "bench/controller.py",
    "bench/ingest_kills.py",
    "bench/smoke.py",
    "bench/unavailability.py",
    "tests/chaos/",
    "tests/clusters/",
    "tests/conftest.py",
    "tests/fixtures.py",
    "tests/fuzz/",
    "tests/history/",
    "tests/interop/",
    "tests/pipeline/",
    "tests/process/",
    "tests/scripts/",
    "tests/served.py",
    "tests/sim/",
    "tests/tidy/",
    "tests/unit/broker/",
    "tests/unit/client/",
    "tests/unit/config/",
    "tests/unit/controller/",
    "tests/unit/env/",
    "tests/unit/kraft/",
    "tests/unit/log/",
    "tests/unit/metadata/",
    "tests/unit/pipeline/",
    "tests/unit/records/",
    "tests/unit/replication/",
    "tests/unit/rsm/",
    "tests/unit/runtime/",
    "tests/unit/sim/",
    "tests/unit/testing/",
    "tests/unit/wire/",
    "tests/wire_corpus.py",
)
"""Where the list holds. The rest joins when its words are plain; the list only grows."""


def private_words(path: str) -> list[str]:
    """What a file says in words of its own, names included, with what to write instead."""
    text = texts()[path].replace("_", " ")
    return [
        f"{path}:{text.count(chr(10), 0, found.start()) + 1}: `{found.group()}`; write {instead}"
        for pattern, instead in PRIVATE.items()
        for found in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE)
    ]


def test_words_are_the_fields():
    covered = [path for path in texts() if path.startswith(PLAIN) and path != OWN]
    assert [word for path in covered for word in private_words(path)] == []


def test_the_licence_is_there_and_named():
    licence = (ROOT / "LICENSE").read_text()
    assert "Apache License" in licence
    assert "Version 2.0" in licence
    assert 'license = "Apache-2.0"' in texts()["pyproject.toml"]
