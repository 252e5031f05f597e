"""From traffic and truth, in seconds since the start, to a labelled curve in Unix seconds."""

from collections.abc import Sequence
from dataclasses import replace

from labelled_curves.records import Incident, LabelledCurve, Stretch
from labelled_curves.setting import Setting
from labelled_curves.traffic import START_S, Traffic, scrapes

__all__ = ["labelled"]


def labelled(
    kind: str,
    setting: Setting,
    traffic: Traffic,
    truth: Sequence[Stretch],
    incidents: Sequence[Incident] = (),
    note: str = "",
) -> LabelledCurve:
    """The curve of this traffic. ``truth`` is in order of time."""
    return LabelledCurve(
        kind=kind,
        source="generator",
        seed=0,
        qps=setting.qps,
        scrape_s=setting.scrape_s,
        scrapes=scrapes(traffic, setting.rng),
        truth=[
            replace(part, from_s=START_S + part.from_s, grace_to_s=START_S + part.grace_to_s) for part in truth
        ],
        incidents=[replace(incident, at_s=START_S + incident.at_s) for incident in incidents],
        note=note,
    )
