"""AllocateProducerIds: blocks that never overlap."""

from tests.unit.broker.api.wire_turns import answered, sent
from tidelog.broker.api import k67_allocate_producer_ids as module
from tidelog.controller.messages import AllocateProducerIds, AllocateProducerIdsResult, Refused
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.api import ApiKey

KEY = ApiKey.ALLOCATE_PRODUCER_IDS
MESSAGE = AllocateProducerIds(2, 77)


def test_there_and_back(broker):
    assert module.API.message_of(sent(module.API.request(MESSAGE))) == MESSAGE
    result = AllocateProducerIdsResult(2**40, 1000)
    entity = answered(KEY, 0, module.API.answer(broker, 0, None, result))
    assert module.API.response_of(entity) == result
    refused = Refused(ErrorCode.STALE_BROKER_EPOCH, "stale")
    entity = answered(KEY, 0, module.API.answer(broker, 0, None, refused))
    assert (entity.producer_id_start, entity.producer_id_len) == (0, 0)
    assert module.API.response_of(entity).error_code is ErrorCode.STALE_BROKER_EPOCH


def test_end_to_end(node, controller_wire):
    epoch = node.add_broker(2)
    message = AllocateProducerIds(2, epoch)
    blocks = []
    for _ in range(2):
        frame = controller_wire.ask(KEY, module.API.request(message))
        _, entity = codec.decode_response(KEY, 0, frame)
        blocks.append(module.API.response_of(entity))
    assert blocks[1].first_producer_id == blocks[0].first_producer_id + blocks[0].count
