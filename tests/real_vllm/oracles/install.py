"""Fetches the engines whose own caches our rules are compared with, below ``.cache/hitcurve``.

``python tests/real_vllm/oracles/install.py``: Python files out of wheels (and SGLang's Rust tree), and the few
packages that ``.venv-vllm`` lacks for them. Wheels are deleted as soon as they are unpacked; about 450 MB stay.
Safe to repeat; an unfinished folder is made anew.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from oracle_list import PACKAGES, REPOSITORY, SGLANG, TRANSFORMERS

LEAST_FREE_BYTES = 20 * 2**30
VLLM_VERSIONS = ("0.8.5", "0.18.1", "0.22.1", "0.24.0", "0.29.0")
SGLANG_VERSION = "0.5.22"
MISSING_PACKAGES = ("orjson", "IPython", "traitlets", "gguf", "diskcache")
OLD_TRANSFORMERS = ("transformers==4.52.4", "tokenizers>=0.21,<0.22", "huggingface-hub<1")
EXPECTED_FOLDERS = ("sglang/kernels/jit/include", "sglang/kernels/jit/csrc")
"""Looked for at import; their content is for GPUs."""


def pip(python: Path, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def install_packages(python: Path, folder: Path, packages: tuple[str, ...]) -> None:
    """Packages alone, without what they depend on, for the environment that ``python`` belongs to."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        target = Path(scratch, "packages")
        pip(python, "install", "--no-deps", "--target", str(target), *packages)
        target.rename(folder)


def unpack_sglang(python: Path, folder: Path) -> None:
    """SGLang's Python files and its Rust tree."""
    if folder.is_dir():
        return
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        pip(python, "download", "--no-deps", "--dest", scratch, f"sglang=={SGLANG_VERSION}")
        (wheel,) = Path(scratch).glob("*.whl")
        unpacked = Path(scratch, "tree")
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith((".py", "METADATA"))]
            names += [name for name in archive.namelist() if "/rust_tree_core/" in name and name.endswith(".so")]
            archive.extractall(unpacked, names)
        for name in EXPECTED_FOLDERS:
            (unpacked / name).mkdir(parents=True, exist_ok=True)
        unpacked.rename(folder)


def main() -> None:
    python = Path(os.environ.get("HITCURVE_VLLM_PYTHON", REPOSITORY / ".venv-vllm" / "bin" / "python"))
    free = shutil.disk_usage(REPOSITORY).free
    if free < LEAST_FREE_BYTES:
        sys.exit(f"only {free / 2**30:.0f} GiB of disk are free; the oracles need 20 while they are unpacked.")
    install_packages(python, PACKAGES, MISSING_PACKAGES)
    install_packages(python, TRANSFORMERS, OLD_TRANSFORMERS)
    unpack_sglang(python, SGLANG)
    trees = Path(__file__).resolve().parent.parent / "compat" / "release_trees.py"
    subprocess.run([sys.executable, trees, *VLLM_VERSIONS], check=True)


if __name__ == "__main__":
    main()
