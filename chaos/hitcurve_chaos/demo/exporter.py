"""The exporter of the demo: ``hitcurve exporter`` as a child process, watching one engine."""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from hitcurve.child import ChildProcess
from hitcurve_chaos.demo.settings import DemoSettings

__all__ = ["exporter_configuration", "start_exporter"]

START_S = 30.0


def exporter_configuration(engine_url: str, settings: DemoSettings) -> dict[str, Any]:
    """The configuration file's content."""
    return {
        "listen": "127.0.0.1:0",
        "interval": f"{settings.scrape_interval_s:g}s",
        "windows": [f"{window:g}s" for window in settings.windows_s],
        "request_window": settings.request_window,
        "allow_marks": True,
        # The demo hurts the cache three times in two minutes, which would itself read as oscillating.
        "curve": {"swing_turns": 8, "swing_turns_signalled": 8},
        "targets": [{"name": "demo", "url": f"{engine_url}/metrics"}],
    }


def start_exporter(folder: Path, configuration: dict[str, Any]) -> tuple[ChildProcess, str]:
    """Start the exporter, wait until its first poll is done, return it with its address."""
    file = folder / "exporter.yaml"
    # JSON first: YAML writes tuples and numpy-like values in ways of its own.
    file.write_text(yaml.safe_dump(json.loads(json.dumps(configuration)), sort_keys=False))
    command = [sys.executable, "-m", "hitcurve", "exporter", "--config", str(file)]
    process = ChildProcess("the exporter", command, folder / "logs" / "exporter.log")
    try:
        url = process.start().wait_listening(START_S)
        process.wait_healthy(f"{url}/-/ready", START_S)
    except BaseException:
        process.stop()
        raise
    return process, url
