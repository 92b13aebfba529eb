"""The site of the pages (`make site`): whole, readable without network, and refused where a page is not right."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What a browser loads by itself; a link it only follows.
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src")}


def build(out: Path, *root: Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, ROOT / ".ci/site", out, *root]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build(out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


class Page(HTMLParser):
    """What a page links to and loads, and the names in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.names: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Of each element."""
        for name, value in attrs:
            if name == "id" and value:
                self.names.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)
                if (tag, name) in LOADED:
                    self.loaded.add(value)


def test_every_link_leads_somewhere_and_nothing_is_loaded(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 70
    for path, page in pages.items():
        assert not [url for url in page.loaded if re.match(r"[a-z]+:|//", url)], path
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            file, _, name = unquote(link).partition("#")
            target = (path.parent / file).resolve() if file else path
            assert target.exists() or target == site, f"{path}: {link}"
            if name and target in pages:
                assert name in pages[target].names or name == "__skip", f"{path}: {link}"


def test_the_reference_has_the_package(site: Path) -> None:
    page = site / "docs/python-reference.html"
    assert {"vink.Lab", "vink.Lab.until", "vink.Machine.run", "vink.sweep"} <= Page(page).names
    assert "Starts a program, which goes on until it ends" in page.read_text()


def test_search_works_from_a_file(site: Path, tmp_path: Path) -> None:
    """The browser has no server, and no network: all names but this machine's are unknown to it."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=20000", "--dump-dom"]
    command.append(f"file://{site}/docs/pods.html?q=SplitMix")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"})
    assert "No matching documents" in done.stdout, done.stderr
    command[-1] = f"file://{site}/docs/pods.html?q=breakpoint"
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"})
    assert re.search(r"\d+ matching documents", done.stdout), done.stderr


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("[all is well](b.md#one-two), [a file](../LICENSE), [a folder](../labs)", None),
        ("[a page](none.md)", "none.md"),
        ("[a heading](b.md#three)", "three"),
        ("[a heading here](#three)", "three"),
        ("[no file](../none.yaml)", "none.yaml"),
    ],
    ids=["good", "page", "heading", "own-heading", "file"],
)
def test_a_page_that_is_not_right_is_refused(tmp_path: Path, page: str, said: str | None) -> None:
    root = repository(tmp_path, page)
    done = build(tmp_path / "out", root)
    assert (done.returncode == 0) == (said is None), done.stdout + done.stderr
    assert (said or "") in done.stderr


def test_a_page_that_the_index_does_not_name_is_refused(tmp_path: Path) -> None:
    root = repository(tmp_path, "text")
    (root / "docs/lonely.md").write_text("# Lonely\n")
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    done = build(tmp_path / "out", root)
    assert done.returncode != 0
    assert "docs/lonely.md" in done.stderr


def repository(folder: Path, page: str) -> Path:
    """A small repository whose page docs/a.md says this."""
    root = folder / "root"
    for name, text in {
        "README.md": "# Vink\n\n[Features](docs/README.md)\n",
        "LICENSE": "GPL\n",
        "labs/a.yaml": "machines: {}\n",
        "docs/README.md": "# Features\n\n## Run\n\n- [a](a.md), [b](b.md)\n",
        "docs/a.md": f"# A\n\n{page}\n",
        "docs/b.md": "# B\n\n## One two\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "python").symlink_to(ROOT / "python")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    return root
