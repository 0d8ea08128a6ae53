"""Checks that the links of all Markdown files lead to a file of the repository, and their anchors
to a heading of it.

check_links.py              checks every Markdown file; fails with file:line and the link

Links to other sites are not followed. Code blocks and code spans are not links.
"""

import pathlib
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\s*\[[^\]]+\]:\s*(\S+)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")
HTML_ANCHOR = re.compile(r"<a\s+(?:name|id)=\"([^\"]+)\"")


def without_code(text):
    """The lines of a page: those of code blocks empty, the others without code spans."""
    lines, fence = [], None
    for line in text.splitlines():
        mark = re.match(r"\s*(?:>\s*)?(```+|~~~+)", line)
        if mark and (fence is None or mark[1].startswith(fence)):
            fence = mark[1] if fence is None else None
            line = ""
        lines.append("" if fence else line)
    return lines


def slug(heading):
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    text = re.sub(r"<[^>]+>", "", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text):
    """The anchors of a page; of headings with one text the later ones are numbered."""
    found, counts = set(), {}
    for line in without_code(text):
        found.update(HTML_ANCHOR.findall(line))
        heading = HEADING.match(line)
        if heading:
            name = slug(heading[1])
            count = counts.get(name, 0)
            found.add(f"{name}-{count}" if count else name)
            counts[name] = count + 1
    return found


def links(text):
    """The line and target of each link of a page."""
    for number, line in enumerate(without_code(text), 1):
        for match in LINK.finditer(re.sub(r"`[^`]*`", lambda span: "x" * len(span[0]), line)):
            yield number, match[1] or match[2]


def fault(root, page, target):
    """What is wrong with a link of a page, or None."""
    if re.match(r"[a-z][a-z+.-]*:|//", target, re.I):
        return None
    path, _, anchor = urllib.parse.unquote(target).partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.is_relative_to(root):
        return "leads out of the repository"
    if not file.exists():
        return "there is no such file"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
        return f"{file.relative_to(root)} has no heading #{anchor}"
    return None


def faults(root, pages):
    """The faults of all links of these pages, as lines."""
    for page in pages:
        for number, target in links(page.read_text()):
            wrong = fault(root, page, target)
            if wrong:
                yield f"{page.relative_to(root)}:{number}: {target}: {wrong}"


def main():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    pages = [ROOT / path for path in sorted(set(listed)) if path and (ROOT / path).is_file()]
    found = list(faults(ROOT, pages))
    print("\n".join([*found, f"{len(pages)} pages checked, {len(found)} dead links"]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
