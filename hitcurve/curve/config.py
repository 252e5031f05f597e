"""What can be tuned about the curve classifier, and what each constant changes."""

from dataclasses import dataclass

__all__ = ["CurveConfig"]


@dataclass(frozen=True, slots=True)
class CurveConfig:
    """Constants of the classifier. Rates are shares from 0 to 1, times seconds, evidence requests or scrapes.

    Nothing here depends on the scrape interval. Raises ValueError where a value cannot work.
    """

    false_alarms_per_day: float = 0.1
    """Budget per engine and test. Smaller means more evidence, so a later alarm, before a fall is named."""
    tokens_per_request: float = 2000.0
    """Query tokens taken as one request where the engine does not count requests. Larger is more cautious."""
    prior_request_noise: float = 1.2
    """Noise factor of one request (1 = hit or miss as a whole, equal sizes) until it is learnt from the curve."""
    prior_scatter: float = 0.02
    """Scatter of the rate from scrape to scrape that no number of requests averages out, until it is learnt."""
    noise_memory_scrapes: int = 100
    """Scrapes over which both kinds of noise are learnt. Longer is calmer and adapts later."""

    baseline_memory_s: float = 1800.0
    """Time constant of the baseline. Drifts slower than this are followed, faster ones are named."""
    step_rate: float = 0.10
    """Smallest step down, as a difference of hit rates, that can read `degraded`."""
    step_share: float = 0.15
    """The same as a share of the baseline; the larger of the two counts."""
    step_scatters: float = 5.0
    """A step must also exceed this many times the learnt scatter."""
    signalled_score: float = 2.5
    """What evictions, preemptions or fresh adapters since the onset count for in the score of a step down."""
    lasting_scrapes: int = 4
    """Scrapes with traffic that a step must last before it reads `degraded`."""
    lasting_s: float = 10.0
    """Seconds that a step must last before it reads `degraded`."""
    burst_factor: float = 4.0
    """Request rate over its usual value from which on traffic is a burst, where new prompts must miss first."""
    burst_lasting_s: float = 60.0
    """Seconds that a step must last in a burst, where no signal says that the cache itself suffers."""
    accept_after_s: float = 3600.0
    """When a lasting new level becomes the baseline without anybody accepting it."""

    collapse_share: float = 0.4
    """Share of the baseline below which a sudden fall reads `collapsed`."""
    reset_share: float = 0.6
    """The same where a reset is known; larger, since the scrape with the reset holds traffic from before it."""

    low_rate: float = 0.10
    """Hit rate that counts as almost nothing."""
    low_exit: float = 0.05
    """How far above `low_rate` the rate must be proven before `low` is left."""
    low_after_requests: float = 200.0
    """Requests since the last cut after which a cache should have warmed."""
    low_after_s: float = 300.0
    """Seconds of traffic since the last cut after which a cache should have warmed."""
    ceiling: float | None = None
    """Hit rate of an unlimited cache on this traffic, where it is known."""
    ceiling_share: float = 0.5
    """Share of the ceiling below which a flat rate reads `low`."""

    flat_scrapes: int = 6
    """Fewest scrapes with traffic that can prove a flat curve."""
    flat_rise: float = 0.06
    """Rise that may still be to come on a flat curve."""
    flat_doubt: float = 0.2
    """Probability that it has still more than `flat_rise` to climb, below which a curve is flat."""
    climb_doubt: float = 0.8
    """The same, above which a curve that was called flat climbs on after all."""
    stuck_doubt: float = 0.05
    """Probability that a curve climbs back to the level it fell from, below which it is stuck: `degraded`."""
    flat_requests: float = 24.0
    """Effective requests that can prove a flat curve."""

    swing_rate: float = 0.15
    """Smallest swing, as a difference of hit rates, that counts towards `oscillating`."""
    swing_scatters: float = 4.0
    """A swing must also exceed this many times the scatter between neighbouring scrapes."""
    swing_score: float = 1.0
    """Log-likelihood ratio, on top of the logarithm of the requests within the window, that proves a turn."""
    swing_turns: int = 5
    """Turns (from falling to rising or back) that make a curve oscillate: the third fall, with 5."""
    swing_turns_signalled: int = 3
    """The same where evictions, preemptions or fresh adapters say that blocks are lost: the second fall, with
    3."""
    swing_window_s: float = 1800.0
    """Time within which they must happen; slower swings are drift."""
    swing_window_scrapes: int = 60
    """Scrapes with traffic within which they may happen instead, where scrapes are rare."""
    swing_after_scrapes: int = 12
    """Scrapes with traffic from which the noise between neighbours is learnt before swings are believed."""

    idle_after_s: float = 300.0
    """Silence that always reads `no_traffic`, however rare requests are."""
    idle_gaps: float = 3.0
    """Silence, in units of the longest usual gap between lookups, that reads `no_traffic`."""
    return_after_s: float = 600.0
    """Idle time after which returning traffic may first miss without an alarm: it has to warm what is new."""
    stalled_scrapes: int = 2
    """Scrapes in a row with waiting requests and unmoved counters that read `stalled`."""
    stalled_after_s: float = 10.0
    """Seconds that the counters must have stood still, too; long outputs hold a queue for a while."""

    def __post_init__(self) -> None:
        shares = ("step_rate", "step_share", "collapse_share", "reset_share", "low_rate", "ceiling_share")
        for name in (*shares, "flat_rise", "flat_doubt", "climb_doubt", "stuck_doubt", "swing_rate"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"{name} must lie between 0 and 1, not {getattr(self, name)}")
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not value >= 0.0:
                raise ValueError(f"{name} must not be negative, not {value}")
        for name in ("false_alarms_per_day", "tokens_per_request", "prior_request_noise", "baseline_memory_s"):
            if getattr(self, name) == 0.0:
                raise ValueError(f"{name} must be above 0")
        for name in ("noise_memory_scrapes", "lasting_scrapes", "flat_scrapes", "swing_turns", "stalled_scrapes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.ceiling is not None and not 0.0 < self.ceiling <= 1.0:
            raise ValueError(f"ceiling must lie between 0 and 1, not {self.ceiling}")
