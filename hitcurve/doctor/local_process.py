"""Which process of this machine listens on a port, read from Linux's /proc; nothing where that is not allowed."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hitcurve.doctor.observed import LocalProcess

__all__ = ["listening_process"]

_LISTEN: Final = "0A"


def listening_process(port: int, proc: Path = Path("/proc")) -> LocalProcess | None:
    """The process that listens on TCP ``port``, ``None`` where it cannot be found or looked at."""
    sockets = dict(_listening(port, proc))
    if not sockets:
        return None
    wanted = {f"socket:[{inode}]" for inode in sockets}
    for folder in proc.glob("[0-9]*"):
        try:
            if any(_leads_to(link) in wanted for link in (folder / "fd").iterdir()):
                return LocalProcess(int(folder.name), _environment(folder), frozenset(sockets.values()))
        except OSError:
            continue
    return None


def _leads_to(link: Path) -> str:
    """What an open file is, empty where it was closed meanwhile."""
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _listening(port: int, proc: Path) -> Iterator[tuple[str, str]]:
    """Inode and address of every socket that listens on the port."""
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        try:
            lines = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            address, _, number = words[1].partition(":")
            if words[3] == _LISTEN and int(number, 16) == port:
                yield words[9], _address(address, family)


def _address(text: str, family: socket.AddressFamily) -> str:
    """The kernel prints 32-bit words in the machine's own byte order."""
    words = (int(text[at : at + 8], 16) for at in range(0, len(text), 8))
    return socket.inet_ntop(family, b"".join(struct.pack("=I", word) for word in words))


def _environment(folder: Path) -> dict[str, str]:
    pairs = (folder / "environ").read_bytes().split(b"\0")
    split = (pair.decode(errors="replace").partition("=") for pair in pairs if pair)
    return {name: value for name, _, value in split}
