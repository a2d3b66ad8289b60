"""The demo's input: every line is a record or is counted, with its number and a reason."""

import io
import json
from pathlib import Path

import pytest

from tidelog.cli.demo_input import (
    InputRecord,
    Unreadable,
    csv_value_as_json,
    find_input,
    parse_csv,
    parse_json_lines,
)
from tidelog.errors import UsageError


def _csv(text: str | bytes, key_field: str = "tailnum"):
    raw = text if isinstance(text, bytes) else text.encode()
    return list(parse_csv(io.BytesIO(raw), key_field))


def _json_lines(text: str | bytes, key_field: str = "id"):
    raw = text if isinstance(text, bytes) else text.encode()
    return list(parse_json_lines(io.BytesIO(raw), key_field))


def test_the_flights_are_all_there_and_are_read_without_pandas():
    found = find_input(None, None)
    records = found.records()
    first = next(records)
    assert first == InputRecord(2, b"N14228", first.value)
    flight = json.loads(first.value)
    assert (flight["carrier"], flight["hour"], flight["dep_delay"]) == ("UA", 5, 2)
    rest = list(records)
    assert len(rest) + 1 == found.expected == 336_776
    assert all(isinstance(item, InputRecord) for item in rest)
    assert sum(item.key is None for item in rest) == 2512
    assert found.airlines_csv is not None
    assert found.airlines_csv.is_file()


def test_csv_rows_become_objects_by_the_header_line():
    (record,) = _csv('tailnum,delay,"a %s ""name""",note\nN1,-2.50,NA,"two\nlines, é"\n')
    assert record.line == 3
    assert record.key == b"N1"
    assert json.loads(record.value) == {
        "tailnum": "N1",
        "delay": -2.5,
        'a %s "name"': None,
        "note": "two\nlines, é",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "null"),
        ("NA", "null"),
        ("0", "0"),
        ("-17", "-17"),
        ("2.50", "2.50"),
        ("1e5", "1e5"),
        ("007", '"007"'),
        ("+1", '"+1"'),
        (" 1", '" 1"'),
        ("1_000", '"1_000"'),
        ("inf", '"inf"'),
        ("nan", '"nan"'),
        ("٣", '"\\u0663"'),
        ('a"b', '"a\\"b"'),
    ],
)
def test_a_csv_field_is_a_number_only_if_json_writes_it_so(text, expected):
    assert csv_value_as_json(text) == expected


def test_every_csv_line_that_is_not_a_record_is_reported():
    text = b"\n".join(
        [
            b"tailnum,delay",
            b"N1,1",
            b"N2",
            b"N3,3,3",
            b"",
            b'"N4"x,4',
            b"N5,\xff\xfe",
            b'N6,"six',
            b'and more"',
            b"NA,7",
            b"",
        ]
    )
    items = _csv(text)
    assert [item.line for item in items if isinstance(item, InputRecord)] == [2, 9, 10]
    assert [str(item) for item in items if isinstance(item, Unreadable)] == [
        "line 3: has 1 fields, the header line has 2",
        "line 4: has 3 fields, the header line has 2",
        "line 5: is empty",
        "line 6: is not CSV: ',' expected after '\"'",
        "line 7: is not UTF-8 text",
    ]
    assert items[-1].key is None


def test_a_quote_that_is_never_closed_takes_no_line_along_in_silence():
    """The lines it swallows are counted, up to the end of the file or the bound of a field."""
    items = _csv('tailnum,delay\nN1,1\nN2,"2\nN3,3\nN4,4\n')
    assert [str(item) for item in items[1:]] == ["line 3-5: is not CSV: unexpected end of data"]
    long = "".join(f"N{number},{'x' * 100}\n" for number in range(30_000))
    items = _csv('tailnum,delay\nN,"1\n' + long)
    lines = sum(item.line_count if isinstance(item, Unreadable) else 1 for item in items)
    assert lines == 30_001
    assert "field larger than field limit" in str(items[0])
    assert isinstance(items[-1], InputRecord)


def test_a_csv_with_a_byte_order_mark_keeps_its_first_name():
    (record,) = _csv("\ufefftailnum,delay\nN1,1\n")
    assert record.key == b"N1"


def test_a_named_field_is_the_key_and_a_missing_one_makes_none():
    assert _csv("a,b\n1,x\n", "b")[0].key == b"x"
    assert _csv("a,b\n1,x\n", "c")[0].key is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no header line"),
        ("\n", "no header line"),
        (b"\xff\xfe,b\n", "no header line"),
        ("a,b,a\n", "names `a` twice"),
        ('"a"b,c\n', "header line is not CSV"),
    ],
)
def test_a_csv_needs_a_header_line(text, message):
    with pytest.raises(UsageError, match=message):
        _csv(text)


def test_json_lines_are_sent_as_they_are():
    items = _json_lines('{"id": 7, "x":  [1]}\n  {"id": "é"}  \r\n{"x": 1}\n{"id": null}')
    assert items == [
        InputRecord(1, b"7", b'{"id": 7, "x":  [1]}'),
        InputRecord(2, "é".encode(), '{"id": "é"}'.encode()),
        InputRecord(3, None, b'{"x": 1}'),
        InputRecord(4, None, b'{"id": null}'),
    ]


def test_every_json_line_that_is_not_a_record_is_reported():
    items = _json_lines(b'{"id": 1}\n\n[1]\n{"id": \n{"id": NaN}\n{"id": "\xff"}\n' + b"[" * 99999)
    assert isinstance(items[0], InputRecord)
    reasons = [str(item) for item in items[1:]]
    assert reasons[0] == "line 2: is empty"
    assert reasons[1] == "line 3: is not a JSON object"
    assert reasons[2].startswith("line 4: is not JSON: Expecting value")
    assert reasons[3] == "line 5: is not JSON: NaN is not a JSON number"
    assert reasons[4].startswith("line 6: is not JSON: ")
    assert reasons[5].startswith("line 7: is not JSON: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"tailnum": "N1"}\n'),
        ("a.data", '\n  {"tailnum": "N1"}\n'),
        ("a.csv", "tailnum\nN1\n"),
        ("a.txt", "tailnum\nN1\n"),
    ],
)
def test_the_kind_of_a_file_is_found_out(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    found = find_input(path, None)
    assert found.name == name
    assert found.expected == 2 - (name == "a.jsonl")
    keys = [item.key for item in found.records() if isinstance(item, InputRecord)]
    assert keys == [b"N1"]
    assert found.airlines_csv is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [("a.csv", "", "no header line"), ("b.csv", "a,b\n", "no records"), ("c.jsonl", "", "no rec")],
)
def test_a_file_with_nothing_in_it_is_refused_at_once(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        find_input(tmp_path / name, None)


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(UsageError, match=r"is not a file"):
        find_input(Path("nowhere.csv"), None)


def test_a_key_field_that_the_header_line_does_not_have_is_refused_at_once(tmp_path):
    path = tmp_path / "orders.csv"
    path.write_text("customer,amount\nann,3\n")
    with pytest.raises(UsageError, match="no field `costumer`") as refused:
        find_input(path, "costumer")
    assert refused.value.hint == "`--key-field` takes one of: customer, amount"
    assert [record.key for record in find_input(path, "customer").records()] == [b"ann"]
