"""How many users when: named behind the locustfile, ``-f loadtests/locustfile.py,loadtests/locust_shapes.py``.

``-u`` is the full number of users, ``-t`` the time of the whole test (10 minutes unless given).
"""

from locust import LoadTestShape

DEFAULT_S = 600.0


class ColdWarmSteady(LoadTestShape):  # type: ignore[misc]  # Locust is not typed.
    """One user on a cold cache, a ramp while it warms, then all users on a warm one: a tenth, three, the rest."""

    use_common_options = True

    def tick(self) -> tuple[int, float] | None:
        options = self.runner.environment.parsed_options
        users, total_s = options.num_users or 1, options.run_time or DEFAULT_S
        share = self.get_run_time() / total_s
        if share >= 1:
            return None
        if share < 0.1:
            return 1, 1.0
        ramp = min((share - 0.1) / 0.3, 1.0)
        return max(round(users * ramp), 1), float(users)
