"""Addresses as people write them."""

import pytest

from hitcurve.address import base_address
from hitcurve.errors import UsageError


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("h:8000", "http://h:8000"),
        ("http://h:8000/metrics/", "http://h:8000"),
        ("https://h/behind/metrics", "https://h/behind"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://münchen.example", "http://münchen.example"),
        ("http://h/at@path", "http://h/at@path"),
    ],
)
def test_addresses_are_brought_to_one_form(written: str, base: str) -> None:
    assert base_address(written) == base


@pytest.mark.parametrize(
    "written",
    ["", " ", "ftp://h", "http://", "h:0", "h:99999", "http://[::1", "http://a..b", f"http://{'a' * 64}.x", "http://h/ü",
     "http://h/a b", "http://h/?token=x", "http://h/#x"],
)  # fmt: skip
def test_what_nobody_can_ask_is_refused(written: str) -> None:
    with pytest.raises(UsageError, match="is not an address; write http://HOST:PORT"):
        base_address(written)


@pytest.mark.parametrize(
    "written", ["http://me:hunter2@h", "hunter2@h:1", "http://me:hunter2@h:x/", "http://me:h@nter2@h"]
)
def test_a_password_is_refused_and_not_shown(written: str) -> None:
    with pytest.raises(UsageError) as refusal:
        base_address(written)
    assert str(refusal.value) == "an address holds a user name or password; write http://HOST:PORT without them."
