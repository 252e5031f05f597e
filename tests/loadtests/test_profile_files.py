"""Profiles as YAML files: what is wrong is told with file and line, sizes can be replaced."""

from pathlib import Path

import pytest

from hitcurve.errors import UsageError
from hitcurve_loadtests.profiles.catalogue import find_profile, profile_names, profile_titles
from hitcurve_loadtests.profiles.spec import read_profile
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.draws import Length

GOOD = """\
title: mine
kind: documents
sizes:
  documents: 10
  suffix_tokens: [20, 40]
  order: shuffled
adapters: {count: 2, zipf: 1.0}
"""


def test_a_file_of_ones_own_is_a_profile(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD)
    spec = find_profile(str(tmp_path / "mine.yaml"))
    assert (spec.name, spec.title, spec.api, spec.sizes.suffix_tokens) == (
        *("mine", "mine", "completions"),
        Length(20, 40),
    )
    ranks = set()
    traffic = spec.make(Texts(1))
    for _ in range(50):
        prompt = traffic.next()
        assert prompt is not None
        ranks.add(prompt.model_rank)
    assert ranks == {0, 1}


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("kind: documents", "kind: papers", "2: kind is 'papers'; give one of shared-system-prompt, multi-turn,"),
        ("  documents: 10", "  documents: many", "4: sizes.documents is 'many'; give a whole number."),
        ("  documents: 10", "  documents: 0", "4: sizes.documents is 0; give a number above zero."),
        (
            "  documents: 10",
            "  papers: 10",
            "4: sizes.papers is not a known key; the keys here are prefix_tokens,",
        ),
        ("[20, 40]", "[40, 20]", "5: sizes.suffix_tokens is [40, 20]; give the smaller number first."),
        ("[20, 40]", "[1, 2, 3]", "5: sizes.suffix_tokens is [1, 2, 3]; give one number, or [least, most]."),
        ("shuffled", "random", "6: sizes.order is 'random'; give one of fixed, shuffled."),
        ("{count: 2, zipf: 1.0}", "{zipf: 1.0}", "7: adapters is not complete; give all of count, zipf, each."),
        ("title: mine", "about: mine", "1: the file has no 'title'; see loadtests/"),
        ("{count: 2, zipf: 1.0}", "{count: 2, zipf: .nan}", "7: adapters.zipf is nan; give a number that"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(before: str, after: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace(before, after))
    with pytest.raises(UsageError) as caught:
        read_profile(path)
    assert str(caught.value).startswith(f"{path}:{complaint}")


def test_every_profile_says_what_it_is_and_what_to_expect() -> None:
    assert len(profile_names()) >= 20
    assert profile_titles().keys() == set(profile_names())
    for name in profile_names():
        spec = find_profile(name)
        assert spec.title == profile_titles()[name]
        assert len(spec.about) > 40
        assert spec.expected is not None


def test_sizes_can_be_replaced_and_unknown_ones_are_named() -> None:
    spec = find_profile("rag-shuffled").with_sizes({"documents": 7, "suffix_tokens": [1, 5]})
    assert (spec.sizes.documents, spec.sizes.order, spec.sizes.suffix_tokens) == (7, "shuffled", Length(1, 5))
    with pytest.raises(UsageError) as caught:
        find_profile("unique").with_sizes({"turns": 3})
    assert str(caught.value) == (
        "the profile 'unique' has no turns (--turns); its sizes are prefix_tokens, suffix_tokens, output_tokens."
    )
    with pytest.raises(UsageError, match=r"^--groups is 2.5; give a whole number.$"):
        find_profile("multi-turn").with_sizes({"groups": 2.5})


def test_the_documentation_lists_every_profile_as_its_file_has_it(repository: Path) -> None:
    page = (repository / "docs" / "loadtests.md").read_text(encoding="utf-8")
    for name in profile_names():
        spec = find_profile(name)
        assert spec.expected is not None
        shared, ceiling = 100 * spec.expected.shared, 100 * spec.expected.ceiling
        assert f"| `{name}` | {spec.title} | {shared:.1f} % | {ceiling:.1f} %" in page
