"""What clients sent once can be sent again: with the recorded answers it is what they sent."""

import pytest

from tests.differential.recorded import (
    ALL_CLIENTS,
    GIVEN,
    bodies,
    created_answer,
    recorded_clients,
    recorded_sequences,
    recorded_topics,
)
from tests.differential.sides import encoded
from tests.differential.steps import NOTHING, Name, Ref, WrittenBatch, resolve
from tests.wire_corpus import client_corpus
from tidelog.model import ZERO_UUID
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire.api import ApiKey, parse_header
from tidelog.wire.codec import decode_request
from tidelog.wire.entities import plain

SEQUENCES = recorded_sequences()
CLIENTS = recorded_clients()
EXCHANGES = {**CLIENTS, ALL_CLIENTS: [each for sent in CLIENTS.values() for each in sent]}
EACH = pytest.mark.parametrize("name", SEQUENCES)

OWN_IDS = {"t5yRIEYgQ1Cbq7/vN31NUg", "9ikcrSNkTe6x-KMFzIBlmg"}
"""Members of the newer protocol that chose their ids themselves."""
OLDER_SESSIONS = {847458309, 998674746, 1230174334, 1307027964}
"""Fetch sessions that ended in the recording and began before it."""
FIRST_EPOCH = 0
"""With which such a member joins."""


def recorded(name):
    """The steps of a recording, each with its request, and the answers to all of them."""
    steps = [step for step in SEQUENCES[name] if step.number]
    pairs = [bodies(exchange) for exchange in EXCHANGES[name]]
    answers = {step.number: answer for step, (_, answer) in zip(steps, pairs, strict=True)}
    if SEQUENCES[name][0].number == 0:
        answers[0] = created_answer()
    return [(step, request) for step, (request, _) in zip(steps, pairs, strict=True)], answers


def sent(step, answers, prefix):
    """What a broker reads of a step."""
    frame = memoryview(encoded(step, answers, prefix))[4:]
    header, start = parse_header(frame)
    assert (header.api_key, header.api_version) == (step.key, step.version)
    return plain(decode_request(header, frame, start))


def fields(value, name=""):
    """Every single value in a body, with the name of its field."""
    if isinstance(value, WrittenBatch):
        value = {"producer_id": value.producer_id, "producer_epoch": value.producer_epoch}
    if isinstance(value, dict):
        for field, each in value.items():
            yield from fields(each, field)
    elif isinstance(value, list):
        for each in value:
            yield from fields(each, name)
    else:
        yield name, value


def test_every_client_has_a_sequence():
    assert SEQUENCES.keys() == {*(each.peer for each in client_corpus()), ALL_CLIENTS}
    sent = [sum(step.number > 0 for step in SEQUENCES[name]) for name in CLIENTS]
    assert sum(sent) == len(SEQUENCES[ALL_CLIENTS]) == len(client_corpus())


@EACH
def test_with_the_recorded_answers_each_request_is_the_recorded_one(name):
    steps, answers = recorded(name)
    for step, request in steps:
        if step.key == ApiKey.CREATE_TOPICS:
            rows = [{**row, "replication_factor": 1} for row in request["topics"]]
            request = {**request, "topics": rows}
        assert sent(step, answers, "") == request


@EACH
def test_each_reference_leads_back_to_the_value_that_was_sent(name):
    steps, answers = recorded(name)
    for step, _ in steps:
        for _, ref in fields(step.body):
            if isinstance(ref, Ref):
                for place in ref.answers:
                    assert place[0] < step.number
                    assert resolve(Ref((place,), None), answers, "") == ref.otherwise


@EACH
def test_references_depend_on_no_order_of_rows(name):
    """Topics are found by their names where an answer has them; all else stands above the rows."""
    for step in SEQUENCES[name]:
        for field, ref in fields(step.body):
            if isinstance(ref, Ref):
                named = [any(isinstance(part, Name) for part in way) for _, way in ref.answers]
                assert named == sorted(named, reverse=True)
                assert field == "topic_id" or all(len(way) == 1 for _, way in ref.answers)


def test_a_written_batch_becomes_one_of_another_producer():
    def batch(producer_id, producer_epoch):
        record = Record(5, b"key", b"value")
        return build_batch(
            [record], producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=3
        )

    given = WrittenBatch(batch(1, 2), Ref(((4, ("id",)),), -1), Ref(((4, ("epoch",)),), -1))
    assert resolve(given, {4: {"id": 7, "epoch": 8}}, "") == batch(7, 8)


def test_what_no_answer_gave_is_what_clients_choose():
    kept = {
        value
        for steps in SEQUENCES.values()
        for step in steps
        for field, value in fields(step.body)
        if field in GIVEN and not isinstance(value, Ref)
    }
    assert kept - {*NOTHING, ZERO_UUID} == {*OWN_IDS, *OLDER_SESSIONS, FIRST_EPOCH}


@EACH
def test_every_name_is_one_of_the_run(name):
    steps, answers = recorded(name)
    recorded_names = set(recorded_topics())
    for step, _ in steps:
        for field, value in fields(sent(step, answers, "run-")):
            if field in ("group_id", "transactional_id", "key", "coordinator_keys", "group_ids"):
                assert value is None or value.startswith("run-")
            elif field != "value":
                # Topics are named like codecs and policies, which are values of configurations.
                assert value not in recorded_names
