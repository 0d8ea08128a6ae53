"""Checks that the links of the built documentation site lead to a file of it, and their anchors to
an element of that file.

check_site.py FOLDER        fails with the page and the link; FOLDER is the output of mdBook

Links to other sites are not followed.
"""

import html.parser
import pathlib
import sys
import urllib.parse

# Attributes that refer to another file.
LINKS = {("a", "href"), ("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("object", "data")}


class Page(html.parser.HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif (tag, name) in LINKS and value:
                self.links.append((self.getpos()[0], value))


def target_of(root, page, path):
    """The file that a link of `page` leads to."""
    start = root if path.startswith("/") else page.parent
    target = (start / path.lstrip("/")) if path else page
    return target / "index.html" if target.is_dir() else target


def faults(root):
    """A line for each link that leads nowhere."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.html"))}
    if not pages:
        yield f"{root}: there are no pages"
    for path, page in pages.items():
        for line, link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = target_of(root.resolve(), path, urllib.parse.unquote(url.path)).resolve()
            place = f"{path.relative_to(root.resolve())}:{line}: {link}"
            anchor = urllib.parse.unquote(url.fragment)
            if not target.is_file():
                yield f"{place}: there is no such file"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{place}: {target.name} has no element with this id"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print(*found, f"{len(found)} links lead nowhere", sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
