"""The target file: what it may say, and how a mistake in it is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from hitcurve.errors import UsageError
from hitcurve_chaos.targets import (
    Adapter,
    AdminAccess,
    Target,
    choose_target,
    describe,
    described,
    load_targets,
    require_allowed,
)

GOOD = """\
targets:
  - name: local
    engine: http://127.0.0.1:8000/v1/
    model: m
    exporter: http://127.0.0.1:9401/
    admin: {reset_path: /flush_cache, api_key_env: KEY}
    load: {profile: shared-system-prompt, rate: 5, groups: 4}
    adapters:
      - {name: a, path: /adapters/a}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "targets.yaml"
    path.write_text(text)
    return path


def test_a_target_is_read_whole(tmp_path: Path) -> None:
    assert load_targets(written(tmp_path, GOOD)) == [
        Target(
            name="local",
            engine="http://127.0.0.1:8000",
            model="m",
            exporter="http://127.0.0.1:9401",
            admin=AdminAccess(reset_path="/flush_cache", api_key_env="KEY"),
            load={"profile": "shared-system-prompt", "rate": 5, "groups": 4},
            adapters=[Adapter("a", "/adapters/a")],
        )
    ]


def test_the_example_is_a_good_target_file(repository: Path) -> None:
    assert [target.name for target in load_targets(repository / "chaos" / "targets.example.yaml")] == [
        "local",
        "staging",
        "own",
        "container",
        "process",
    ]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "the file is empty"),
        ("targets: [", 1, "not YAML"),
        ("- a\n", 1, "the file is not a mapping"),
        ("other: 1\n", 1, "other is not a known key; the keys here are targets"),
        ("targets: []\n", 1, "targets is empty; list at least one target"),
        (GOOD.replace("    model: m\n", ""), 2, "targets[0] has no 'model'; add 'model: …' to it"),
        (GOOD.replace("model: m", "model: 3"), 4, "targets[0].model is not a text"),
        (GOOD.replace("model: m", "modle: m"), 4, "targets[0].modle is not a known key"),
        (GOOD.replace("    model: m\n", "    model: m\n    model: n\n"), 5, "targets[0].model stands there twice"),
        (GOOD.replace("http://127.0.0.1:8000/v1/", "localhost:8000"), 3, "targets[0].engine is not a URL"),
        (GOOD.replace("127.0.0.1:8000", "a host:8000"), 3, "targets[0].engine is not a URL"),
        (GOOD.replace("127.0.0.1:8000", "me:secret@127.0.0.1"), 3, "holds a password; put the key into HITCURVE_"),
        (GOOD.replace("/flush_cache", "flush_cache"), 6, "admin.reset_path does not begin with '/'"),
        (GOOD.replace("profile: shared-system-prompt, ", ""), 7, "load must have a 'profile' or a 'trace'"),
        (GOOD.replace("rate: 5", "ratte: 5"), 7, "targets[0].load.ratte is not an option of 'hitcurve load'; the"),
        (
            GOOD.replace("rate: 5", "rate: ten"),
            7,
            "load.rate is refused by 'hitcurve load' (Invalid value for '--rate'",
        ),
        (GOOD.replace("rate: 5", "rate: .nan"), 7, "targets[0].load.rate is nan; give a finite number"),
        (GOOD.replace("rate: 5", "rate: [5, 6]"), 7, "targets[0].load.rate is a list; give one value"),
        (GOOD.replace("rate: 5", "rate: {a: 5}"), 7, "targets[0].load.rate is no plain value"),
        (GOOD.replace("rate: 5", "rate: 0"), 7, "--rate is 0; it must be above zero"),
        (GOOD.replace("rate: 5", "rate: 5, users: 5"), 7, "--rate (open loop) and --users (closed loop) exclude"),
        (
            GOOD.replace("rate: 5", "host: 'http://h'"),
            7,
            "load.host cannot be set here; take it out: it is the target",
        ),
        (
            GOOD.replace("rate: 5", "out: there"),
            7,
            "load.out cannot be set here; take it out: it is the run folder",
        ),
        (GOOD.replace("rate: 5", "api_key: secret"), 7, "take it out: keys stay in the environment variable"),
        (GOOD.replace("rate: 5", "as_json: true"), 7, "load.as_json is not an option"),
        (GOOD.replace("shared-system-prompt", "nope"), 7, "there is no load profile 'nope'"),
        (
            GOOD.replace("{profile: shared-system-prompt, rate: 5, groups: 4}", "5"),
            7,
            "load is not a mapping; write",
        ),
        (GOOD.replace("model: m", "model: 2026-13-45"), 4, "'2026-13-45' is not a value"),
        ("[" * 9999, 1, "nested too deep"),
        (GOOD + "    allow_chaos: maybe\n", 10, "allow_chaos is 'maybe'; write true or false"),
        (GOOD + "  - {name: local, engine: 'http://h', model: m}\n", 10, "is called 'local' like another target"),
        (GOOD.replace(", path: /adapters/a", ""), 9, "adapters[0] has no 'path'"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_its_cure(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as told:
        load_targets(path)
    assert str(told.value).startswith(f"{path}:{line}: ")
    assert says in str(told.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    with pytest.raises(UsageError) as told:
        load_targets(path)
    assert str(told.value) == f"{path} cannot be read (No such file or directory); name a YAML file."


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "targets.yaml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"cannot be read .it is not UTF-8 text.; name a YAML file"):
        load_targets(path)


def test_a_load_may_name_models_and_switch_options_off(tmp_path: Path) -> None:
    (target,) = load_targets(written(tmp_path, GOOD.replace("groups: 4", "model: [a, b], ignore_eos: false")))
    assert target.load == {
        "profile": "shared-system-prompt",
        "rate": 5,
        "model": ["a", "b"],
        "ignore_eos": False,
    }


@pytest.mark.parametrize(
    ("engine", "admin", "allow", "refused"),
    [
        ("http://127.0.0.1:1", None, False, False),
        ("http://127.9.9.9:1", None, False, False),
        ("http://[::1]:1", None, False, False),
        ("http://localhost:1", None, False, False),
        ("http://10.0.0.1:1", None, False, True),
        ("http://0.0.0.0:1", None, False, True),
        ("http://localhost.example.org:1", None, False, True),
        ("http://127.0.0.1:1", "http://engine.example.org", False, True),
        ("http://10.0.0.1:1", None, True, False),
    ],
)
def test_engines_elsewhere_need_allow_chaos(engine: str, admin: str | None, allow: bool, refused: bool) -> None:
    target = Target("t", engine, "m", allow_chaos=allow, admin=AdminAccess(url=admin))
    if refused:
        with pytest.raises(UsageError, match="add 'allow_chaos: true' to it"):
            require_allowed(target)
    else:
        require_allowed(target)


def test_the_mark_of_one_engine_is_no_leave_for_its_replicas() -> None:
    elsewhere = Target("other", "http://10.0.0.2:1", "m")
    with pytest.raises(UsageError, match=r"target 'other' is at http://10\.0\.0\.2:1, which is not this machine"):
        require_allowed(Target("t", "http://10.0.0.1:1", "m", allow_chaos=True, replicas=[elsewhere]))
    marked = replace(elsewhere, allow_chaos=True)
    require_allowed(Target("t", "http://127.0.0.1:1", "m", replicas=[marked]))


@pytest.mark.parametrize(
    ("reset_path", "plain", "preempting"),
    [
        ("/reset", "http://a/reset", "http://a/reset?reset_running_requests=true"),
        (
            "/reset?reset_external=true",
            "http://a/reset?reset_external=true",
            "http://a/reset?reset_external=true&reset_running_requests=true",
        ),
    ],
)
def test_a_reset_that_preempts_keeps_the_query_of_its_path(reset_path: str, plain: str, preempting: str) -> None:
    target = Target("t", "http://h", "m", admin=AdminAccess(url="http://a", reset_path=reset_path))
    assert (target.reset_url(), target.reset_url(preempt=True)) == (plain, preempting)


def test_one_of_several_targets_must_be_chosen() -> None:
    one, two = Target("one", "http://h", "m"), Target("two", "http://h", "m")
    assert choose_target([one], None) is one
    assert choose_target([one, two], "two") is two
    with pytest.raises(UsageError, match=r"several targets \(one, two\)"):
        choose_target([one, two], None)
    with pytest.raises(UsageError, match="no target 'three' in the target file; its targets are one, two"):
        choose_target([one, two], "three")


def test_what_the_journal_keeps_of_a_target_is_enough_and_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMIN_KEY", "very-secret")
    target = Target("t", "http://10.0.0.1", "m", allow_chaos=True, admin=AdminAccess(api_key_env="ADMIN_KEY"))
    assert described(describe(target)) == target
    assert "very-secret" not in str(describe(target))
    assert target.admin_headers() == {"Authorization": "Bearer very-secret"}
    monkeypatch.delenv("ADMIN_KEY")
    with pytest.raises(UsageError, match="the environment variable ADMIN_KEY is not set"):
        target.admin_headers()


def test_a_target_names_the_collector_that_may_be_stood_in_for(tmp_path: Path) -> None:
    (target,) = load_targets(written(tmp_path, GOOD + "    collector: http://127.0.0.1:4318/\n"))
    assert target.collector == "http://127.0.0.1:4318"
    own = "targets:\n  - name: own\n    start: {patched: true}\n"
    (target,) = load_targets(written(tmp_path, own))
    assert target.start is not None
    assert target.start.patched
    with pytest.raises(UsageError, match=r"targets\[0\]\.collector cannot stand beside 'start'"):
        load_targets(written(tmp_path, own + "    collector: http://127.0.0.1:4318\n"))
    with pytest.raises(UsageError, match=r"targets\[0\]\.start\.patched is 'often'"):
        load_targets(written(tmp_path, own.replace("true", "often")))
