"""What goes into somebody else's engine brings nothing along: the base package and ``hitcurve_engine``."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOTS = {"hitcurve": ".", "hitcurve_engine": "engine_patch"}
SHIPPED_WITH_VLLM = {"vllm", "prometheus_client", "opentelemetry", "msgspec", "torch"}


def own_file(repository: Path, module: str) -> Path | None:
    """The file of a module of ours; ``None`` for a name that is not a module."""
    root = ROOTS.get(module.partition(".")[0])
    if root is None:
        return None
    place = repository / root / Path(*module.split("."))
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in candidates if file.is_file()), None)


def modules_named(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    else:
        yield node.module or ""
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def runs_at_import(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports outside functions, without those that only the type checker sees."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def test_importing_the_engine_patch_needs_only_the_standard_library(repository: Path) -> None:
    waiting = sorted((repository / "engine_patch" / "hitcurve_engine").rglob("*.py"))
    assert waiting
    seen: set[Path] = set()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for node in runs_at_import(ast.parse(file.read_text())):
            for module in modules_named(node):
                top = module.partition(".")[0]
                assert top in ROOTS or top in sys.stdlib_module_names, f"{file} imports {module}"
                found = own_file(repository, module)
                if found is not None:
                    waiting.append(found)


def test_the_engine_patch_uses_only_what_vllm_ships(repository: Path) -> None:
    for file in (repository / "engine_patch" / "hitcurve_engine").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                top = next(modules_named(node)).partition(".")[0]
                known = top in ROOTS or top in sys.stdlib_module_names or top in SHIPPED_WITH_VLLM
                assert known, f"{file} imports {top}, which vLLM does not ship"


def test_installing_the_base_or_the_engine_patch_moves_no_package(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == []
    assert project["optional-dependencies"]["engine"] == []
