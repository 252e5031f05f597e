"""Running the server until a signal ends it."""

import asyncio
import signal
from collections.abc import Callable

from aiohttp import web

from hitcurve.errors import EnvironmentFailed
from hitcurve.listening import why_not_listening

__all__ = ["serve", "start_listening"]

_GRACE_S = 0.1


async def start_listening(application: web.Application, host: str, port: int) -> tuple[web.AppRunner, str]:
    """Start the application and return its runner and URL; ``port`` 0 takes a free one.

    Raises EnvironmentFailed where the address cannot be had. The caller cleans the runner up.
    """
    runner = web.AppRunner(
        application, handler_cancellation=True, access_log=None, shutdown_timeout=_GRACE_S, handle_signals=False
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        await runner.cleanup()
        reason = why_not_listening(error)
        raise EnvironmentFailed(
            f"cannot listen on {host}:{port} ({reason}); choose another --port (0 takes a free one) or --host."
        ) from None
    bound = runner.addresses[0]
    shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    return runner, f"http://{shown}:{bound[1]}"


async def serve(
    application: web.Application, host: str, port: int, announce: Callable[[str], None]
) -> signal.Signals:
    """Serve until SIGINT or SIGTERM and return which one it was; requests still open are cut off."""
    runner, url = await start_listening(application, host, port)
    ended: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _end, ended, number)
    try:
        announce(url)
        return await ended
    finally:
        await runner.cleanup()


def _end(ended: "asyncio.Future[signal.Signals]", number: signal.Signals) -> None:
    if not ended.done():
        ended.set_result(number)
