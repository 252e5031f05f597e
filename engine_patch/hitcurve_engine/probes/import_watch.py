"""Call somebody when a module has been imported, without importing it: the plugin also runs where it never is."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["ImportWatch"]


class ImportWatch(MetaPathFinder):
    """Watches for some modules by name; ``imported`` is called with each after its code has run.

    It finds nothing itself: it asks the other finders and hooks into the loader that they give.
    """

    def __init__(self, names: Sequence[str], imported: Callable[[str, ModuleType], None]) -> None:
        self._names = set(names)
        self._asking: set[str] = set()
        self._imported = imported

    def start(self) -> None:
        """Report the modules that are there at once, the others when they come."""
        for name in sorted(self._names):
            module = sys.modules.get(name)
            if module is not None:
                self._report(name, module)
        if self._names:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Watch no longer."""
        self._names.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, with a loader that reports."""
        if fullname not in self._names or fullname in self._asking:
            return None
        self._asking.add(fullname)
        try:
            spec = find_spec(fullname)
        except Exception:
            return None
        finally:
            self._asking.discard(fullname)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _ReportingLoader(spec.loader, self._report)
        return spec

    def _report(self, name: str, module: ModuleType) -> None:
        if name in self._names:
            self._names.discard(name)
            self._imported(name, module)


class _ReportingLoader(Loader):
    def __init__(self, loader: Any, imported: Callable[[str, ModuleType], None]) -> None:
        self._loader = loader
        self._imported = imported

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._imported(module.__name__, module)
