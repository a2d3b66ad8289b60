"""A request that the controller decides, past its checks, with a line for the audit."""

from collections.abc import Iterator
from typing import Any

from tidelog.broker.api.checks import Asked, pass_checks
from tidelog.broker.api.declaration import ControllerApi, ForwardedApi, Listener
from tidelog.broker.api.k58_envelope import EnvelopedContext
from tidelog.broker.api.mutations import counts_mutations
from tidelog.broker.authorization import Authorization, described
from tidelog.broker.connections import RequestContext
from tidelog.broker.throttling import Throttling
from tidelog.controller.acl_messages import CreateAcls, DeleteAcls
from tidelog.controller.messages import ListReassignments
from tidelog.env.instant import Instant
from tidelog.errors import ProtocolError
from tidelog.metadata.image import MetadataImage
from tidelog.wire import codec
from tidelog.wire.acl_values import CLUSTER_NAME
from tidelog.wire.entities import Entity


class Gate:
    """What stands before the controller: rights, and then quotas."""

    def __init__(self, authorization: Authorization, throttling: Throttling) -> None:
        self.authorization = authorization
        self.throttling = throttling

    def pass_forwarded(
        self,
        api: ForwardedApi[Any],
        context: RequestContext | EnvelopedContext,
        request: Entity,
        image: MetadataImage,
        now: Instant,
    ) -> Asked:
        """Passes the request through the checks of its API. A change that a client may make is an
        event; what brokers ask of the controller is none. Then the quota of its client may take
        topics out."""
        version, authorization = context.header.api_version, self.authorization
        if isinstance(context, EnvelopedContext):
            access = authorization.at(context.principal, context.host)
        else:
            access = authorization.of(context.connection)
        response_type: type = codec.response_class(api.key, version)
        asked = pass_checks(api.requires, access, image, request, response_type)
        if asked.refusal is None and not access.is_unlimited and Listener.BROKER in api.listeners:
            subjects = list(_subjects(api, asked.request))
            if subjects:
                authorization.on_change(access, api.name, subjects)
        if asked.refusal is None and self.throttling.is_on and counts_mutations(api.key):
            self.throttling.on_mutations(context, asked, now)
        return asked


def _subjects(api: ForwardedApi[Any], request: Entity) -> Iterator[str]:
    """What a request changes: nothing if it only asks, or makes no sense."""
    if not isinstance(api, ControllerApi):
        return
    try:
        message = api.message_of(request)
    except ProtocolError:
        return
    match message:
        case CreateAcls(entries):
            yield from map(described, entries)
        case DeleteAcls(filters):
            yield from map(str, filters)
        case ListReassignments():
            return
        case _:
            named = getattr(message, "topics", None) or getattr(message, "resources", None)
            names = ("name", "resource_name", "topic_id")
            for each in named or ():
                found = [getattr(each, name, None) for name in names]
                yield next((str(it) for it in found if it), "")
            if named is None:
                yield CLUSTER_NAME
