"""SIGKILL of the chaos runner at random moments: after ``hitcurve chaos recover`` nothing may be left.

    python tests/chaos/kills/kill_runner.py --kills 50 --seed 1
    python tests/chaos/kills/kill_runner.py --kills 10 --container NAME

Starts a simulated engine that survives the runner (or takes one in a container, with the label
hitcurve.chaos=allow and port 8000 published), and again and again a run on it that is killed. After ``recover`` it
asks: is an adapter of the run still loaded, the engine paused or dead, the container not as it was, a child of the
run alive, a fault open in the journal? Exit 0: nothing was ever left.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hitcurve_chaos.calls import HttpTransport, NoAnswer
from hitcurve_chaos.demo.engines import start_simulated
from hitcurve_chaos.drivers.processes import state_of
from hitcurve_chaos.journal import JOURNAL_FILE, read_journal
from hitcurve_chaos.recover import left_over

DRILLS = ("pause", "adapter-scatter", "adapter-reload", "tenants-must-not-share", "cut-network", "exporter-lost")
CONTAINER_DRILLS = ("pause", "restart-kill", "restart-term", "container-cut-off", "container-starved")
CHURN_EVERY = 5
"""Every so many kills hit adapter churn under load, which runs load generators of its own."""
MOST_S, MOST_CHURN_S = 6.0, 14.0
LEAST_S = 0.8
ENDED_S = 10.0
TARGETS = """\
targets:
  - name: victim
    engine: {url}
    model: {model}
    process: {{pid_file: {pid_file}}}
    load: {{profile: shared-system-prompt, rate: 10, groups: 4, prefix_tokens: 256, output_tokens: 4}}
    adapters: [{{name: a, path: one}}, {{name: b, path: two}}]
"""

CONTAINER_TARGETS = """\
targets:
  - name: victim
    engine: {url}
    model: {model}
    docker: {{container: {name}}}
"""


@dataclass
class Tally:
    """What the kills hit and what was found left afterwards."""

    kills: int = 0
    open_faults: Counter[str] = field(default_factory=Counter)
    """Kinds of faults that were open when the runner died, undone by ``recover``."""
    left: list[str] = field(default_factory=list)


class Victim:
    """An engine that nobody of the run owns, and its target file."""

    drills: Sequence[str] = DRILLS

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine = start_simulated(folder / "engine.log", block_size=16, pool_blocks=512, seed=1)
        self.url, self.model = self.engine.url, self.engine.model
        pid_file = folder / "engine.pid"
        pid_file.write_text(f"{self.engine.process.process_id}\n")
        self.targets = folder / "targets.yaml"
        self.targets.write_text(TARGETS.format(url=self.url, model=self.model, pid_file=pid_file))

    def changed(self) -> list[str]:
        """What is not as it was."""
        state = state_of(self.engine.process.process_id or 0)
        return [f"the engine's process is in state {state}"] if state in ("T", "t", "Z", None) else []

    def close(self) -> None:
        self.engine.process.stop()


class ContainerVictim:
    """An engine in a container that somebody else started."""

    drills: Sequence[str] = CONTAINER_DRILLS

    def __init__(self, folder: Path, name: str) -> None:
        import docker

        self.folder = folder
        self._container = docker.from_env().containers.get(name)
        self._total = int(docker.from_env().info()["MemTotal"])
        port = self._container.attrs["NetworkSettings"]["Ports"]["8000/tcp"][0]["HostPort"]
        self.url, self.model = f"http://127.0.0.1:{port}", "simulated"
        self.targets = folder / "targets.yaml"
        self.targets.write_text(CONTAINER_TARGETS.format(url=self.url, model=self.model, name=name))
        self._before = self._state()

    def changed(self) -> list[str]:
        now = self._state()
        return [f"the container is {now} and was {self._before}"] if now != self._before else []

    def close(self) -> None:
        """It is not ours to end."""

    def _state(self) -> tuple[object, ...]:
        self._container.reload()
        networks = sorted(self._container.attrs["NetworkSettings"]["Networks"])
        memory = self._container.attrs["HostConfig"]["Memory"] or self._total
        return self._container.status, min(memory, self._total), networks


def kill_once(victim: Victim | ContainerVictim, randomness: random.Random, tally: Tally) -> None:
    """One run, killed at a random moment, recovered, and looked at."""
    tally.kills += 1
    churn = tally.kills % CHURN_EVERY == 0 and victim.drills is DRILLS
    names = ["lora-churn"] if churn else randomness.sample(victim.drills, len(victim.drills))
    run = victim.folder / f"run-{tally.kills}"
    words = ["run", *names, "--targets", str(victim.targets), "--out", str(run), "--repeat-for", "1h"]
    words += ["--baseline", "1s", "--set", "correctness=false", *(["--set", "period=1s"] if churn else [])]
    with (victim.folder / f"run-{tally.kills}.log").open("wb") as log:
        runner = subprocess.Popen(
            [sys.executable, "-m", "hitcurve", "chaos", *words], stdout=log, stderr=log, start_new_session=True
        )
        time.sleep(randomness.uniform(LEAST_S, MOST_CHURN_S if churn else MOST_S))
        runner.kill()
        if runner.wait() != -signal.SIGKILL:
            tally.left.append(f"run {tally.kills} ended by itself ({runner.returncode}); nothing was killed")
    if (run / JOURNAL_FILE).exists():
        for entry in left_over(read_journal(run)):
            tally.open_faults[entry.detail["record"]["fault"]] += 1
        recovered = subprocess.run(
            [sys.executable, "-m", "hitcurve", "chaos", "recover", str(run)], capture_output=True, text=True
        )
        if recovered.returncode != 0:
            tally.left.append(
                f"run {tally.kills}: recover exits {recovered.returncode}: {recovered.stderr.strip()}"
            )
        tally.left += [f"run {tally.kills}: open fault {e.detail}" for e in left_over(read_journal(run))]
    tally.left += [f"run {tally.kills}: {what}" for what in whats_left(victim, run)]
    shutil.rmtree(run, ignore_errors=True)


def whats_left(victim: Victim | ContainerVictim, run: Path) -> list[str]:
    """Anything of the run that is still there, once its children had time to end."""
    _await_answer(victim)
    left = victim.changed()
    transport = HttpTransport()
    models = transport.send("GET", f"{victim.url}/v1/models").json()
    left += [f"adapter {m['id']}" for m in models["data"] if str(m["id"]).startswith("chaos-")]
    body = {"model": victim.model, "prompt": "hello", "max_tokens": 1}
    answer = transport.send("POST", f"{victim.url}/v1/completions", json_body=body)
    if answer.status != 200:
        left.append(f"the engine answers {answer.said}")
    deadline = time.monotonic() + ENDED_S
    while (alive := _with(str(run))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left + [f"process {words}" for words in alive]


def _await_answer(victim: Victim | ContainerVictim) -> None:
    """A container that ``recover`` started again takes a moment to listen."""
    deadline = time.monotonic() + ENDED_S
    while time.monotonic() < deadline:
        try:
            if HttpTransport().send("GET", f"{victim.url}/health", timeout_s=1).status == 200:
                return
        except NoAnswer:
            time.sleep(0.1)


def _with(words: str) -> list[str]:
    """Command lines that name the run folder: load generators, exporters."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if words in line and int(entry.parent.name) != os.getpid():
            found.append(line)
    return found


def main(arguments: Sequence[str]) -> int:
    """Kill as often as asked, print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--container", help="an engine in this container instead of one of our own")
    options = parser.parse_args(arguments)
    randomness, tally = random.Random(options.seed), Tally()
    with tempfile.TemporaryDirectory(prefix="hitcurve-kills-") as name:
        victim = ContainerVictim(Path(name), options.container) if options.container else Victim(Path(name))
        try:
            for _ in range(options.kills):
                kill_once(victim, randomness, tally)
                print(f"\rkilled {tally.kills}, left {len(tally.left)}", end="", file=sys.stderr, flush=True)
        finally:
            victim.close()
    hit = ", ".join(f"{count} x {kind}" for kind, count in sorted(tally.open_faults.items())) or "none"
    print(f"\n{tally.kills} kills; faults open at the kill: {hit}; left after recover: {len(tally.left)}")
    for line in tally.left:
        print(f"  {line}")
    return 1 if tally.left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
