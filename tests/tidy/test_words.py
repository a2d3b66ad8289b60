"""The repository speaks of the product: not of the machine it was written on, nor of how."""

import re

import pytest

from tests.tidy.ratchet import FORBIDDEN_WORDS, hold
from tests.tidy.source import ROOT, texts

OWN = "tests/tidy/test_words.py"

PLACES = re.compile(
    r"(?<![\w.])/(?:work|tmp|home|root|Users|mnt|opt|private)/[\w.-]+|[A-Z]:\\\\Users"
)
"""Absolute paths of somebody's machine."""

REGISTRIES = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|repo1?\.maven(?:\.apache)?\.org|registry\.npmjs\.org"
    r"|crates\.io|docker\.io|hub\.docker\.com|ghcr\.io)|--(?:extra-)?index-url|--trusted-host"
)
"""Where packages come from is the business of whoever installs them."""

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


def test_the_licence_is_there_and_named():
    licence = (ROOT / "LICENSE").read_text()
    assert "Apache License" in licence
    assert "Version 2.0" in licence
    assert 'license = "Apache-2.0"' in texts()["pyproject.toml"]
