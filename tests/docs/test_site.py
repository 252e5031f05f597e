"""The site builds without a warning: links, anchors, a place for each page; every page leads on."""

import dataclasses
import html
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hitcurve.curve import CurveConfig
from hitcurve_engine import settings

ARTICLE = re.compile(r"<article.*?</article>|<footer.*?</footer>", re.DOTALL)
LINK = re.compile(r'href="([^"#?]+\.html)')
IMAGE = re.compile(r'<img[^>]*src="([^"]+)"')


def build(repository: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="mkdocs-material is not installed; pip install 'hitcurve[docs]'")
    folder = tmp_path_factory.mktemp("site")
    built = build(repository, folder)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


def test_every_page_leads_on_and_shows_its_pictures(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert {"index.html", "tutorial.html", "cli.html", "architecture.html"} <= {page.name for page in pages}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        beside = "".join(ARTICLE.findall(text))
        onward = {(page.parent / link).resolve() for link in LINK.findall(beside) if "://" not in link} - {page}
        assert onward, f"{page.relative_to(site)} leads nowhere"
        assert all(link.is_file() for link in onward), page
        images = [image for image in IMAGE.findall(beside) if not image.startswith("data:")]
        assert all((page.parent / image).is_file() for image in images), page


def test_generated_pages_hold_what_the_code_says(site: Path) -> None:
    cli = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    for command in ("hitcurve load overhead", "hitcurve chaos recover", "hitcurve dashboards annotate"):
        assert f"Usage: {command} [OPTIONS]" in cli, command
    configuration = (site / "reference" / "configuration.html").read_text(encoding="utf-8")
    for field in dataclasses.fields(CurveConfig):
        assert f"<code>{field.name}</code>" in configuration, field.name
    for variable in re.findall(r'"(HITCURVE_\w+)"', inspect.getsource(settings.read_settings)):
        assert variable in configuration, variable
    assert "max_engines_per_target: 256" in re.sub(r"<[^>]+>", "", configuration)


def test_chinese_lines_are_joined_without_a_space(site: Path) -> None:
    text = (site / "zh" / "tutorial.html").read_text(encoding="utf-8")
    wide = "[\u3000-\u9fff\uff00-\uffef]"
    assert len(re.findall(wide, text)) > 500
    assert re.findall(f".{{,9}}{wide}\n{wide}.{{,9}}", text) == []


def test_what_is_copied_from_a_block_of_commands_can_be_run(site: Path) -> None:
    text = (site / "tutorial.html").read_text(encoding="utf-8")
    blocks = [html.unescape(block) for block in re.findall(r"<code[^>]*>(.*?)</code></pre>", text, re.DOTALL)]
    assert "make venv\nexport PATH=$PWD/.venv/bin:$PATH\nhitcurve --help\n" in blocks
    assert not any(line.startswith("$ ") for block in blocks for line in block.splitlines())
    assert "assets/site.css" in text


def test_a_page_without_a_place_fails_the_build(repository: Path) -> None:
    """``--quiet`` would hide warnings from ``--strict`` as well, so it must stay away from ``make docs``."""
    recipe = (repository / "Makefile").read_text().partition("\ndocs:")[2].partition("\n\n")[0]
    (command,) = [line for line in recipe.splitlines() if "mkdocs build" in line]
    assert "--strict" in command
    assert not re.search(r"\s(-q|--quiet)\b", command)
    assert "omitted_files: warn" in (repository / "mkdocs.yml").read_text()
