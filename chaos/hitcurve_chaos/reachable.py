"""Whether there is an engine at all, asked before anything is written or injected."""

from hitcurve.errors import EnvironmentFailed
from hitcurve_chaos.calls import NoAnswer, Transport
from hitcurve_chaos.targets import Target

__all__ = ["require_answering"]

_TIMEOUT_S = 10.0


def require_answering(target: Target, transport: Transport) -> None:
    """Raise EnvironmentFailed where nothing answers at the target's engine; any answer will do."""
    try:
        transport.send("GET", f"{target.engine}/v1/models", headers=target.headers(), timeout_s=_TIMEOUT_S)
    except NoAnswer as error:
        raise EnvironmentFailed(
            f"no engine answers for target '{target.name}' ({error}); start it, "
            "or correct 'engine' in the target file."
        ) from error
