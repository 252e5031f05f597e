"""The dashboards: one file each, and the list of them."""

from hitcurve_dashboards.boards.adapters import ADAPTERS
from hitcurve_dashboards.boards.capacity import CAPACITY
from hitcurve_dashboards.boards.chaos import CHAOS
from hitcurve_dashboards.boards.engine_pages import ENGINE_PAGES
from hitcurve_dashboards.boards.fleet import FLEET
from hitcurve_dashboards.boards.replica import REPLICA
from hitcurve_dashboards.boards.request import REQUEST
from hitcurve_dashboards.grafana.records import Dashboard

__all__ = ["DASHBOARDS"]

DASHBOARDS: tuple[Dashboard, ...] = (FLEET, REPLICA, REQUEST, ADAPTERS, ENGINE_PAGES, CAPACITY, CHAOS)
