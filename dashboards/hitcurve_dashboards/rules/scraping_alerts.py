"""Alerts on the instruments themselves: without them no number is true."""

from hitcurve_dashboards.rules.records import Alert, RuleGroup

__all__ = ["SCRAPING_ALERTS"]

_TARGET = "{{ $labels.target }}"

SCRAPING_ALERTS = RuleGroup(
    "hitcurve-alert-scraping",
    (
        Alert(
            "HitcurveExporterMissing",
            "absent(hitcurve_exporter_targets)",
            "5m",
            "critical",
            "Prometheus has no numbers of any hitcurve exporter.",
            "The exporter is down or not scraped; no other alert on the curve can fire.",
            "hitcurve-exporter-missing",
        ),
        Alert(
            "HitcurveTargetDown",
            "hitcurve_up == 0",
            "5m",
            "warning",
            f"The exporter cannot read {_TARGET}.",
            f"Every scrape of {_TARGET} failed for five minutes; hitcurve_scrape_errors_total tells the reason.",
            "hitcurve-target-down",
        ),
        Alert(
            "HitcurveExporterStale",
            "(time() - hitcurve_last_success_timestamp_seconds) > on (job, instance) group_left () "
            "(5 * hitcurve_exporter_interval_seconds) and on (job, instance, target) hitcurve_up == 1",
            "5m",
            "warning",
            f"The exporter shows old numbers of {_TARGET}.",
            "Its last good scrape is {{ $value | humanizeDuration }} old although no scrape failed.",
            "hitcurve-exporter-stale",
        ),
        Alert(
            "HitcurveExporterErrors",
            "increase(hitcurve_exporter_internal_errors_total[15m]) > 0",
            "0m",
            "warning",
            "The exporter {{ $labels.instance }} has errors of its own.",
            "Samples of the engines they happened on are missing; its log has more.",
            "hitcurve-exporter-errors",
        ),
        Alert(
            "HitcurveConfigurationRefused",
            "hitcurve_exporter_config_last_reload_successful == 0",
            "5m",
            "warning",
            "The exporter {{ $labels.instance }} goes on with an old configuration.",
            "The newest configuration file is bad; its log names file, line and cure.",
            "hitcurve-configuration-refused",
        ),
        Alert(
            "HitcurveUnstableTarget",
            'increase(hitcurve_flags_total{flag="unstable_target"}[15m]) > 0',
            "15m",
            "warning",
            f"{_TARGET} answers for several processes in turn.",
            "Behind one address the pages of several processes alternate; no rate can be formed from them.",
            "hitcurve-unstable-target",
        ),
    ),
)
