"""The fingerprint of what block hashes begin with."""

import hashlib
import sys
from types import ModuleType

import pytest

from hitcurve_engine.probes.adoption import hash_root_fingerprint

ROOT = bytes(range(32))


@pytest.mark.parametrize(
    ("root", "fingerprint"),
    [
        (ROOT, hashlib.sha256(ROOT).hexdigest()[:8]),
        (-5, hashlib.sha256((-5).to_bytes(16, "big", signed=True)).hexdigest()[:8]),
        (1 << 255, hashlib.sha256((1 << 255).to_bytes(33, "big")).hexdigest()[:8]),
        (None, None),
        ("text", None),
    ],
)
def test_of_what_vllm_keeps(monkeypatch: pytest.MonkeyPatch, root: object, fingerprint: str | None) -> None:
    module = ModuleType("kv_cache_utils")
    module.NONE_HASH = root  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm.v1.core.kv_cache_utils", module)
    assert hash_root_fingerprint() == fingerprint


def test_without_vllm_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "vllm.v1.core.kv_cache_utils", raising=False)
    assert hash_root_fingerprint() is None
