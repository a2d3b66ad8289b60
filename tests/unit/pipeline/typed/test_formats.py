"""The formats that the command line offers."""

from tidelog.pipeline.typed.formats import Format


def test_formats_with_fields_are_those_that_a_schema_is_for():
    assert [one for one in Format if one.has_fields] == [
        *(Format.JSON, Format.CSV, Format.AVRO, Format.PROTOBUF)
    ]
    assert [one for one in Format if one.is_decoded] == [Format.AVRO, Format.PROTOBUF]
