"""The adapters an engine serves beside its base model, with vLLM's refusals.

Nothing is read from an adapter's path: it only enters the block hashes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hitcurve_simulator.server.api_error import bad_user_input, not_found

__all__ = ["Adapter", "Adapters"]


@dataclass(frozen=True, slots=True)
class Adapter:
    """A loaded adapter."""

    name: str
    path: str


class Adapters:
    """Loaded adapters by name, in the order of their loading."""

    def __init__(self, base_model: str) -> None:
        self.base_model = base_model
        self._loaded: dict[str, Adapter] = {}

    def __iter__(self) -> Iterator[Adapter]:
        return iter(list(self._loaded.values()))

    def load(self, name: str, path: str, *, in_place: bool = False) -> None:
        """Raises ApiError: 400 for an empty, taken or loaded name."""
        if not name or not path:
            raise bad_user_input("'lora_name' and 'lora_path' must both be given.")
        if name == self.base_model:
            raise bad_user_input(f"The adapter name '{name}' is that of the base model.")
        if name in self._loaded and not in_place:
            raise bad_user_input(
                f"The adapter '{name}' is loaded already; to load it again, set 'load_inplace' to True."
            )
        self._loaded[name] = Adapter(name, path)

    def unload(self, name: str) -> None:
        """Raises ApiError: 400 for an empty name, 404 for an unknown one."""
        if not name:
            raise bad_user_input("'lora_name' must be given.")
        if name not in self._loaded:
            raise not_found(f"The adapter '{name}' is not loaded.")
        del self._loaded[name]

    def find(self, model: str | None) -> Adapter | None:
        """The adapter a request names; None for the base model. Raises ApiError (404) for an unknown one."""
        if model is None or model == self.base_model:
            return None
        if model not in self._loaded:
            served = ", ".join([self.base_model, *self._loaded])
            raise not_found(f"The model `{model}` does not exist; served are: {served}.", "model")
        return self._loaded[model]
