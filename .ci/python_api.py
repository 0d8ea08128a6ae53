"""Markdown pages of the public Python API, from the stubs and sources of python/ternion.

python_api.py OUT            writes the pages into a folder
python_api.py --missing      lists the public names without a docstring

One page per public module: its docstring, an index, and every function and class with signature,
docstring and methods. A class with many methods has its own page. The anchor of a name is its full
name, such as `ternion.nn.Linear.forward`. `build_site.py` includes the pages in the book.
"""

import argparse
import ast
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import python_docs as docs  # noqa: E402
from python_model import FOLDER, class_body, doc_of, identity, shown, ternion  # noqa: E402
from python_names import FUNCTIONS, Found, decorators  # noqa: E402

# Methods with these names are operators and protocols, listed as signatures.
SPECIAL = re.compile(r"__\w+__$")
# What a class does not show: how it is created is its signature, the others are details.
HIDDEN = {"__init__", "__new__", "__repr__", "__str__", "__dir__", "__slots__", "__reduce__", "__hash__", "__init_subclass__", "__getstate__", "__setstate__"}
TITLES = {"class": "Classes", "function": "Functions"}


def link(source, target):
    """A link from a page of the API to another page or anchor; all pages are in one folder."""
    page, _, anchor = target.partition("#")
    page = "" if page == source else page.removeprefix(FOLDER + "/")
    return page + (f"#{anchor}" if anchor else "")


def anchored(full, title, level):
    """A heading with the anchor of a name before it."""
    return f'<a id="{full}"></a>\n\n{"#" * level} `{title}`'


class Page:
    """A page that is being written."""

    def __init__(self, api, name):
        self.api, self.name, self.path = api, name, api.page_of(name)
        self.parts = []

    def add(self, *parts):
        self.parts += [part for part in parts if part]

    def text(self):
        return "\n\n".join(self.parts) + "\n"

    def link_to(self, full):
        """The link to a name of the package, or None."""
        target = self.api.target(full) if full.split(".")[0] == self.api.name else None
        return link(self.path, target) if target else None

    def markdown(self, text):
        return docs.docstring_markdown(text, self.link_to) if text else ""

    def summary(self, text):
        """The first sentence of a docstring, for a cell of a table."""
        return docs.escaped(docs.first_sentence(text), self.link_to, cell=True) if text else ""


def pages(api):
    """The text of every page by its path in the book."""
    found = {api.page_of(name): module_page(api, name) for name in api.modules}
    found.update({api.page_of(home): class_page(api, home) for home in api.long})
    return found


def write(api, out):
    """Writes the pages into a folder."""
    for path, text in pages(api).items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(text, encoding="utf-8")


def summary_lines(api):
    """The entries of the pages in the book's table of contents, modules below their parents."""
    names = sorted([*api.modules, *api.long])
    return [f"{'  ' * max(0, name.count('.') - 1)}- [{name}]({api.page_of(name)})" for name in names]


# ---- Modules


def module_page(api, name):
    page, module = Page(api, name), api.modules[name]
    page.add(anchored(name, name, 1), page.markdown(api.docstring(Found(module, name, [module.tree], "module"))))
    entries = api.entries[name]
    own_entries = {entry: found for entry, found in entries.items() if api.homes.get(identity(found)) == f"{name}.{entry}"}
    page.add(module_list(page, entries))
    for kind, title in TITLES.items():
        page.add(index(page, title, {entry: found for entry, found in entries.items() if found.kind == kind}))
    page.add(value_list(page, entries))
    for entry, found in own_entries.items():
        full = f"{name}.{entry}"
        if full in api.long:
            continue
        if found.kind == "class":
            add_class(page, full, found, 2)
        elif found.kind == "function":
            page.add(anchored(full, entry, 2), signatures(found.nodes, entry), page.markdown(api.docstring(found)))
    return page.text()


def module_list(page, entries):
    modules = sorted(other for other in page.api.modules if other.rpartition(".")[0] == page.name)
    rows = []
    for other in modules:
        module = page.api.modules[other]
        text = page.api.docstring(Found(module, other, [module.tree], "module"))
        rows.append(f"| [`{other}`]({link(page.path, page.api.page_of(other))}) | {page.summary(text)} |")
    return table("Modules", rows)


def index(page, title, entries):
    """A table of names with the first sentences of their docstrings."""
    rows = []
    for entry, found in entries.items():
        full = f"{page.name}.{entry}"
        home = page.api.homes[identity(found)]
        # A name that another page describes has its anchor here, too.
        mark = "" if home == full and full not in page.api.long else f'<a id="{full}"></a>'
        text = page.summary(page.api.docstring(found))
        if home.rpartition(".")[0] == page.name and home != full:
            text = f"The same as `{home.rpartition('.')[2]}`. {text}".rstrip()
        rows.append(f"| {mark}[`{entry}`]({page.link_to(full)}) | {text} |")
    return table(title, rows)


def table(title, rows):
    return "\n".join([f"**{title}**\n", "| | |", "|---|---|", *rows]) if rows else ""


def value_list(page, entries):
    """The values of a module: constants and dtypes, with their types."""
    rows = [value_row(page, entry, found) for entry, found in entries.items() if found.kind == "value"]
    return "**Values**\n\n" + "\n".join(rows) if rows else ""


def value_row(page, entry, found):
    node = found.nodes[0]
    kind = f": {docs.annotation(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
    return f'- <a id="{page.name}.{entry}"></a>`{entry}{kind}`'


def signatures(nodes, name, in_class=False):
    texts = [docs.signature(node, name, in_class) for node in shown(nodes)]
    return docs.fenced("\n".join(texts), "python")


# ---- Classes


def class_page(api, home):
    page = Page(api, home)
    found = api.entry(home)
    page.add(anchored(home, home, 1), *class_head(page, home, found))
    members = named_members(api, found)
    rows = [
        f"| [`{name}`](#{home}.{name}) | {page.summary(api.member_docstring(found, name))} |"
        for name, member in members.items() if isinstance(member.nodes[0], FUNCTIONS)
    ]  # fmt: skip
    page.add(table("Methods and properties", rows), operators(page, found))
    add_members(page, home, found, 2)
    return page.text()


def add_class(page, full, found, level):
    page.add(anchored(full, full.rpartition(".")[2], level), *class_head(page, full, found))
    page.add(operators(page, found))
    add_members(page, full, found, level + 1)


def class_head(page, full, found):
    """Signature, bases, docstring and attributes of a class."""
    name = full.rpartition(".")[2]
    calls = page.api.constructor(found)
    heads = [f"class {name}"] if calls is None else [docs.laid_out(f"class {name}", call, "") for call in calls]
    yield docs.fenced("\n".join(heads), "python")
    yield base_line(page, found)
    yield page.markdown(page.api.docstring(found))
    values = [
        member for member in named_members(page.api, found).values() if isinstance(member.nodes[0], ast.AnnAssign)
    ]  # fmt: skip
    rows = [f'- <a id="{full}.{one.name}"></a>`{one.name}: {docs.annotation(one.nodes[0].annotation)}`' for one in values]
    yield "**Fields**\n\n" + "\n".join(rows) if rows else ""


def base_line(page, found):
    """The nearest base of a class that a page describes."""
    homes = [home for base in page.api.package.bases(found) if (home := page.api.homes.get(identity(base)))]
    return f"Base: [`{homes[0]}`]({page.link_to(homes[0])})" if homes else ""


def named_members(api, found):
    """The public members of a class in alphabetical order."""
    return dict(sorted(api.members(found).items(), key=lambda one: (one[0].lower(), one[0])))


def own_docstring(member):
    return next((text for node in member.nodes if (text := doc_of(node))), None)


def methods(page, found):
    """The methods of a class: those with a docstring, and the others."""
    every = [one for one in named_members(page.api, found).values() if isinstance(one.nodes[0], FUNCTIONS)]
    documented = [one for one in every if own_docstring(one)]
    return documented, [one for one in every if not own_docstring(one)]


def add_members(page, full, found, level):
    """The methods of a class. Those without a docstring, mostly overrides, are only listed."""
    documented, others = methods(page, found)
    marks = "".join(f'<a id="{full}.{one.name}"></a>' for one in others)
    lines = [docs.signature(node, one.name, in_class=True) for one in others for node in shown(one.nodes)]
    page.add(f"{marks}\n\n**Other methods and properties**\n\n" + docs.fenced("\n".join(lines), "python") if lines else "")
    for one in documented:
        kinds = decorators(one.nodes[0])
        note = "*Property.*" if "property" in kinds or "cached_property" in kinds else ""
        head = anchored(f"{full}.{one.name}", f"{full.rpartition('.')[2]}.{one.name}", level)
        page.add(head, signatures(one.nodes, one.name, in_class=True), note, page.markdown(own_docstring(one)))


def operators(page, found):
    """The operators of a class as one block of signatures."""
    body = class_body(found.nodes[0])
    names = [name for name in body if SPECIAL.match(name) and name not in HIDDEN and isinstance(body[name][0], FUNCTIONS)]
    lines = [docs.signature(node, name, in_class=True) for name in names for node in shown(body[name])]
    return "**Operators**\n\n" + docs.fenced("\n".join(lines), "python") if lines else ""


def anchors(text):
    """The anchors of a page of the API."""
    return set(re.findall(r'<a id="([^"]+)"></a>', text))


def source_pages(api, root):
    """The page of each stub and source of a public module, by its path in the repository."""
    found = {}
    for name in api.modules:
        for path in api.package.files(name):
            if path.is_file():
                found[path.relative_to(root).as_posix()] = api.page_of(name)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=pathlib.Path, help="the folder of the pages")
    parser.add_argument("--missing", action="store_true", help="list the names without a docstring")
    given = parser.parse_args()
    api = ternion()
    if given.missing:
        print("\n".join(api.missing()))
    if given.out:
        write(api, given.out)
        print(f"{len(pages(api))} pages in {given.out}")


if __name__ == "__main__":
    main()
