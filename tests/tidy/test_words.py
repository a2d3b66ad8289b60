"""The repository speaks of the product, in the field's terms: not of the machine it was written on,
nor of how, nor in words that a stranger would have to learn first."""

import re
from typing import Final

import pytest

from tests.tidy.ratchet import FORBIDDEN_WORDS, OLD_NAMES, hold
from tests.tidy.source import ROOT, texts

OWN = "tests/tidy/test_words.py"
RATCHET = "tests/tidy/ratchet.py"

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
    *("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("docs/", "examples/", "tools/", ".github/", "src/", "bench/", "tests/"),
)
"""Where the list holds."""


def private_words(path: str) -> list[str]:
    """What a file says in words of its own, names included, with what to write instead."""
    text = texts()[path].replace("_", " ")
    return [
        f"{path}: `{found.group()}`; write {instead}"
        for pattern, instead in PRIVATE.items()
        for found in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE)
    ]


def test_words_are_the_fields():
    covered = [path for path in texts() if path.startswith(PLAIN) and path not in (OWN, RATCHET)]
    hold((word for path in covered for word in private_words(path)), OLD_NAMES, "private words")


def test_the_licence_is_there_and_named():
    licence = (ROOT / "LICENSE").read_text()
    assert "Apache License" in licence
    assert "Version 2.0" in licence
    assert 'license = "Apache-2.0"' in texts()["pyproject.toml"]
