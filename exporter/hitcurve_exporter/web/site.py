"""What the HTTP routes ask of the service."""

from typing import Any, Protocol

from hitcurve_exporter.page.document import PageFormat
from hitcurve_exporter.web.marks import Mark

__all__ = ["Site"]


class Site(Protocol):
    """The exporter as its routes see it."""

    @property
    def ready(self) -> bool:
        """Whether every target was scraped once."""
        ...

    @property
    def allow_marks(self) -> bool:
        """Whether marks are accepted from other machines."""
        ...

    @property
    def listens_on_loopback(self) -> bool:
        """Whether only this machine can reach the exporter."""
        ...

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """Host names by which it may be asked besides addresses and ``localhost``."""
        ...

    def now_s(self) -> float:
        """Unix time."""
        ...

    def metrics(self, form: PageFormat) -> bytes:
        """The metrics page."""
        ...

    def landing_page(self) -> str:
        """HTML."""
        ...

    def engines(self) -> dict[str, Any]:
        """JSON values."""
        ...

    def curve(self, engine: str, window_s: float) -> dict[str, Any]:
        """JSON values of one engine's curve; NoSuchEngine where none is called so."""
        ...

    async def reload(self) -> None:
        """Read the configuration again; HitcurveError where it is bad and the old one stays."""
        ...

    async def mark(self, mark: Mark) -> int:
        """Note a cut; returns how many targets it was noted for."""
        ...
