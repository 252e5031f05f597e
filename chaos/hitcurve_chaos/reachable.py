"""Whether there is an engine at all that serves the model, asked before anything is written or injected."""

from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve_chaos.calls import Answer, NoAnswer, Transport
from hitcurve_chaos.targets import Target

__all__ = ["require_answering"]

_TIMEOUT_S = 10.0


def require_answering(target: Target, transport: Transport) -> None:
    """Raise EnvironmentFailed where nothing answers at the target's engine; any answer will do.

    UsageError where the engine lists its models and the target's is not among them.
    """
    try:
        answer = transport.send(
            "GET", f"{target.engine}/v1/models", headers=target.headers(), timeout_s=_TIMEOUT_S
        )
    except NoAnswer as error:
        raise EnvironmentFailed(
            f"no engine answers for target '{target.name}' ({error}); start it, "
            "or correct 'engine' in the target file."
        ) from error
    served = _models(answer)
    if served and target.model not in served:
        raise UsageError(
            f"the engine of target '{target.name}' serves no model '{target.model}', only {', '.join(served)}; "
            "correct 'model' in the target file."
        )


def _models(answer: Answer) -> list[str]:
    """Names of the models that the answer lists; none where it is no such list."""
    values = answer.json() if answer.status == 200 else None
    models = values.get("data") if isinstance(values, dict) else None
    return [str(one.get("id")) for one in models if isinstance(one, dict)] if isinstance(models, list) else []
