"""The controller's part of a node: it follows the log, and probes brokers when it takes over."""

from tidelog.sim.engine.world import World


def test_a_new_active_controller_makes_sure_of_every_broker() -> None:
    world = World(3)
    world.start_all()
    world.run_until(lambda: len(nodes_unfenced(world)) == 3, 10_000)
    old = next(i for i, host in world.hosts.items() if host.node.broker.quorum.is_leader)
    # Nothing cuts the streams of a stopped process: only doubt finds the other one out.
    world.pause(old)
    others = [host for node_id, host in world.hosts.items() if node_id != old]
    world.run_until(lambda: any(host.node.broker.quorum.is_leader for host in others), 10_000)
    new = next(host for host in others if host.node.broker.quorum.is_leader)
    world.run_until(lambda: new.node.broker.controller.active, 1_000)
    assert set(new.node._parts.detector._peers) <= {host.node_id for host in world.hosts.values()}
    world.run_until(lambda: old not in nodes_unfenced(world, new.node_id), 12_000)
    world.resume(old)
    world.run_until(lambda: old in nodes_unfenced(world, new.node_id), 12_000)


def nodes_unfenced(world: World, seen_by: int = 1) -> set[int]:
    image = world.hosts[seen_by].node.broker.image
    return {node_id for node_id, broker in image.brokers.items() if broker.active}


def test_only_nodes_with_the_role_have_a_controller() -> None:
    world = World(1, nodes=1, controllers=1)
    world.start_all()
    assert world.hosts[1].node.broker.controller is None
    assert world.hosts[2].node.broker.controller is not None
