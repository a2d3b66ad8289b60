"""Cycles of dependencies between operations, after Adya, as Jepsen's Elle finds them.

    ww(a, b)  a wrote the version right before one that b wrote
    wr(a, b)  b polled something that a wrote
    process   b follows a in one process
    realtime  a had ended before b began

A cycle of ww edges alone is G0, one with a wr edge G1c; with process or realtime edges the name
gets that suffix. Each cycle is reported at the first level at which it exists. Logs of one key
without transactions know no cycles at all; multi-key operations without write isolation may have
G0, and with it G1c, legally. A cycle of wr edges alone ("G1c-wr") is never legal: two operations
saw each other's writes.

Source: Adya, Liskov, O'Neil 2000; Tarjan 1972 for the components, Kahn 1962 for their absence.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum

from tidelog.sim.checkers.log_history.index import Anomaly, LogIndex
from tidelog.sim.evidence.history import Op, Outcome


class Edge(IntEnum):
    """Kinds of dependencies."""

    WW = 0
    WR = 1
    PROCESS = 2
    REALTIME = 3


Graph = dict[int, dict[int, Edge]]
"""Op index to the ops that depend on it, each with its strongest edge."""


def cycles(index: LogIndex) -> Iterator[Anomaly]:
    """All anomalies that are cycles."""
    graph = _graph(index)
    if _is_acyclic(graph):
        # No level has an edge that is not here, so none has a cycle either: the usual end.
        return
    reported: set[int] = set()
    levels: list[tuple[str, Callable[[Edge], bool]]] = [
        ("-wr", lambda edge: edge is Edge.WR),
        ("", lambda edge: edge <= Edge.WR),
        ("-process", lambda edge: edge <= Edge.PROCESS),
        ("-realtime", lambda edge: True),
    ]
    for suffix, admits in levels:
        for component in _components(graph, admits):
            if reported & set(component):
                continue
            reported |= set(component)
            loop = _shortest_loop(graph, component, admits)
            kinds = {graph[a][b] for a, b in zip(loop, [*loop[1:], loop[0]], strict=True)}
            name = ("G1c" if Edge.WR in kinds else "G0") + suffix
            yield Anomaly(name, None, " -> ".join(f"op {one}" for one in [*loop, loop[0]]))


def _graph(index: LogIndex) -> Graph:
    graph: Graph = {op.index: {} for op in index.ops if op.outcome is not Outcome.FAIL}

    def connect(a: int, b: int, edge: Edge) -> None:
        if a != b and a in graph and b in graph:
            known = graph[a].get(b)
            graph[a][b] = edge if known is None else min(known, edge)

    for one in index.keys.values():
        for before, after in zip(one.order, one.order[1:], strict=False):
            first, second = one.writers.get(before), one.writers.get(after)
            if first is not None and second is not None:
                connect(first.index, second.index, Edge.WW)
        for value, readers in one.readers.items():
            writer = one.writers.get(value)
            for reader in readers if writer is not None else ():
                assert writer is not None, value
                connect(writer.index, reader.index, Edge.WR)
    for a, b in _process_pairs(index):
        connect(a, b, Edge.PROCESS)
    for a, b in _realtime_pairs(index):
        connect(a, b, Edge.REALTIME)
    return graph


def _process_pairs(index: LogIndex) -> Iterator[tuple[int, int]]:
    """Neighbours in one process. A send without an answer may happen after what follows it."""
    last: dict[str, Op] = {}
    for op in index.ops:
        before = last.get(op.process)
        if before is not None and before.completed_at < op.invoked_at:
            yield before.index, op.index
        if op.outcome is Outcome.OK:
            last[op.process] = op


def _realtime_pairs(index: LogIndex) -> Iterator[tuple[int, int]]:
    """Enough pairs that all others follow: from the ops that had ended when another began, those
    that no ended op follows. An op of unknown outcome never ended."""
    events: list[tuple[int, int, Op]] = []
    for op in index.ops:
        events.append((op.invoked_at, 0, op))
        if op.outcome is Outcome.OK:
            events.append((op.completed_at, 1, op))
    events.sort(key=lambda event: (event[0], event[1], event[2].index))
    frontier: dict[int, Op] = {}
    before: dict[int, list[int]] = {}
    for _, ending, op in events:
        if not ending:
            before[op.index] = list(frontier)
            for earlier in frontier:
                yield earlier, op.index
            continue
        for earlier in before[op.index]:
            frontier.pop(earlier, None)
        frontier[op.index] = op


def _is_acyclic(graph: Graph) -> bool:
    """Whether all ops can be put in an order that every edge agrees with (Kahn 1962)."""
    waits_for = dict.fromkeys(graph, 0)
    for targets in graph.values():
        for target in targets:
            waits_for[target] += 1
    free = [node for node, count in waits_for.items() if not count]
    ordered_count = 0
    while free:
        ordered_count += 1
        for target in graph[free.pop()]:
            waits_for[target] -= 1
            if not waits_for[target]:
                free.append(target)
    return ordered_count == len(graph)


def _components(graph: Graph, admits: Callable[[Edge], bool]) -> list[list[int]]:
    """Strongly connected components of more than one op (Tarjan, without recursion)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in graph:
        if root in number:
            continue
        work: list[tuple[int, Iterator[int]]] = [(root, _successors(graph, root, admits))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            following = next((one for one in successors if one not in number), None)
            if following is not None:
                number[following] = low[following] = len(number)
                stack.append(following)
                on_stack.add(following)
                work.append((following, _successors(graph, following, admits)))
                continue
            work.pop()
            for one in _successors(graph, node, admits):
                if one in on_stack:
                    low[node] = min(low[node], low[one])
            if low[node] == number[node]:
                component = _pop_until(stack, node)
                on_stack -= set(component)
                if len(component) > 1:
                    found.append(sorted(component))
    return found


def _pop_until(stack: list[int], node: int) -> list[int]:
    component = []
    while True:
        component.append(stack.pop())
        if component[-1] == node:
            return component


def _successors(graph: Graph, node: int, admits: Callable[[Edge], bool]) -> Iterator[int]:
    return (target for target, edge in graph[node].items() if admits(edge))


def _shortest_loop(graph: Graph, component: list[int], admits: Callable[[Edge], bool]) -> list[int]:
    """A shortest cycle through the component's first op."""
    inside = set(component)
    start = component[0]
    came_from: dict[int, int] = {}
    queue = [start]
    for node in queue:
        for following in _successors(graph, node, admits):
            if following == start:
                loop = [node]
                while loop[-1] != start:
                    loop.append(came_from[loop[-1]])
                return loop[::-1]
            if following in inside and following not in came_from:
                came_from[following] = node
                queue.append(following)
    raise AssertionError(f"{component} has no cycle through {start}")
