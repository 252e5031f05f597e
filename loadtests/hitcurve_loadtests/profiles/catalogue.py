"""The profiles by name: a YAML file each beside this module. Any other YAML file can be named by its path."""

import difflib
from functools import cache
from pathlib import Path

from hitcurve.errors import UsageError
from hitcurve_loadtests.profiles.spec import Api, ProfileSpec, read_profile

__all__ = ["Api", "find_profile", "profile_names", "profile_titles"]

_FOLDER = Path(__file__).parent


@cache
def profile_names() -> tuple[str, ...]:
    """Names of the profiles that come with hitcurve."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.yaml")))


def profile_titles() -> dict[str, str]:
    """One line about each, without reading more of the files than their first line."""
    titles = {}
    for name in profile_names():
        with (_FOLDER / f"{name}.yaml").open(encoding="utf-8") as file:
            titles[name] = file.readline().removeprefix("title:").strip()
    return titles


def find_profile(name: str) -> ProfileSpec:
    """The profile of that name or file; UsageError naming the nearest and all others where there is none."""
    if name in profile_names():
        return read_profile(_FOLDER / f"{name}.yaml")
    if name.endswith((".yaml", ".yml")):
        return read_profile(Path(name))
    near = difflib.get_close_matches(name, profile_names(), n=1)
    hint = f"did you mean '{near[0]}'? The" if near else "the"
    raise UsageError(f"there is no load profile '{name}'; {hint} profiles are {', '.join(profile_names())}.")
