"""The exporter cannot reach the engine, then is gone: the engine does not care, and no reading is invented."""

from hitcurve.errors import HitcurveError
from hitcurve.reading import Reading, reading_from_json
from hitcurve_chaos.calls import NoAnswer
from hitcurve_chaos.clock import wait_until
from hitcurve_chaos.demo.exporter import start_exporter
from hitcurve_chaos.fault_proxy import Weather, fault_proxy
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import TOKENS, applied, drill, failures
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["EXPORTER_LOST"]

_BLOCKS = 4
_REQUESTS = 6
_NOTICE_S = 15.0


def _act(bench: Bench, numbers: Numbers) -> Injection:
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    bench.probe.ask(prompt)
    with fault_proxy(bench.target.engine, bench.randomness) as proxy:
        configuration = {
            "listen": "127.0.0.1:0",
            "interval": f"{bench.settings['interval']:g}s",
            "targets": [{"name": "lost", "url": f"{proxy.url}/metrics"}],
        }
        folder = bench.folder / "logs" / f"exporter-{bench.fault_prefix}"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            exporter, url = start_exporter(folder, configuration)
        except HitcurveError as error:
            return Injection("failed", f"the exporter did not start ({error})")
        try:
            numbers["exporter_up_before"] = int(wait_until(lambda: _up(bench, url), _NOTICE_S, every_s=0.1))
            proxy.weather = Weather(black_hole=True)
            silent = [bench.probe.ask(prompt) for _ in range(_REQUESTS)]
            down = wait_until(lambda: _down(bench, url), _NOTICE_S, every_s=0.1)
            numbers["exporter_said_down"] = int(down)
            proxy.weather = Weather()
            numbers["exporter_up_again"] = int(wait_until(lambda: _up(bench, url), _NOTICE_S, every_s=0.1))
            back = _reading(bench, url)
            numbers["restarts_invented"] = back.restarts_total if back else None
        finally:
            exporter.stop()
        gone = [bench.probe.ask(prompt) for _ in range(_REQUESTS)]
    numbers["failed"] = failures([*silent, *gone])
    numbers["cached_after"] = gone[-1].cached_tokens
    return applied("scrapes were swallowed, then the exporter was ended")


def _up(bench: Bench, exporter: str) -> bool:
    reading = _reading(bench, exporter)
    return reading is not None and reading.up


def _down(bench: Bench, exporter: str) -> bool:
    reading = _reading(bench, exporter)
    return reading is not None and not reading.up


def _reading(bench: Bench, exporter: str) -> Reading | None:
    try:
        answer = bench.transport.send("GET", f"{exporter}/api/v1/engines", timeout_s=5.0)
    except NoAnswer:
        return None
    values = answer.json()
    engines = values.get("engines") if isinstance(values, dict) else None
    return reading_from_json(engines[0]) if engines else None


EXPORTER_LOST = drill(
    name="exporter-lost",
    title="The exporter is lost",
    expected="The engine answers as ever; the exporter says that it sees nothing, then sees it again as it was.",
    act=_act,
    expectations=(
        Expectation("failed", "requests that failed while the exporter was lost", AtMost(0)),
        Expectation("cached_after", "tokens still cached afterwards", AtLeast(1)),
        Expectation("exporter_said_down", "whether the exporter said that it sees nothing", AtLeast(1)),
        Expectation("exporter_up_again", "whether it saw the engine again", AtLeast(1)),
        Expectation("restarts_invented", "restarts it counted though there was none", AtMost(0)),
    ),
    conditions=(Expectation("exporter_up_before", "whether it saw the engine before", AtLeast(1)),),
    needs=(*TOKENS, "counters", "exporter_installed"),
    parameters=(Parameter("interval", "duration", 0.5, "how often the exporter scrapes", least=0.2),),
    story=Story(
        fault="An exporter of the scenario's own loses its way to the engine, gets it back, and is ended.",
        signature="A gap in the readings and no value in it; then the old state, without a restart.",
        rollback="The exporter and the proxy are children of the run and end with it.",
        safety="Your own exporter is not touched.",
    ),
)
