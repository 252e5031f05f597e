"""The architecture: who may import whom, and how long a file may get."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = {
    "hitcurve": "hitcurve",
    "hitcurve_engine": "engine_patch/hitcurve_engine",
    "hitcurve_simulator": "simulator/hitcurve_simulator",
    "hitcurve_exporter": "exporter/hitcurve_exporter",
    "hitcurve_loadtests": "loadtests/hitcurve_loadtests",
    "hitcurve_chaos": "chaos/hitcurve_chaos",
    "hitcurve_dashboards": "dashboards/hitcurve_dashboards",
}
MAY_IMPORT = {
    "hitcurve": set(),
    "hitcurve_engine": {"hitcurve"},
    "hitcurve_simulator": {"hitcurve", "hitcurve_engine"},
    "hitcurve_exporter": {"hitcurve"},
    "hitcurve_loadtests": {"hitcurve"},
    "hitcurve_chaos": {"hitcurve", "hitcurve_loadtests"},
    "hitcurve_dashboards": {"hitcurve"},
}
MOST_LINES = 300


def imported(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}: relative import"
            yield node.module or ""


def python_files(folder: Path) -> list[Path]:
    files = sorted(folder.rglob("*.py"))
    assert files, f"no Python file below {folder}"
    return files


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_follow_the_arrows(package: str, repository: Path) -> None:
    allowed = MAY_IMPORT[package] | {package}
    for source in python_files(repository / PACKAGES[package]):
        for module in imported(source):
            component = module.partition(".")[0]
            if component in PACKAGES:
                assert component in allowed, f"{source} imports {module}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_component_reaches_into_private_modules_of_another(package: str, repository: Path) -> None:
    for source in python_files(repository / PACKAGES[package]):
        for module in imported(source):
            component, _, rest = module.partition(".")
            if component in PACKAGES and component != package:
                assert not any(part.startswith("_") for part in rest.split(".")), f"{source} imports {module}"


def test_long_files_say_why(repository: Path) -> None:
    for folder in [*PACKAGES.values(), "tests"]:
        for source in python_files(repository / folder):
            text = source.read_text()
            if text.count("\n") > MOST_LINES:
                docstring = ast.get_docstring(ast.parse(text)) or ""
                assert "Longer than" in docstring, f"{source} has {text.count(chr(10))} lines and no reason"
