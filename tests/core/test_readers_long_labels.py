"""Label values of any length, where a page comes from somebody who is not trusted."""

from hypothesis import given
from hypothesis import strategies as st

from hitcurve.flags import LONG_LABEL
from hitcurve.readers import read_page
from hitcurve.readers.exposition import Page, Series
from hitcurve.readers.long_labels import LONGEST_LABEL, with_short_labels
from hitcurve.sample import EngineSample


def page(*models: str) -> str:
    return "".join(
        f'vllm:prefix_cache_{name}_total{{engine="0",model_name="{model}"}} {10 * number}\n'
        for number, model in enumerate(models, 1)
        for name in ("queries", "hits")
    )


def read(text: str) -> tuple[EngineSample, ...]:
    return read_page(text, "text/plain", at_s=1.0, monotonic_s=1.0)


def test_a_long_name_is_cut_with_a_flag_and_two_of_them_stay_two() -> None:
    long = "m" * 100_000
    samples = read(page(long + "a", long + "b", "short"))
    assert [sample.lookups.queries for sample in samples if sample.lookups] == [10, 20, 30]
    names = [sample.labels["model_name"] for sample in samples]
    assert len(set(names)) == 3
    assert [len(name) for name in names] == [LONGEST_LABEL, LONGEST_LABEL, 5]
    assert [len(sample.engine) <= LONGEST_LABEL for sample in samples] == [True] * 3
    assert all(LONG_LABEL in sample.flags for sample in samples)
    assert [sample.labels for sample in read(page(long + "a", long + "b", "short"))] == [
        sample.labels for sample in samples
    ]


def test_a_name_of_the_longest_length_stays_as_it_is() -> None:
    (sample,) = read(page("m" * LONGEST_LABEL))
    assert (sample.labels["model_name"], sample.flags) == ("m" * LONGEST_LABEL, ())


def test_a_long_list_of_adapters_is_whole() -> None:
    adapters = ",".join(f"adapter-{number}" for number in range(1000))
    lines = f'vllm:lora_requests_info{{running_lora_adapters="{adapters}",waiting_lora_adapters=""}} 1700000000\n'
    (sample,) = read(page("m" * 300) + lines)
    assert sample.adapters is not None
    assert len(sample.adapters.running) == 1000


@given(st.lists(st.text(max_size=LONGEST_LABEL + 20), unique=True, max_size=6))
def test_different_values_stay_different_and_bounded(values: list[str]) -> None:
    series = tuple(Series("a", {"b": value}, 1.0) for value in values)
    short, cut = with_short_labels(Page({"a": series}, {}, frozenset()))
    found = [one.labels["b"] for one in short.series["a"]]
    assert len(set(found)) == len(values)
    assert all(len(value) <= LONGEST_LABEL for value in found)
    assert cut == any(len(value) > LONGEST_LABEL for value in values)
