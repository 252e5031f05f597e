"""``hitcurve estimate`` from the command line: forms of output, options, many files, errors in one sentence."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitcurve.cli import main

Run = Callable[..., tuple[int, str, str]]

ROWS = [
    {"hash_ids": [1, 2, 3], "input_length": 1400, "timestamp": 0},
    {"hash_ids": [1, 2, 4], "input_length": 1400, "timestamp": 1000},
    {"hash_ids": [9], "input_length": 512, "timestamp": 2000},
    {"hash_ids": [1, 2, 3], "input_length": 1400, "timestamp": 3000},
]
CONFIG = {
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 512,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, standard output, standard error of one call."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_:
            main(["estimate", *map(str, arguments)])
        printed = capsys.readouterr()
        return int(exit_.value.code or 0), printed.out, printed.err

    return call


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return written(tmp_path / "trace.jsonl", ROWS)


def written(file: Path, rows: list[Any]) -> Path:
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


def answer(run: Run, *arguments: object) -> dict[str, Any]:
    code, out, err = run(*arguments, "--json")
    assert code == 0, err
    values: dict[str, Any] = json.loads(out)
    return values


def test_the_whole_answer_of_a_small_trace(run: Run, trace: Path) -> None:
    values = answer(run, trace, "--pool-blocks", 3, "--pool-blocks", 4)
    # Row 2 finds two blocks; row 4 too, and in an unlimited pool all of its 1,400 tokens.
    assert values["ceiling"]["token"] == pytest.approx((1024 + 1400) / 4712)
    assert values["ceiling"]["block"] == pytest.approx(5 / 10)
    assert values["ceiling"]["engine_like"]["token"] == pytest.approx(2048 / 4712)
    assert values["ceiling"]["engine_like"]["block"] == pytest.approx(4 / 7)
    # Distances at row 4: 1 and 2 lie behind 9 (2nd and 3rd of the list), 3 behind 9, 1, 2, 4.
    assert values["curve"] == [
        {
            "pool_blocks": pool,
            "pool_tokens": pool * 512,
            "hit_rate": pytest.approx(2048 / 4712),
            "block_hit_rate": pytest.approx(4 / 10),
            "engine_like_hit_rate": pytest.approx(2048 / 4712),
            "speed_up": pytest.approx(4712 / (4712 - 2048)),
            "requests_larger_than_pool": 0,
        }
        for pool in (3, 4)
    ]
    assert values["shares"][-1] == {
        "pool_blocks": None,
        "hit": 2048,
        "compulsory": 1024,
        "capacity": 0,
        "isolated": 0,
        "tail": 3 * 376 + 512,
    }
    assert values["pool_for_share_of_ceiling"][-1] == {
        "share": 1.0,
        "pool_blocks": 5,
        "engine_like_pool_blocks": 3,
    }
    counts = ("requests", "query_tokens", "query_blocks", "distinct_blocks", "block_size", "skipped_rows")
    assert [values[name] for name in counts] == [4, 4712, 10, 5, 512, 0]


def test_without_pools_a_grid_and_with_all_sizes_every_bend(run: Run, trace: Path) -> None:
    assert [point["pool_blocks"] for point in answer(run, trace)["curve"]] == [1, 2, 5]
    every = answer(run, trace, "--all-sizes")["curve"]
    # 1: first hits, from 3 on all of the engine's, 5: the partial block too.
    assert [point["pool_blocks"] for point in every][-1] == 5
    assert {3, 4, 5} <= {point["pool_blocks"] for point in every}


def test_tables_name_both_definitions(run: Run, trace: Path) -> None:
    code, out, _ = run(trace, "--replicas", 2, "--block-sizes", "512,1024", "--split", "session")
    said = " ".join(out.split())
    assert code == 0
    for words in (
        "all blocks: every block of a prompt counts",
        "engine-like: only full blocks are found",
        "Hit rate against pool size",
        "Where the prompt tokens go",
        "Block size",
        "By session, in the common pool",
        "round-robin",
        "first order, of prefill work only",
    ):
        assert words in said


def test_the_page_is_one_file_with_the_present_pool_marked(run: Run, trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "curve.html"
    assert run(trace, "--pool-blocks", 3, "--html", page)[0] == 0
    html = page.read_text()
    assert "present pool 3 blocks, 43.46%" in html
    assert html.count('class="line ') == 2
    assert not re.search(r'(src|href)="', html)
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".html"] == ["curve.html"]


def test_names_of_files_cannot_break_out_of_the_page(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path / "<b>x.jsonl", ROWS)
    assert run(file, "--html", tmp_path / "page.html")[0] == 0
    assert "<b>" not in (tmp_path / "page.html").read_text()


def test_pools_in_gib_of_a_model(run: Run, trace: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    values = answer(run, trace, "--model-config", config, "--pool-gib", 0.01)
    # 2 x 4 layers x 2 heads x 64 x 2 bytes = 2,048 bytes a token, 1 MiB a block of 512.
    assert values["model"]["kv_bytes_per_token"] == 2048
    assert [(point["pool_blocks"], point["pool_gib"]) for point in values["curve"]] == [(10, 10 / 1024)]
    assert (
        answer(run, trace, "--model-config", tmp_path, "--kv-type", "fp8")["model"]["kv_bytes_per_token"] == 1024
    )


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({**CONFIG, "head_dim": 128}, 4096),
        ({**CONFIG, "torch_dtype": None, "dtype": "torch.float16"}, 2048),
        ({"text_config": CONFIG, "torch_dtype": "float32"}, 2048),
        ({"n_layer": 2, "n_head": 4, "n_embd": 64, "torch_dtype": "float32"}, 2 * 2 * 64 * 4),
        ({"n_layer": 2, "n_head": 4, "n_embd": 64, "multi_query": True, "dtype": "float32"}, 2 * 2 * 16 * 4),
        ({**CONFIG, "kv_lora_rank": 512, "qk_rope_head_dim": 64}, 4 * 576 * 2),
        ({**CONFIG, "layer_types": ["full_attention", "sliding_attention"] * 2}, 1024),
    ],
)
def test_bytes_of_kv_cache_a_token(
    run: Run, trace: Path, tmp_path: Path, config: dict[str, Any], size: int
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    model = answer(run, trace, "--model-config", file)["model"]
    assert model["kv_bytes_per_token"] == size
    assert bool(model["notes"]) == ("layer_types" in config)


def test_files_are_merged_by_time_and_keep_their_ids_apart(run: Run, tmp_path: Path) -> None:
    first = written(tmp_path / "a.jsonl", ROWS)
    second = tmp_path / "b.jsonl.gz"
    second.write_bytes(gzip.compress("\n".join(map(json.dumps, ROWS)).encode()))
    apart, shared = answer(run, first, second), answer(run, first, second, "--ids", "shared")
    assert apart["ceiling"]["block"] == pytest.approx(10 / 20)
    assert shared["ceiling"]["block"] == pytest.approx(15 / 20)
    assert any("--ids shared" in note for note in apart["notes"])
    assert any("merged by timestamp" in note for note in shared["notes"])
    assert answer(run, tmp_path)["ceiling"] == apart["ceiling"]
    later = answer(run, first, second, "--ids", "shared", "--start-every", 60, "--pool-blocks", 4)
    # By hand, with four of five blocks: 0, 2, 0, 2 in the first file, 3, 2, 0, 2 in the second.
    assert later["curve"][0]["block_hit_rate"] == pytest.approx(11 / 20)


def test_every_skipped_row_has_its_file(run: Run, tmp_path: Path) -> None:
    first = written(tmp_path / "a.jsonl", [*ROWS, {"hash_ids": [1.5]}])
    second = written(tmp_path / "b.jsonl", [{"input_length": 0, "hash_ids": []}, *ROWS])
    values = answer(run, first, second)
    assert values["skipped_rows"] == 2
    assert [(Path(found["file"]).name, found["line"], found["reason"]) for found in values["rejected"]] == [
        ("a.jsonl", 5, "hash id 1 is neither a whole number nor a string"),
        ("b.jsonl", 1, "empty prompt"),
    ]
    _, out, _ = run(first, second)
    assert "2 rows skipped" in out


def test_text_shows_where_reuse_breaks(run: Run, tmp_path: Path) -> None:
    rules = "Answer in one sentence and cite the page of the manual. " * 8
    words = ("rivers", "mountains", "cities", "deserts")
    rows = [
        {
            "messages": [
                {"role": "system", "content": f"Now: 2026-11-{place + 10}T08:0{place}:00Z. {rules}"},
                {"role": "user", "content": word},
            ],
            "user": "atlas",
        }
        for place, word in enumerate(words)
    ]
    file = written(tmp_path / "chats.jsonl", rows)
    (found,) = answer(run, file)["breaks"]
    assert (found["group"], found["cause"], found["requests"], found["of_requests"]) == (
        "atlas",
        "timestamp",
        3,
        4,
    )
    assert found["gain"] == pytest.approx(found["ceiling_after"] - found["ceiling_before"])
    assert found["gain"] > 0.5
    assert "breaks" not in answer(run, file, "--no-breaks")
    assert (found["pool_blocks"], found["hit_rate_before"], found["gain_in_pool"]) == (None, None, None)
    said = " ".join(run(file)[1].split())
    assert "atlas: 3 of 4 prompts stop to agree with earlier ones at token" in said
    assert f"(+{100 * found['gain']:.2f} points)" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["missing.jsonl"], "there is no file 'missing.jsonl'"),
        (["{trace}", "--pool-gib", "1"], "give --model-config"),
        (["{trace}", "--block-sizes", "512,x"], "--block-sizes has 'x'"),
        (["{trace}", "--block-sizes", "768"], "give only multiples of 512"),
        (["{trace}", "--block-sizes", "1024000000000"], "give at most 1000000000 tokens"),
        (["{trace}", "--block-size", "9" * 23], "Invalid value for '--block-size'"),
        (["{trace}", "--pool-blocks", "9" * 23], "Invalid value for '--pool-blocks'"),
        (["{trace}", "--pool-gib", "inf"], "Invalid value for '--pool-gib'"),
        (["{trace}", "--split", "colour"], "--split is 'colour'"),
        (["{trace}", "--breaks"], "--breaks needs text"),
        (["{trace}", "--tokenizer", "gpt"], "--tokenizer is 'gpt'"),
        (["{trace}", "--ids", "all"], "--ids is 'all'"),
        (["-", "-"], "standard input is named twice"),
        (["{trace}", "--model-config", "{trace}"], "; give the model's config.json."),
        (["{trace}", "--model-config", "/nowhere.json"], "directory; give the model's config.json."),
        (["{trace}", "--html", "/nowhere/page.html"], "cannot be written"),
        (["{empty}"], "holds no file"),
    ],
)
def test_wrong_usage_is_one_sentence(
    run: Run, trace: Path, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    words = [word.replace("{trace}", str(trace)).replace("{empty}", str(empty)) for word in arguments]
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_files_of_different_block_sizes_do_not_mix(run: Run, trace: Path, tmp_path: Path) -> None:
    chats = written(tmp_path / "bailian.jsonl", [{"chat_id": 1, "hash_ids": [1], "input_length": 16}])
    code, _, err = run(trace, chats)
    assert code == 2
    assert "differ in tokens per block (trace.jsonl has 512, bailian.jsonl has 16)" in err


@pytest.mark.parametrize(
    "config", [{"num_hidden_layers": 2, "torch_dtype": "bfloat16"}, {**CONFIG, "torch_dtype": "int3"}, []]
)
def test_a_configuration_that_lacks_a_number_says_which(
    run: Run, trace: Path, tmp_path: Path, config: object
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    code, _, err = run(trace, "--model-config", file)
    assert code == 2
    assert any(words in err for words in ("has no num_attention_heads", "is 'int3'", "holds no JSON object"))
