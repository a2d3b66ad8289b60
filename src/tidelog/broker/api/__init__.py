"""One handler module per API key.

A handler module has one function, `handle(broker, pending, request, now)`, that answers through
`broker.answer(pending, entity)`, at once or later. The two hot APIs, Produce and Fetch, take
hand-parsed requests; all others take kio entities of whatever version the client speaks.
Handlers translate: they know versions and entities, the rooms behind them do not.
"""
