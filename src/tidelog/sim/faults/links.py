"""Faults of the network: links that are cut, slow or flap, streams that stall, break or are
forgotten. What each of them does to bytes is in `sim/engine/network.py`."""

from functools import partial
from typing import Final

from tidelog.config import NodeConfig
from tidelog.sim.engine.client_machine import CLIENT
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.network import ANY_PORT, Pipe
from tidelog.sim.faults.arena import Arena, Lasting, Lasts, Strike
from tidelog.sim.scenarios.fault_kinds import FaultKind

Link = tuple[str, str]
Cut = tuple[str, str, int]


def both_ways(names: list[str], others: list[str], port: int = ANY_PORT) -> list[Cut]:
    """The directed links between two groups of machines."""
    links = [(one, other) for one in names for other in others]
    return [(*way, port) for link in links for way in (link, link[::-1])]


def _cut_links(arena: Arena, name: str, cuts: list[Cut]) -> Lasts:
    network = arena.world.network
    fresh = [cut for cut in dict.fromkeys(cuts) if cut not in network.cuts]
    for cut in fresh:
        network.cut(*cut)
    if cuts:
        yield Lasting(name, arena.held_by_network)
    for cut in fresh:
        network.heal(*cut)


def _cut(arena: Arena, *, both: bool) -> Lasts:
    source, target = arena.two_names()
    cuts = both_ways([source], [target])[: 2 if both else 1]
    return _cut_links(arena, f"{source}: cut {'from' if both else 'towards'} {target}", cuts)


def isolate(arena: Arena, host: Host) -> Lasts:
    """One node is cut from all others; clients still reach it."""
    cuts = both_ways([host.name], [other.name for other in arena.others(host)])
    return _cut_links(arena, f"{host.name}: isolated", cuts)


def _bridge(arena: Arena) -> bool | Lasts:
    """Two halves that see each other only through one node in the middle."""
    bridge = arena.victim()
    others = [host.name for host in arena.others(bridge)]
    if len(others) < 2:
        return False
    arena.prng.shuffle(others)
    half = len(others) // 2
    return _cut_links(arena, f"{bridge.name}: bridge", both_ways(others[:half], others[half:]))


def _cut_clients(arena: Arena) -> Lasts:
    victim = arena.victim().name
    there, back = both_ways([victim], [CLIENT])
    cuts = arena.prng.choice(([there], [back], [there, back]))
    return _cut_links(arena, f"{victim}: cut from clients {len(cuts)}", cuts)


def _cut_listener(arena: Arena, *, controller: bool) -> Lasts:
    """The controllers' listeners only, or the brokers' only: the node looks dead to the one
    side and well to the other."""
    victim = arena.victim()
    cuts = [
        cut
        for other in arena.others(victim)
        for one, served in ((victim, other), (other, victim))
        for port in _ports(served.config, controller=controller)
        for cut in both_ways([one.name], [served.name], port)
    ]
    what = "controllers" if controller else "replication"
    return _cut_links(arena, f"{victim.name}: no {what}", cuts)


def _ports(config: NodeConfig, *, controller: bool) -> list[int]:
    mine = {one.port for one in config.controller_listeners}
    return [one.port for one in config.listeners if (one.port in mine) is controller]


def _flap(arena: Arena) -> Lasts:
    source, target = arena.two_names()
    links = both_ways([source], [target])
    network, flaps = arena.world.network, True

    def turn() -> None:
        if not flaps:
            return
        for link in links:
            if link in network.cuts:
                network.heal(*link)
            else:
                network.cut(*link)
        arena.world.at(arena.prng.between(10, 300), turn)

    turn()
    yield Lasting(f"{source}: flapping link to {target}", arena.held_by_network)
    flaps = False
    for link in links:
        network.heal(*link)


def _swizzle(arena: Arena) -> Lasts:
    """Some machines lose the network one after the other and get it back in another order."""
    prng, network, lasts = arena.prng, arena.world.network, True
    names = [*(host.name for host in arena.hosts.values()), CLIENT]
    length = arena.length()
    some = [name for name in names if prng.chance(1, 2)] or names[:1]
    links = {name: both_ways([name], [one for one in names if one != name]) for name in some}

    def cut(name: str) -> None:
        if lasts:
            for link in links[name]:
                network.cut(*link)

    def heal(name: str) -> None:
        for link in links[name]:
            network.heal(*link)

    for name in some:
        arena.world.at(prng.below(length // 2 + 1), partial(cut, name))
        arena.world.at(prng.between(length // 2, length), partial(heal, name))
    yield Lasting(f"swizzle of {','.join(some)}", arena.held_by_network, length)
    lasts = False
    for name in some:
        heal(name)


def _direction(arena: Arena) -> Link:
    source, target = arena.two_names()
    return arena.prng.choice(
        ((source, target), (source, target), (source, CLIENT), (CLIENT, source))
    )


def _slow_link(arena: Arena) -> Lasts:
    source, target = link = _direction(arena)
    arena.world.network.delays[link] = (0, arena.prng.choice((20, 200, 1_000)))
    yield Lasting(f"{source}: slow link to {target}")
    arena.world.network.delays.pop(link, None)


def _dribble(arena: Arena) -> Lasts:
    source, target = link = _direction(arena)
    network = arena.world.network
    network.dribbles.add(link)
    yield Lasting(f"{source}: dribbles to {target}", lambda: network.effects["dribble"])
    network.dribbles.discard(link)


def _clot(arena: Arena) -> Lasts:
    source, target = link = _direction(arena)
    network = arena.world.network
    network.clots[link] = arena.prng.choice((20, 50, 200))
    yield Lasting(f"{source}: clots to {target}", lambda: network.effects["clot"])
    network.clots.pop(link, None)


def _trap(arena: Arena) -> Lasts:
    source, target = link = _direction(arena)
    network = arena.world.network
    network.traps.add(link)
    name = f"{source}: reset within the next frame to {target}"
    yield Lasting(name, lambda: network.effects["trap"])
    network.traps.discard(link)


def _streams(arena: Arena) -> tuple[Link, list[Pipe]]:
    """Some of the streams between two machines, by their end at the first."""
    source, target = link = _direction(arena)
    ends = arena.world.network.machines[source].ends
    there = [end for end in ends.values() if end.target == target]
    return link, [end for end in there if arena.prng.chance(2, 3)] or there[:1]


def _stall(arena: Arena) -> Lasts:
    """What one end says on these streams arrives seconds later; new streams work."""
    (source, target), ends = _streams(arena)
    network = arena.world.network
    for end in ends:
        network.stall(end)
    if ends:
        name = f"{source}: {len(ends)} streams to {target} stall"
        yield Lasting(name, arena.held_by_network, arena.prng.between(100, 6_000))
        network.unstall(ends)


def _forget(arena: Arena) -> bool:
    (source, target), ends = _streams(arena)
    arena.world.note(f"world {target}: forgets {len(ends)} streams from {source}")
    for end in ends:
        arena.world.network.forget(end)
    return bool(ends)


STRIKES: Final[dict[FaultKind, Strike]] = {
    FaultKind.CUT_ONE_WAY: partial(_cut, both=False),
    FaultKind.CUT: partial(_cut, both=True),
    FaultKind.ISOLATE: lambda arena: isolate(arena, arena.victim()),
    FaultKind.BRIDGE: _bridge,
    FaultKind.CUT_CLIENTS: _cut_clients,
    FaultKind.CUT_CONTROLLER: partial(_cut_listener, controller=True),
    FaultKind.CUT_REPLICATION: partial(_cut_listener, controller=False),
    FaultKind.FLAP: _flap,
    FaultKind.SWIZZLE: _swizzle,
    FaultKind.SLOW_LINK: _slow_link,
    FaultKind.STALL: _stall,
    FaultKind.RESET_MID_FRAME: _trap,
    FaultKind.HALF_OPEN: _forget,
    FaultKind.DRIBBLE: _dribble,
    FaultKind.CLOT: _clot,
}
