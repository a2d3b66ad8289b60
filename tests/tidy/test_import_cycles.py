"""No module imports itself through others, imports for the type checker included.

A cycle is a design fault before it is an import error: none of its modules can be understood,
tested or moved without the others.
"""

from graphlib import CycleError, TopologicalSorter

import grimp


def cycle_in(graph: grimp.ImportGraph) -> list[str]:
    """The modules of some cycle, in the order of their imports; empty when there is none."""
    imports = {
        module: graph.find_modules_directly_imported_by(module) for module in sorted(graph.modules)
    }
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_no_cycle_of_imports_is_left():
    graph = grimp.build_graph("tidelog", cache_dir=None)
    assert len(graph.modules) > 400
    assert cycle_in(graph) == []


def test_a_cycle_is_found():
    graph = grimp.ImportGraph()
    graph.add_import(importer="a", imported="b")
    graph.add_import(importer="b", imported="c")
    assert cycle_in(graph) == []
    graph.add_import(importer="c", imported="a")
    assert sorted(set(cycle_in(graph))) == ["a", "b", "c"]
