"""The modules of the command line do not import each other in a cycle."""

from __future__ import annotations

import grimp


def test_cli_modules_have_no_import_cycle() -> None:
    graph = grimp.build_graph("shoal", cache_dir=None)
    modules = sorted(graph.find_descendants("shoal.cli"))
    assert {"shoal.cli.jobs", "shoal.cli.tables"} <= set(modules)
    imports = [
        (importer, imported)
        for importer in modules
        for imported in graph.find_modules_directly_imported_by(importer)
        if imported in modules
    ]
    assert ("shoal.cli.jobs", "shoal.cli.tables") in imports
    cycles = [pair for pair in imports if graph.chain_exists(importer=pair[1], imported=pair[0])]
    assert cycles == []
