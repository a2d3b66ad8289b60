"""A schema from a sample: what each kind of value becomes, and what contradictions do."""

import json

import pytest

from tidelog.pipeline.typed.inference import infer
from tidelog.pipeline.typed.schema_text import schema_text


@pytest.mark.parametrize(
    ("sample", "text"),
    [
        ([{"a": 1, "b": 1.5, "c": True, "d": "x"}], "a bigint, b double, c boolean, d string"),
        ([{"a": 1}, {"a": 1.5}], "a double"),
        ([{"a": 1}, {"b": "x"}], "a bigint, b string"),
        ([{"a": None}, {"a": {"x": [None, 1]}}], "a struct<x: array<bigint>>"),
        ([{"a": [{"x": 1}, {"y": "z"}]}], "a array<struct<x: bigint, y: string>>"),
        ([{"a": None, "b": []}], "a string, b array<string>"),
        ([{"a": "2024-01-02"}], "a string"),
        ([{"a": 2**70}], "a double"),
        ([{"a": 1}, {"a": "x"}, {"a": [1]}], "a bigint"),
        ([{"Id": 1, "ID": "x"}], "Id bigint"),
        ([{"a": 1, "b": {}, "c": [{}], "": 2, "d": {"x": {}}}], "a bigint"),
        ([{"b": {}}, {"b": {"x": 1}}], "b struct<x: bigint>"),
        ([5, "x", [1], {"a": 1}], "a bigint"),
    ],
)
def test_the_sample_decides(sample, text):
    assert schema_text(infer(json.dumps(one).encode() for one in sample)) == text


@pytest.mark.parametrize(
    "sample", [[], [b"x", b"\xff"], [b"1"], [b"{}"], [b'{"a": {}}'], [b"[" * 100_000]]
)
def test_a_sample_without_a_field_is_none(sample):
    assert infer(sample) is None
