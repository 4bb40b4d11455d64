"""Lay out the pages of the documentation site as a tree for Sphinx: docs/, notebooks, pages of the
repository, and the reference that the program's own tables give.

    python docs/site/assemble.py FOLDER

A link to a file of the repository becomes a link to its place on the site. Each part of
docs/index.md becomes a page, which leads to the pages that the part names.
"""

import json
import posixpath
import re
import shutil
import sys
from pathlib import Path, PurePosixPath

import reference

ROOT = Path(__file__).parents[2]
OF_THE_REPOSITORY = ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG", "CODE_OF_CONDUCT")
LINK = re.compile(r"(\]\()([^)#\s]*)(#[^)\s]*)?(\))")
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
LOCAL = re.compile(r"\]\(([^)#:\s]+\.(?:md|ipynb))(?:#[^)]*)?\)")
TITLES = {"project/README.md": "fastlloyd at a glance"}  # in the list of pages
TREE = "\n```{{toctree}}\n:hidden:\n:maxdepth: {depth}\n\n{pages}\n```\n"


def place(path: str) -> str:
    """Return where a file of the repository is on the site. Both are relative paths."""
    folder, _, name = path.rpartition("/")
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if folder == "" and PurePosixPath(name).stem in OF_THE_REPOSITORY:
        return f"project/{name}"
    if path == "lab/README.md":
        return "lab.md"
    return f"notebooks/{name}" if name.endswith(".ipynb") else f"files/{path}"


class Site:
    """Tree of pages in a folder.

    linked : files of the repository that pages link to, and that are no pages.
    parts : name of the page of each part, by the anchor of its heading in docs/index.md.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.linked: set[str] = set()
        self.parts: dict[str, str] = {}

    def write(self, place: str, text: str) -> None:
        """Write a page or a notebook."""
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def moved(self, text: str, source: str, here: str) -> str:
        """Return a text whose links lead to places on the site.

        source : file of the repository with the text.
        here : place of the text on the site.
        """
        pieces = FENCED.split(text)
        pieces[::2] = [
            LINK.sub(lambda link: self._moved(link, source, here), piece) for piece in pieces[::2]
        ]
        return "".join(pieces)

    def _moved(self, link: re.Match[str], source: str, here: str) -> str:
        before, target, anchor, after = link.groups(default="")
        if not target or ":" in target:
            return link[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if not (ROOT / there).is_file():
            raise SystemExit(f"{source} links to {target}, which is no file")
        if there == "docs/index.md" and anchor.removeprefix("#") in self.parts:
            goal, anchor = self.parts[anchor.removeprefix("#")], ""
        else:
            goal = place(there)
        if not goal.endswith((".md", ".ipynb")):
            self.linked.add(there)
        return f"{before}{posixpath.relpath(goal, posixpath.dirname(here) or '.')}{anchor}{after}"

    def copy(self, source: str) -> None:
        """Copy a page or a notebook of the repository to its place."""
        here = place(source)
        text = (ROOT / source).read_text(encoding="utf-8")
        if source.endswith(".ipynb"):
            notebook = json.loads(text)
            for cell in notebook["cells"]:
                if cell["cell_type"] == "markdown":
                    cell["source"] = self.moved("".join(cell["source"]), source, here)
            text = json.dumps(notebook)
        else:
            text = self.moved(text, source, here).replace("\n```csv\n", "\n```text\n")
        if source == "docs/proofs/README.md":
            text += TREE.format(depth=1, pages="\n".join(dict.fromkeys(LOCAL.findall(text))))
        self.write(here, text)

    def divide_index(self) -> None:
        """Write the first page, and a page for each part of docs/index.md."""
        index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
        first, *parts = re.split(r"^## ", index, flags=re.MULTILINE)
        titles = [part.partition("\n")[0] for part in parts]
        self.parts = {_anchor(title): f"{_anchor(title)}.md" for title in titles}
        known: set[str] = set()
        for title, part in zip(titles, parts, strict=True):
            page = self.parts[_anchor(title)]
            text = self.moved(f"# {part}", "docs/index.md", page).replace("\n### ", "\n## ")
            if title == "Reference":
                text = text.replace("\n\n- ", "\n\n" + reference.LINKS + "- ", 1)
            found = [target for target in dict.fromkeys(LOCAL.findall(text)) if target not in known]
            found = [target for target in found if target not in {*self.parts.values(), page}]
            known.update(found)
            shown = [f"{TITLES[each]} <{each}>" if each in TITLES else each for each in found]
            self.write(page, text + TREE.format(depth=1, pages="\n".join(shown)))
        lines = [f"- [{title}]({self.parts[_anchor(title)]})" for title in titles]
        first = self.moved(first, "docs/index.md", "index.md")
        tree = TREE.format(depth=2, pages="\n".join(self.parts.values()))
        self.write("index.md", f"{first}\n## All pages\n\n" + "\n".join(lines) + "\n" + tree)

    def copy_files(self) -> None:
        """Copy what pages show or link to, and is no page."""
        pictures = [*ROOT.glob("docs/**/*.png"), *ROOT.glob("docs/**/*.svg")]
        for path in [*pictures, *map(ROOT.joinpath, sorted(self.linked))]:
            copy = self.folder / place(path.relative_to(ROOT).as_posix())
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")


def assemble(folder: Path) -> None:
    """Write the whole tree into a folder, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    site = Site(folder)
    site.divide_index()
    sources = [
        *(path for path in sorted(ROOT.glob("docs/**/*.md")) if path != ROOT / "docs/index.md"),
        *(ROOT / f"{name}.md" for name in OF_THE_REPOSITORY),
        ROOT / "lab/README.md",
        *sorted(ROOT.glob("examples/*.ipynb")),
    ]
    for path in sources:
        site.copy(path.relative_to(ROOT).as_posix())
    for name, text in reference.pages():
        site.write(f"reference/{name}.md", text)
    site.copy_files()


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
