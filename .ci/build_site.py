"""Builds the documentation site from the Markdown files of the repository with mdBook.

build_site.py [--out FOLDER]      writes the sources into FOLDER/source and the site into FOLDER/book (default: target/site)
build_site.py --sources           writes only the sources: mdBook is not needed

The pages are those of `docs/SUMMARY.md`. Pages outside of docs/ get a path in the book; links between pages are adapted, pictures
are copied, and links to other files of the repository lead to its web site. A link that leads nowhere is an error.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check_links  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/ternion/ternion/blob/main/"
ENTRY = re.compile(r"^(?P<start>\s*(?:-\s*)?)\[(?P<title>[^\]]*)\]\((?P<path>[^)]+)\)\s*$")
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


def place_in_book(path):
    """Where a page of the repository is in the book: pages of docs/ by their path there, the others by their folder's name or their own."""
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


def adapted(text, path, listed, pictures, root):
    """A page with its links as they are in the book. Adds the pictures that it shows to `pictures`."""
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
        elif pathlib.PurePosixPath(file).suffix in PICTURES:
            pictures.add(file)
            new = link_between(place_in_book(path), place_in_book(file))
        else:
            new = REPOSITORY + file
        return match[1] + new + ("#" + anchor if anchor else "") + ")"

    lines, code = text.splitlines(), check_links.without_code(text)
    changed = [re.sub(r"(\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)\)", link, line) if visible else line for line, visible in zip(lines, code, strict=True)]
    return "\n".join(changed) + "\n"


def write_sources(out, root=ROOT):
    """Writes the book's sources into a folder."""
    summary = (root / "docs/SUMMARY.md").read_text()
    listed, pictures = pages(summary, "docs"), set()
    source = out / "source"
    shutil.rmtree(source, ignore_errors=True)
    for path in listed:
        text = adapted((root / path).read_text(), path, listed, pictures, root)
        target = source / place_in_book(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for path in pictures:
        target = source / place_in_book(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, target)
    entry = lambda match: f"{match['start']}[{match['title']}]({place_in_book(relative('docs', match['path']))})"
    (source / "SUMMARY.md").write_text("\n".join(ENTRY.sub(entry, line) for line in summary.splitlines()) + "\n")
    (out / "book.toml").write_text(BOOK)
    return listed


def missing_pages(listed, root=ROOT):
    """The Markdown files of docs/ that the summary does not list."""
    every = {str(path.relative_to(root)) for path in (root / "docs").rglob("*.md")}
    return sorted(every - set(listed) - {"docs/SUMMARY.md"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/site", help="the folder of the site")
    parser.add_argument("--sources", action="store_true", help="write the sources only")
    given = parser.parse_args()
    listed = write_sources(given.out)
    left_out = missing_pages(listed)
    if left_out:
        sys.exit(f"error: docs/SUMMARY.md does not list {', '.join(left_out)}")
    if not given.sources:
        subprocess.run(["mdbook", "build", str(given.out)], check=True)
    print(f"{len(listed)} pages in {given.out}")


if __name__ == "__main__":
    main()
