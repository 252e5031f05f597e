"""The profiles by name. A new one is a file of its own and a line here."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hitcurve.errors import UsageError
from hitcurve_loadtests.profiles.multi_turn import MultiTurn
from hitcurve_loadtests.profiles.profile import Profile, ProfileSettings
from hitcurve_loadtests.profiles.shared_system_prompt import SharedSystemPrompt
from hitcurve_loadtests.profiles.unique import Unique

__all__ = ["PROFILES", "Api", "ProfileEntry", "find_profile"]

Api = Literal["chat", "completions"]


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """How to make a profile, the API it uses unless told otherwise, and one line of help."""

    make: Callable[[ProfileSettings], Profile]
    api: Api
    help: str


PROFILES: dict[str, ProfileEntry] = {
    "shared-system-prompt": ProfileEntry(
        SharedSystemPrompt, "completions", "groups of requests, each group behind one shared prefix"
    ),
    "multi-turn": ProfileEntry(
        MultiTurn, "chat", "chats whose history grows by the engine's own replies, turn after turn"
    ),
    "unique": ProfileEntry(Unique, "completions", "no two prompts share a block: pressure on the pool"),
}


def find_profile(name: str) -> ProfileEntry:
    """The profile of that name; UsageError naming the nearest and all others where there is none."""
    if name in PROFILES:
        return PROFILES[name]
    near = difflib.get_close_matches(name, PROFILES, n=1, cutoff=0.4)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise UsageError(f"there is no load profile '{name}'; {hint}The profiles are {', '.join(PROFILES)}.")
