"""Errors that a client of the API sees, in OpenAI's JSON with vLLM's types and status codes."""

from dataclasses import dataclass
from typing import Any

__all__ = ["ApiError", "bad_body", "bad_parameter", "bad_user_input", "not_found"]


@dataclass(slots=True)
class ApiError(Exception):
    """A refused request."""

    status: int
    kind: str
    """``error.type`` of the body."""
    message: str
    parameter: str | None = None

    def body(self) -> dict[str, Any]:
        """The JSON body."""
        return {
            "error": {"message": self.message, "type": self.kind, "param": self.parameter, "code": self.status}
        }


def bad_body(parameter: str | None, message: str) -> ApiError:
    """A body (or query) that does not have the right shape; ``parameter`` such as ``body.max_tokens``."""
    return ApiError(400, "Bad Request", f"1 validation error: {message}", parameter)


def bad_parameter(parameter: str | None, message: str) -> ApiError:
    """A value of the right type that makes no sense."""
    return ApiError(400, "BadRequestError", message, parameter)


def bad_user_input(message: str) -> ApiError:
    """A refused adapter operation."""
    return ApiError(400, "InvalidUserInput", message)


def not_found(message: str, parameter: str | None = None) -> ApiError:
    """An unknown model or adapter."""
    return ApiError(404, "NotFoundError", message, parameter)
