"""Builds the documentation site from the Markdown files of the repository with mdBook.

build_site.py [OUT]          writes the sources into OUT/source and the site into OUT/book (default:
                             target/site)
build_site.py --sources      writes only the sources: mdBook is not needed

The pages are those of `docs/SUMMARY.md`, and those that `python_api.py` generates. Pages outside of
docs/ get a path in the book; links between pages are adapted, pictures are copied, and links to
other files of the repository lead to its web site. A link to the stub or source of a public Python
module leads to its generated page; its anchor is the full name of a function, class or method. A
link that leads nowhere is an error. `measured.py` adds notes to measurements that are out of date.
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check_links  # noqa: E402
import measured  # noqa: E402
import python_api  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/ternion/ternion/blob/main/"
ENTRY = re.compile(r"^(?P<start>\s*(?:-\s*)?)\[(?P<title>[^\]]*)\]\((?P<path>[^)]+)\)\s*$")
# The line of the summary that becomes the list of the generated pages.
API_LINE = "<!-- python-api -->"
PICTURES = {".svg", ".png", ".jpg"}
BOOK = """[book]
title = "Ternion"
description = "A deep-learning framework in Rust: one model, three backends, the same numbers"
language = "en"
src = "source"

[build]
build-dir = "book"

[output.html]
git-repository-url = "https://github.com/ternion/ternion"
"""


# The generated pages: their texts by path in the book, the page of each stub and source, the lines
# of the summary, and the function that returns page and anchor of a name, or None.
Api = collections.namedtuple("Api", "pages sources summary target", defaults=({}, {}, [], None))


def place_in_book(path):
    """Where a page of the repository is in the book: pages of docs/ by their path there, the others
    by their folder's name or their own.
    """
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/").replace("README.md", "index.md")
    if path.endswith("/README.md"):
        return path.removesuffix("/README.md").replace("/", "-") + ".md"
    return path.lower()


def pages(summary, folder):
    """The repository's path of each page that a summary lists; `folder` is the summary's own."""
    found = [match["path"] for line in summary.splitlines() if (match := ENTRY.match(line))]
    return [relative(folder, path) for path in found]


def relative(folder, path):
    """A path relative to a folder of the repository as one from its root."""
    parts = []
    for part in (pathlib.PurePosixPath(folder) / path).parts:
        parts = parts[:-1] if part == ".." else parts if part == "." else [*parts, part]
    return "/".join(parts)


def link_between(source, target):
    """The link from one page of the book to another."""
    up = len(pathlib.PurePosixPath(source).parts) - 1
    return "../" * up + target


def link_to_api(api, path, file, anchor):
    """The link from a page of the repository to a generated page: to the name, if one is given."""
    target = api.target(anchor) if anchor else api.sources[file]
    if target is None:
        raise SystemExit(f"error: {path}: {file}#{anchor}: the Python API has no such name")
    return link_between(place_in_book(path), target)


def adapted(text, path, listed, pictures, root, api=Api()):
    """A page with its links as they are in the book. Adds its pictures to `pictures`."""
    folder = str(pathlib.PurePosixPath(path).parent)

    def link(match):
        target, _, anchor = match[2].partition("#")
        if not target or re.match(r"[a-z][a-z+.-]*:|//", target, re.I):
            return match[0]
        file = relative(folder, target)
        if not (root / file).exists():
            raise SystemExit(f"error: {path}: {match[2]}: there is no such file")
        if file in listed:
            new = link_between(place_in_book(path), place_in_book(file))
        elif file in api.sources:
            return match[1] + link_to_api(api, path, file, anchor) + ")"
        elif pathlib.PurePosixPath(file).suffix in PICTURES:
            pictures.add(file)
            new = link_between(place_in_book(path), place_in_book(file))
        else:
            new = REPOSITORY + file
        return match[1] + new + ("#" + anchor if anchor else "") + ")"

    lines, code = text.splitlines(), check_links.without_code(text)
    pattern = re.compile(r"(\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)\)")
    return "\n".join(pattern.sub(link, line) if visible else line for line, visible in zip(lines, code, strict=True)) + "\n"


def generated_api(root):
    """The pages of the Python API; none if the repository has no Python package."""
    if not (root / "python/ternion").is_dir():
        return Api()
    api = python_api.ternion(root)
    missing = [f"error: {name} has no docstring" for name in api.missing()]
    if missing:
        raise SystemExit("\n".join(missing))
    return Api(python_api.pages(api), python_api.source_pages(api, root), python_api.summary_lines(api), api.target)


def book_summary(summary, api):
    """The summary with the paths of the book, and with the generated pages."""
    entry = lambda match: f"{match['start']}[{match['title']}]({place_in_book(relative('docs', match['path']))})"
    lines = []
    for line in summary.splitlines():
        lines += api.summary if line.strip() == API_LINE else [ENTRY.sub(entry, line)]
    return "\n".join(lines) + "\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_sources(out, root=ROOT):
    """Writes the book's sources into a folder. Returns the pages of the repository."""
    summary = (root / "docs/SUMMARY.md").read_text(encoding="utf-8")
    listed, pictures = pages(summary, "docs"), set()
    api, history = generated_api(root), measured.History(root)
    if api.pages and API_LINE not in summary.splitlines():
        raise SystemExit(f"error: docs/SUMMARY.md has no line {API_LINE}")
    source = out / "source"
    shutil.rmtree(source, ignore_errors=True)
    for path in listed:
        text = measured.with_notes((root / path).read_text(encoding="utf-8"), path, history)
        write(source / place_in_book(path), adapted(text, path, listed, pictures, root, api))
    for path, text in api.pages.items():
        write(source / path, text)
    for path in pictures:
        target = source / place_in_book(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, target)
    write(source / "SUMMARY.md", book_summary(summary, api))
    write(out / "book.toml", BOOK)
    return listed


def missing_pages(listed, root=ROOT):
    """The Markdown files of docs/ that the summary does not list."""
    every = {str(path.relative_to(root)) for path in (root / "docs").rglob("*.md")}
    return sorted(every - set(listed) - {"docs/SUMMARY.md"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=pathlib.Path, default=ROOT / "target/site", help="the folder of the site")
    parser.add_argument("--sources", action="store_true", help="write the sources only")
    given = parser.parse_args()
    listed = write_sources(given.out)
    left_out = missing_pages(listed)
    if left_out:
        sys.exit(f"error: docs/SUMMARY.md does not list {', '.join(left_out)}")
    if not given.sources:
        if shutil.which("mdbook") is None:
            sys.exit(f"error: mdbook is not installed; the sources are in {given.out}")
        subprocess.run(["mdbook", "build", str(given.out)], check=True)
    print(f"{len(listed)} pages of the repository in {given.out}")


if __name__ == "__main__":
    main()
