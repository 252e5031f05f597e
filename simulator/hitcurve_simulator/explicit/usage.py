"""What a request is billed for, in tokens, and its cost in multiples of a plain input token."""

from dataclasses import dataclass

__all__ = ["Multipliers", "Usage"]


@dataclass(frozen=True, slots=True)
class Multipliers:
    """Price of a token by how it is handled, as a multiple of a plain input token. They are the user's to give."""

    write_5m: float
    write_1h: float
    read: float


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request; the four add up to its prompt."""

    read: int = 0
    write_5m: int = 0
    write_1h: int = 0
    plain: int = 0
    """Tokens behind the last breakpoint, or of a prompt that is not cached."""

    @property
    def tokens(self) -> int:
        return self.read + self.write_5m + self.write_1h + self.plain

    def cost(self, prices: Multipliers) -> float:
        """In plain input tokens."""
        return (
            self.plain
            + self.read * prices.read
            + self.write_5m * prices.write_5m
            + self.write_1h * prices.write_1h
        )

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.read + other.read,
            self.write_5m + other.write_5m,
            self.write_1h + other.write_1h,
            self.plain + other.plain,
        )
