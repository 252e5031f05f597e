"""Locust users that send a profile's traffic. All users of a profile in one process share its chats and groups."""

import random
from typing import Any

import gevent
from locust import User, tag, task
from locust.exception import StopUser

from hitcurve_loadtests.locust_mode.running_test import RunningTest
from hitcurve_loadtests.profiles.catalogue import find_profile

__all__ = ["user_of"]

_WAIT_FOR_REPLIES_S = 0.01


def user_of(profile: str, *tags: str) -> type[User]:
    """A User class for ``locust`` that sends the named profile; its task carries the tags and that name."""
    find_profile(profile)

    class ProfileUser(User):  # type: ignore[misc]  # Locust is not typed.
        abstract = False

        @tag(profile, *tags)  # type: ignore[untyped-decorator]
        @task  # type: ignore[untyped-decorator]
        def send(self) -> None:
            running: RunningTest = self.environment.hitcurve
            if running.all_sent:
                raise StopUser
            prompt = running.next_prompt(profile)
            if prompt is None:
                gevent.sleep(_WAIT_FOR_REPLIES_S)
            else:
                running.send(profile, prompt)

        def wait_time(self) -> float:
            mean_s: float = self.environment.parsed_options.think_time
            return random.expovariate(1 / mean_s) if mean_s > 0 else 0.0

    made: Any = ProfileUser
    # Locust tells classes apart by this name: rag-shuffled becomes RagShuffled.
    made.__name__ = "".join(part.capitalize() for part in profile.split("-"))
    made.profile, made.tags = profile, {profile, *tags}
    made.__doc__ = find_profile(profile).title
    return made  # type: ignore[no-any-return]
