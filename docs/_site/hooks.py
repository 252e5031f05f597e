"""Pages that are written from the code when the site is built, and links to files outside ``docs``."""

import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

sys.path.insert(0, str(Path(__file__).parent))

from architecture import architecture_page
from reference import configuration_page, states_page

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = re.compile(r"\]\((?P<up>(?:\.\./)+)(?P<path>[\w./-]+)(?P<anchor>#[\w-]+)?\)")
CHINESE = "[\u3000-\u9fff\uff00-\uffef]"
WRAPPED = re.compile(f"(?<={CHINESE})\n(?={CHINESE})")
"""A line break within a Chinese paragraph, which a browser would show as a space."""
COPIES = "repository"
CONSOLE = re.compile(r"^( *)```console\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^( *)\$ ", re.MULTILINE)
STYLE = "assets/site.css"
WIDE = ".md-grid { max-width: 76rem; }\n"
"""A line of a code block has 110 columns, as in the sources."""
WAYS_ON = {
    "runbooks/": "[All runbooks](README.md) · [why a rate falls](../why-a-rate-falls.md)",
    "scenarios/": "[All scenarios](README.md) · [how a run goes](../chaos.md)",
}
WIDTH = 80
"""Columns of the help texts, which are as many as a page shows without a bar to scroll."""
BESIDE = {"load": ("compare", "overhead")}
"""Programs beside a command that its own help does not list."""


def on_config(config: MkDocsConfig) -> None:
    """The style of the site beside the theme's."""
    config.extra_css.append(STYLE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and list runbooks and scenarios without naming each in mkdocs.yml."""
    for uri, text in (
        (STYLE, WIDE),
        ("reference/cli.md", cli_page()),
        ("reference/configuration.md", configuration_page(ROOT)),
        ("reference/states.md", states_page()),
        ("reference/architecture.md", architecture_page(ROOT)),
    ):
        files.append(File.generated(config, uri, content=text))
    for file in files.documentation_pages():
        if file.src_uri.startswith(("runbooks/", "scenarios/")) and not file.src_uri.endswith("README.md"):
            file.inclusion = InclusionLevel.NOT_IN_NAV
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Links that leave ``docs`` lead to a copy of the file in the site; Chinese lines are joined; no prompts."""

    def inside(link: re.Match[str]) -> str:
        folder = PurePosixPath(page.file.src_uri).parent
        target = Path(os.path.normpath(ROOT / "docs" / folder / link["up"] / link["path"]))
        if target.is_relative_to(ROOT / "docs") or not target.is_file():
            return link[0]
        uri = f"{COPIES}/{target.relative_to(ROOT).as_posix()}.txt"
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, content=target.read_text(encoding="utf-8")))
        return f"]({os.path.relpath(uri, folder)})"

    text = CONSOLE.sub(_without_prompts, OUTSIDE.sub(inside, markdown))
    return WRAPPED.sub("", text) + _way_on(page.file.src_uri)


def _without_prompts(block: re.Match[str]) -> str:
    """Where a block holds commands alone, what its copy button copies can be run as it is."""
    lines = [line for line in block[2].splitlines() if line.strip()]
    if not all(PROMPT.match(line) for line in lines):
        return block[0]
    return block[0].replace(block[2], PROMPT.sub(r"\1", block[2]))


def _way_on(uri: str) -> str:
    """What pages that are in no menu end with."""
    for folder, rest in WAYS_ON.items():
        if uri.startswith(folder) and not uri.endswith("README.md"):
            return f"\n\n---\n\n{rest}\n"
    return ""


def cli_page() -> str:
    """``--help`` of every command and of the commands below it."""
    from hitcurve.commands import COMMANDS

    parts = ["# Commands", "", "What `--help` of every command says.", "", "```", help_of().rstrip(), "```", ""]
    for name in COMMANDS:
        text = help_of(name)
        parts += [f"## hitcurve {name}", "", "```", text.rstrip(), "```", ""]
        listed = re.findall(r"^  (\w[\w-]*)\s{2,}", text.partition("\nCommands:\n")[2], re.MULTILINE)
        for below in (*listed, *BESIDE.get(name, ())):
            parts += [f"### hitcurve {name} {below}", "", "```", help_of(name, below).rstrip(), "```", ""]
    return "\n".join(parts)


def help_of(*words: str) -> str:
    """The help text, as wide as a page and without colours."""
    environment = {**os.environ, "COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "hitcurve", *words, "--help"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return "\n".join(line.rstrip() for line in ended.stdout.splitlines())
