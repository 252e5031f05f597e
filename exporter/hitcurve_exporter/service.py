"""The exporter as one service: poller, page, routes, reload, signals."""

import asyncio
import errno
import logging
import signal
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiohttp import web

from hitcurve.errors import EnvironmentFailed, HitcurveError, UsageError
from hitcurve_exporter.clock import Clock
from hitcurve_exporter.configuration.records import ExporterConfig, ListenAddress, TargetConfig
from hitcurve_exporter.configuration.web_records import WebConfig
from hitcurve_exporter.discovery.discovery import Discovery
from hitcurve_exporter.discovery.selection import select
from hitcurve_exporter.fleet import fleet_of
from hitcurve_exporter.kv_events.followed import Followed
from hitcurve_exporter.open_files import allow_many_files
from hitcurve_exporter.page.document import PageFormat, page
from hitcurve_exporter.page.exporter_samples import ProcessFamilies, fleet_lines, self_lines
from hitcurve_exporter.page.lines import Lines
from hitcurve_exporter.scraping.fetch import Fetcher
from hitcurve_exporter.scraping.monitoring import MonitorFactory
from hitcurve_exporter.scraping.poller import Poller
from hitcurve_exporter.scraping.query_poller import QueryPoller
from hitcurve_exporter.scraping.source import EngineSource
from hitcurve_exporter.web.answers_under_way import AnswersUnderWay
from hitcurve_exporter.web.api import engines_as_json
from hitcurve_exporter.web.application import application
from hitcurve_exporter.web.basic_auth import PasswordCheck
from hitcurve_exporter.web.curve_api import curve_as_json, engine_named
from hitcurve_exporter.web.foreign import is_loopback
from hitcurve_exporter.web.landing_page import landing_page
from hitcurve_exporter.web.marks import Mark
from hitcurve_exporter.web.tls import authority_of_clients, load_certificate, server_context

if TYPE_CHECKING:
    from hitcurve_exporter.kv_events.following import KvFollowing

__all__ = ["ExporterService", "serve"]

OnReset = Callable[[float], Awaitable[None]]
Part = TypeVar("Part")
_LOG: Final = logging.getLogger("hitcurve.exporter")
_SHUTDOWN_S: Final = 5.0
"""Longest wait for answers that are on their way when the exporter ends."""
_CANCEL_S: Final = 0.5


class ExporterService:
    """Polls from ``start`` to ``stop``; answers what ``hitcurve_exporter.web.site.Site`` asks."""

    def __init__(
        self,
        config: ExporterConfig,
        read_again: Callable[[], ExporterConfig] | None,
        monitor_factory: MonitorFactory,
        clock: Clock,
    ) -> None:
        self._config = config
        self._read_again = read_again
        self._clock = clock
        self._tls = None if config.web.tls is None else server_context(config.web.tls)
        self._authority = authority_of_clients(config.web.tls)
        self._fetcher = Fetcher(clock)
        self._kv_events: KvFollowing | None = None
        self._poller: EngineSource = (
            Poller(self._fetcher, monitor_factory, self._follow_kv_events)
            if config.source is None
            else QueryPoller(config.source, self._fetcher.post, monitor_factory)
        )
        self._discovery = Discovery(self._fetcher.fetch, self._take_targets)
        self._over_limit = 0
        self._process = ProcessFamilies()
        self._changing = asyncio.Lock()
        self._reload_good = True
        self._last_good_reload_s = clock.wall()
        self._passwords = PasswordCheck(config.web.users)
        self._listen_host = config.listen.host
        self._under_way = AnswersUnderWay()
        app = application(self, self._passwords, config.web.headers, [self._under_way.middleware])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CANCEL_S)

    async def start(self, listen: ListenAddress) -> str:
        """Listen and begin to poll; the URL it listens on. EnvironmentFailed where that is not possible."""
        await self._runner.setup()
        await self._listen(listen)
        async with self._changing:
            await self._discovery.configure(self._config)
            await self._apply()
        host, port = self._runner.addresses[0][:2]
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def _listen(self, listen: ListenAddress) -> None:
        self._listen_host = listen.host
        try:
            await web.TCPSite(self._runner, listen.host, listen.port, ssl_context=self._tls).start()
        except OSError as error:
            raise EnvironmentFailed(_cannot_listen(listen, error)) from error

    async def stop(self) -> None:
        """Accept no more connections, finish the answers that are on their way, then stop polling."""
        for site in list(self._runner.sites):
            await site.stop()
        await self._under_way.finish(self._runner, _SHUTDOWN_S)
        await self._runner.cleanup()
        await self._discovery.close()
        await self._poller.close()
        if self._kv_events is not None:
            self._kv_events.close()
        await self._fetcher.close()

    @property
    def ready(self) -> bool:
        """Whether every target was scraped once, and targets were looked for everywhere."""
        return self._discovery.ready and self._poller.ready

    @property
    def allow_marks(self) -> bool:
        """Whether marks are accepted from other machines."""
        return self._config.allow_marks

    @property
    def listens_on_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self._config.listen.host) or self._config.listen.host == "localhost"

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """Host names by which it may be asked besides addresses and ``localhost``."""
        return frozenset(self._config.allowed_hosts)

    def now_s(self) -> float:
        """Unix time."""
        return self._clock.wall()

    def metrics(self, form: PageFormat) -> bytes:
        """The page of the newest readings."""
        own = self_lines(
            len(self._poller.targets),
            self._config.interval_s,
            self._poller.internal_errors.count,
            self._reload_good,
            self._last_good_reload_s,
            over_limit=self._over_limit,
            discovery_failures=self._discovery.failures,
        )
        parts = [target.lines for target in self._poller.targets]
        parts += [self._guarded(one.kv_lines, Lines()) for one in self._poller.targets if one.followed]
        fleet = self._guarded(lambda: fleet_lines(fleet_of(self._poller.readings)), Lines())
        return page([*parts, fleet, own], form, [self._guarded(lambda: self._process.text(form), "")])

    def landing_page(self) -> str:
        """HTML."""
        return landing_page(self._poller.targets, self._config.interval_s, self._clock.wall())

    def engines(self) -> dict[str, Any]:
        """JSON values."""
        return engines_as_json(self._poller.targets, self._config.interval_s, self._clock.wall())

    def curve(self, engine: str, window_s: float) -> dict[str, Any]:
        """JSON values of one engine's curve; NoSuchEngine where none is called so."""
        target, name = engine_named(self._poller.targets, engine)
        return curve_as_json(target, name, window_s, self._clock.wall())

    async def reload(self) -> None:
        """Read the configuration again; HitcurveError where it is bad, and then the old one stays."""
        async with self._changing:
            try:
                if self._read_again is None:
                    raise UsageError("there is no file to read again; start with --config FILE.")
                config = self._read_again()
                await self._secure_anew(config.web)
            except HitcurveError as error:
                self._reload_good = False
                _LOG.error("the old configuration stays: %s", error)
                raise
            if config.listen != self._config.listen:
                _LOG.warning("a new 'listen' address needs a restart of the exporter")
            if config.source != self._config.source:
                _LOG.warning("another 'source' needs a restart of the exporter")
            if (config.web.tls, config.web.headers) != (self._config.web.tls, self._config.web.headers):
                _LOG.warning("other TLS settings or headers than before need a restart of the exporter")
            await self._discovery.configure(config)
            self._config = config
            await self._apply()
            self._reload_good = True
            self._last_good_reload_s = self._clock.wall()
            _LOG.info("read the configuration again: %d targets", len(self._poller.targets))

    async def _take_targets(self) -> None:
        """Scrape what discovery names now."""
        async with self._changing:
            await self._apply()
            _LOG.info("the targets changed: %d now", len(self._poller.targets))

    async def _apply(self) -> None:
        config = self._config
        found = (replace(target, access=config.access) for target in self._discovery.targets)
        known = (*config.targets, *found)
        selection = select(known, config.shard, config.max_targets)
        if selection.over_limit and not self._over_limit:
            _LOG.warning("%d targets are left out because of 'max_targets'", selection.over_limit)
        self._over_limit = selection.over_limit
        await self._poller.apply(replace(config, targets=selection.targets))

    def _follow_kv_events(self, target: TargetConfig, most_bytes: int, on_reset: OnReset) -> Sequence[Followed]:
        """ZeroMQ is needed only where a target names publishers."""
        if target.kv_events is None:
            return ()
        if self._kv_events is None:
            from hitcurve_exporter.kv_events.following import KvFollowing

            self._kv_events = KvFollowing(self._clock)
        return self._kv_events.follow(target, most_bytes, on_reset)

    def _guarded(self, collect: Callable[[], Part], nothing: Part) -> Part:
        """One part of the page that fails leaves the others whole."""
        try:
            return collect()
        except Exception:
            self._poller.internal_errors.count += 1
            _LOG.exception("a part of the page is missing")
            return nothing

    async def _secure_anew(self, web_config: WebConfig) -> None:
        """Renewed certificates and other users are taken at once."""
        tls = web_config.tls
        if self._tls is not None and tls is not None and tls == self._config.web.tls:
            authority = authority_of_clients(tls)
            renewed = server_context(tls)
            load_certificate(self._tls, tls)
            if authority != self._authority:
                await self._listen_anew(renewed)
                self._authority = authority
        self._passwords.replace(web_config.users)

    async def _listen_anew(self, context: ssl.SSLContext) -> None:
        """A context takes further authorities and forgets none, so new connections get a new one."""
        port = self._runner.addresses[0][1]
        for site in list(self._runner.sites):
            await site.stop()
        self._tls = context
        await self._listen(ListenAddress(self._listen_host, port))

    async def mark(self, mark: Mark) -> int:
        """Note a cut; returns how many targets it was noted for."""
        return await self._poller.mark(mark.kind, mark.at_s, mark.target, mark.engine)


async def serve(
    config: ExporterConfig,
    read_again: Callable[[], ExporterConfig] | None,
    monitor_factory: MonitorFactory,
    clock: Clock,
    on_listening: Callable[[str], None],
) -> signal.Signals:
    """Run the service until SIGINT or SIGTERM and return which came; SIGHUP reads the configuration again."""
    allow_many_files()
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[signal.Signals] = loop.create_future()

    def end(came: signal.Signals) -> None:
        if not ended.done():
            ended.set_result(came)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    service = ExporterService(config, read_again, monitor_factory, clock)
    reloads: set[asyncio.Task[None]] = set()

    def reload() -> None:
        task = loop.create_task(_reload_quietly(service))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        on_listening(await service.start(config.listen))
        return await ended
    finally:
        await service.stop()


async def _reload_quietly(service: ExporterService) -> None:
    with suppress(HitcurveError):
        await service.reload()


def _cannot_listen(listen: ListenAddress, error: OSError) -> str:
    where = f"{listen.host}:{listen.port}"
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on {where}: the port is in use; choose another with --listen HOST:PORT."
    return f"cannot listen on {where} ({error.strerror or error}); choose an address with --listen HOST:PORT."
