"""A transaction coordinator that answers as a test says, at the wire.

The node asks itself, because it leads `__transaction_state`. `ScriptedCoordinator` is the other
end of that connection.
"""

from typing import Any

from tests.unit.broker.one_node import OneNode
from tidelog.broker.transaction_checks import SENT_VERSION
from tidelog.env.effects import Closed, CloseReason, Connected, Received
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader, parse_header
from tidelog.wire.entities import make
from tidelog.wire.frames import FrameReader

KEY = ApiKey.ADD_PARTITIONS_TO_TXN


class ScriptedCoordinator:
    """The coordinator of all transactions of one node."""

    def __init__(self, node: OneNode) -> None:
        self._node = node
        self._connection_id = 0
        self._frames = FrameReader()
        # Requests that have no answer yet: header and entity.
        self.asked: list[tuple[RequestHeader, Any]] = []
        node.client().create_topic("__transaction_state")

    def listen(self) -> list[Any]:
        """The requests that have no answer yet."""
        for connect in self._node.connects:
            if connect.port == 9092:
                self._connection_id = connect.connection
                self._node.receive(Connected(connect.connection))
        self._node.connects.clear()
        sent = self._node.sent[self._connection_id]
        for frame in self._frames.feed(bytes(sent)):
            data = bytes(frame)
            header, offset = parse_header(data)
            self.asked.append((header, codec.decode_request(header, data, offset)))
        sent.clear()
        return [entity for _, entity in self.asked]

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answers the oldest request, with one code for everything."""
        self.listen()
        header, request = self.asked.pop(0)
        results = [
            {
                "transactional_id": each.transactional_id,
                "topic_results": [
                    {
                        "name": topic.name,
                        "results_by_partition": [
                            {"partition_index": number, "partition_error_code": code}
                            for number in topic.partitions
                        ],
                    }
                    for topic in each.topics
                ],
            }
            for each in request.transactions
        ]
        response_type = codec.response_class(KEY, SENT_VERSION)
        entity = make(
            response_type,
            throttle_time=0,
            error_code=ErrorCode.NONE,
            results_by_transaction=results,
        )
        frame = codec.encode_response(header, entity)
        self._node.receive(Received(self._connection_id, frame))

    def die(self) -> None:
        """Its connection is cut."""
        self.listen()
        self.asked.clear()
        self._node.receive(Closed(self._connection_id, CloseReason.PEER))
