"""Target groups in files, read again when they change."""

import logging
from pathlib import Path
from typing import Final

from hitcurve_exporter.configuration.discovery_records import FileDiscovery
from hitcurve_exporter.configuration.records import TargetConfig
from hitcurve_exporter.discovery.groups import BadGroups, parse_groups

__all__ = ["TargetFiles"]

_LOG: Final = logging.getLogger("hitcurve.exporter")
_LARGEST_BYTES: Final = 16 * 1024 * 1024
_Signature = tuple[int, int, int]


class TargetFiles:
    """The files of one entry. A file that turned bad keeps its last good targets; one that went has none."""

    def __init__(self, discovery: FileDiscovery) -> None:
        self._patterns = [Path(file) for file in discovery.files]
        self._read: dict[Path, _Signature] = {}
        self._targets: dict[Path, tuple[TargetConfig, ...]] = {}
        self.failures = 0

    @property
    def targets(self) -> tuple[TargetConfig, ...]:
        """The targets of all files, in the order of their names."""
        return tuple(target for file in sorted(self._targets) for target in self._targets[file])

    def refresh(self) -> bool:
        """Read what is new or changed; whether the targets may be others now."""
        changed = False
        present = {file for pattern in self._patterns for file in pattern.parent.glob(pattern.name)}
        for file in list(self._read):
            if file not in present:
                del self._read[file]
                changed = self._targets.pop(file, None) is not None or changed
        for file in sorted(present):
            signature = _signature(file)
            if signature is not None and self._read.get(file) != signature:
                self._read[file] = signature
                changed = self._take(file) or changed
        return changed

    def _take(self, file: Path) -> bool:
        try:
            with file.open("rb") as opened:
                text = opened.read(_LARGEST_BYTES + 1)
            if len(text) > _LARGEST_BYTES:
                raise BadGroups(f"it is larger than {_LARGEST_BYTES} bytes")
            self._targets[file] = parse_groups(text, as_yaml=file.suffix != ".json")
        except (OSError, BadGroups) as error:
            self.failures += 1
            reason = error.strerror if isinstance(error, OSError) else error
            _LOG.error("the last good targets of %s stay, since %s", file, reason)
            return False
        return True


def _signature(file: Path) -> _Signature | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
