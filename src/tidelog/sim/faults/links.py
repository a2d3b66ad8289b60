"""Faults of the network: links that are cut, slow or flap, streams that stall, break or are
forgotten. What each of them does to bytes is in `sim/engine/network.py`."""

from functools import partial

from tidelog.config import NodeConfig
from tidelog.sim.engine.client_machine import CLIENT
from tidelog.sim.engine.network import End
from tidelog.sim.faults.arena import Arena, Strike
from tidelog.sim.scenarios.fault_kinds import FaultKind

Link = tuple[str, str]


def both_ways(names: list[str], others: list[str]) -> list[Link]:
    """The directed links between two groups of machines."""
    return [link for one in names for other in others for link in ((one, other), (other, one))]


class LinkFaults:
    """The strikes."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._network = arena.world.network
        self._prng = arena.prng
        self.strikes: dict[FaultKind, Strike] = {
            FaultKind.CUT_ONE_WAY: partial(self._cut, both=False),
            FaultKind.CUT: partial(self._cut, both=True),
            FaultKind.ISOLATE: self._isolate,
            FaultKind.BRIDGE: self._bridge,
            FaultKind.CUT_CLIENTS: self._cut_clients,
            FaultKind.CUT_CONTROLLER: partial(self._cut_listener, controller=True),
            FaultKind.CUT_REPLICATION: partial(self._cut_listener, controller=False),
            FaultKind.FLAP: self._flap,
            FaultKind.SWIZZLE: self._swizzle,
            FaultKind.SLOW_LINK: self._slow_link,
            FaultKind.STALL: self._stall,
            FaultKind.RESET_MID_FRAME: self._trap,
            FaultKind.HALF_OPEN: self._forget,
            FaultKind.DRIBBLE: self._dribble,
            FaultKind.CLOT: self._clot,
        }

    def _lasting(self, name: str, links: list[Link]) -> bool:
        network = self._network
        fresh = [link for link in links if link not in network.cuts]
        for link in fresh:
            network.cut(*link)

        def heal() -> None:
            for link in fresh:
                network.heal(*link)

        return self._arena.lasting(name, heal, probe=self._arena.held_by_network)

    # Cuts ----------------------------------------------------------------------------------

    def _cut(self, *, both: bool) -> bool:
        source, target = self._arena.two_names()
        links = [(source, target), (target, source)] if both else [(source, target)]
        return self._lasting(f"{source}: cut {'from' if both else 'towards'} {target}", links)

    def _isolate(self) -> bool:
        victim = self._arena.victim()
        others = [host.name for host in self._arena.others(victim)]
        return bool(others) and self._lasting(
            f"{victim.name}: isolated", both_ways([victim.name], others)
        )

    def _bridge(self) -> bool:
        """Two halves that see each other only through one node in the middle."""
        bridge = self._arena.victim()
        others = [host.name for host in self._arena.others(bridge)]
        if len(others) < 2:
            return False
        self._prng.shuffle(others)
        half = len(others) // 2
        return self._lasting(f"{bridge.name}: bridge", both_ways(others[:half], others[half:]))

    def _cut_clients(self) -> bool:
        victim = self._arena.victim().name
        links = self._prng.choice(
            ([(victim, CLIENT)], [(CLIENT, victim)], [(victim, CLIENT), (CLIENT, victim)])
        )
        return self._lasting(f"{victim}: cut from clients {len(links)}", list(links))

    def _cut_listener(self, *, controller: bool) -> bool:
        """The controllers' listeners only, or the brokers' only: the node looks dead to the one
        side and well to the other."""
        network, arena = self._network, self._arena
        victim = arena.victim()
        cuts: list[tuple[str, str, int]] = []
        for other in arena.others(victim):
            for link, config in (
                ((victim.name, other.name), other.config),
                ((other.name, victim.name), victim.config),
            ):
                for port in _ports(config, controller=controller):
                    cuts += [(*link, port), (*link[::-1], port)]
        if not cuts:
            return False
        fresh = [cut for cut in dict.fromkeys(cuts) if cut not in network.port_cuts]
        network.port_cuts.update(fresh)

        def heal() -> None:
            for cut in fresh:
                network.heal_port(*cut)

        what = "controllers" if controller else "replication"
        return arena.lasting(f"{victim.name}: no {what}", heal, probe=arena.held_by_network)

    def _flap(self) -> bool:
        source, target = self._arena.two_names()
        network = self._network
        ended: list[bool] = []

        def turn() -> None:
            if ended:
                return
            for link in ((source, target), (target, source)):
                if link in network.cuts:
                    network.heal(*link)
                else:
                    network.cut(*link)
            self._arena.world.at(self._prng.between(10, 300), turn)

        def end() -> None:
            ended.append(True)
            network.heal(source, target)
            network.heal(target, source)

        turn()
        return self._arena.lasting(
            f"{source}: flapping link to {target}", end, probe=self._arena.held_by_network
        )

    def _swizzle(self) -> bool:
        """Some machines lose the network one after the other and get it back in another order."""
        arena, network = self._arena, self._network
        names = [*(host.name for host in arena.hosts.values()), CLIENT]
        length = arena.length()
        some = [name for name in names if self._prng.chance(1, 2)] or names[:1]
        links = {name: both_ways([name], [one for one in names if one != name]) for name in some}
        ended: list[bool] = []

        def cut(name: str) -> None:
            if not ended:
                for link in links[name]:
                    network.cut(*link)

        def heal(name: str) -> None:
            for link in links[name]:
                network.heal(*link)

        def end() -> None:
            ended.append(True)
            for name in some:
                heal(name)

        for name in some:
            arena.world.at(self._prng.below(length // 2 + 1), partial(cut, name))
            arena.world.at(self._prng.between(length // 2, length), partial(heal, name))
        return arena.lasting(
            f"swizzle of {','.join(some)}", end, probe=arena.held_by_network, length_ms=length
        )

    # Links that work, badly ----------------------------------------------------------------

    def _direction(self) -> Link:
        source, target = self._arena.two_names()
        return self._prng.choice(
            ((source, target), (source, target), (source, CLIENT), (CLIENT, source))
        )

    def _slow_link(self) -> bool:
        source, target = link = self._direction()
        delays = self._network.delays
        delays[link] = (0, self._prng.choice((20, 200, 1_000)))

        def end() -> None:
            delays.pop(link, None)

        return self._arena.lasting(f"{source}: slow link to {target}", end)

    def _dribble(self) -> bool:
        source, target = link = self._direction()
        network = self._network
        network.dribbles.add(link)
        return self._arena.lasting(
            f"{source}: dribbles to {target}",
            lambda: network.dribbles.discard(link),
            probe=lambda: network.effects["dribble"],
        )

    def _clot(self) -> bool:
        source, target = link = self._direction()
        network = self._network
        network.clots[link] = self._prng.choice((20, 50, 200))

        def end() -> None:
            network.clots.pop(link, None)

        return self._arena.lasting(
            f"{source}: clots to {target}", end, probe=lambda: network.effects["clot"]
        )

    # Streams -------------------------------------------------------------------------------

    def _streams(self) -> tuple[Link, list[End]]:
        """Some of the streams between two machines, by their end at the first."""
        source, target = link = self._direction()
        ends = self._network.machines[source].ends
        there = [end for end in ends.values() if end.out.target == target]
        return link, [end for end in there if self._prng.chance(2, 3)] or there[:1]

    def _stall(self) -> bool:
        """What one end says on these streams arrives seconds later; new streams work."""
        (source, target), ends = self._streams()
        if not ends:
            return False
        network = self._network
        for end in ends:
            network.stall(end)
        pipes = [end.out for end in ends]
        return self._arena.lasting(
            f"{source}: {len(ends)} streams to {target} stall",
            lambda: network.unstall(pipes),
            probe=self._arena.held_by_network,
            length_ms=self._prng.between(100, 6_000),
        )

    def _trap(self) -> bool:
        source, target = link = self._direction()
        network = self._network
        network.traps.add(link)
        return self._arena.lasting(
            f"{source}: reset within the next frame to {target}",
            lambda: network.traps.discard(link),
            probe=lambda: network.effects["trap"],
        )

    def _forget(self) -> bool:
        (source, target), ends = self._streams()
        self._arena.world.note(f"world {target}: forgets {len(ends)} streams from {source}")
        for end in ends:
            self._network.forget(end)
        return bool(ends)


def _ports(config: NodeConfig, *, controller: bool) -> list[int]:
    mine = {one.port for one in config.controller_listeners}
    return [one.port for one in config.listeners if (one.port in mine) is controller]
