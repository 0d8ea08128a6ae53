"""The public Python API: its modules, names and docstrings, and where each name is described.

A name that several modules have is described on one page, to which the others link. Nothing is
imported: `python_names.py` reads stubs and sources.
"""

import ast
import collections
import inspect
import pathlib

import python_docs as docs
from python_names import FUNCTIONS, Found, Package, decorators, statements

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Public modules that no `__all__` lists: they are imported by their full names, as in PyTorch.
ALSO_PUBLIC = ["ternion.nn.attention"]
# A class with more public members than this has its own page.
LONG = 100
# The folder of the pages in the book.
FOLDER = "python"

# A method or attribute of a class: its name and definitions, several for overloads.
Member = collections.namedtuple("Member", "name nodes")


class Api:
    """The public names of a package, and where each one is described."""

    def __init__(self, folder, package="ternion", also=()):
        self.package, self.name, self.also = Package(folder), package, also
        self.modules = dict(sorted(self.public_modules(package).items()))
        self.entries = {name: self.module_entries(module) for name, module in self.modules.items()}
        self.homes = self.described()
        self.long = {home: found for home, found in self.classes() if len(self.members(found)) > LONG}

    def public_modules(self, name):
        """A module and the public ones below it, by name."""
        module = self.package.module(name)
        found = {name: module}
        for child in sorted(self.package.public(module)):
            entry = self.package.find(module, child)
            if entry and entry.kind == "module" and entry.module.name == f"{name}.{child}":
                found.update(self.public_modules(entry.module.name))
        for other in self.also:
            if other.rpartition(".")[0] == name:
                found.update(self.public_modules(other))
        return found

    def module_entries(self, module):
        """The public names of a module with their definitions, in alphabetical order."""
        source = self.package.module(module.name, stub=False)
        found = {}
        for name in sorted(self.package.public(module), key=lambda name: (name.lower(), name)):
            entry = self.package.find(module, name) or (self.package.find(source, name) if source else None)
            if entry is None:
                raise SystemExit(f"error: {module.path}: no definition of the public name {name}")
            found[name] = entry
        return found

    def described(self):
        """The full name under which each definition is described: the one in the module that has
        it, if an `__all__` lists that module, otherwise the first one of the fewest parts.
        """
        homes = {}
        for module in sorted(self.modules, key=lambda name: (name.count("."), name)):
            # An alias comes after the name of the definition.
            for name, found in sorted(self.entries[module].items(), key=lambda one: one[0] != one[1].name):
                if found.kind not in ("module", "value"):
                    homes.setdefault(identity(found), f"{module}.{name}")
                    if name == found.name and module == found.module.name and module not in self.also:
                        homes[identity(found)] = f"{module}.{name}"
        return homes

    def classes(self):
        return [(home, self.entry(home)) for home in self.homes.values() if self.entry(home).kind == "class"]

    def entry(self, full):
        module, _, name = full.rpartition(".")
        return self.entries[module][name]

    def page_of(self, name):
        """The page of a module, or of a class that has its own, by full name."""
        return f"{FOLDER}/{name}.md"

    def target(self, full):
        """The page and anchor of a full name, or None."""
        if full in self.modules:
            return self.page_of(full)
        for cut in (full, full.rpartition(".")[0]):
            module, _, name = cut.rpartition(".")
            found = self.entries.get(module, {}).get(name)
            rest = full.removeprefix(cut)
            if found and (not rest or (found.kind == "class" and rest[1:] in self.members(found))):
                home = self.homes.get(identity(found), cut)
                page = self.page_of(home if home in self.long else home.rpartition(".")[0])
                return f"{page}#{home}{rest}"
        return None

    # ---- Classes

    def members(self, found):
        """The public methods and attributes of a class, with those of bases that are not public."""
        members = {}
        for owner in [found, *self.hidden_bases(found)]:
            for name, nodes in class_body(owner.nodes[0]).items():
                if not name.startswith("_"):
                    members.setdefault(name, Member(name, nodes))
        return members

    def hidden_bases(self, found):
        """The bases of a class that no page describes, without what a described base inherits."""
        return self.package.bases(found, lambda base: identity(base) in self.homes)

    def lookup(self, found, name):
        """The definitions of a name in a class and its bases, those of the source last."""
        owners = [found, *self.package.bases(found)]
        owners += [source for owner in owners if (source := self.package.source(owner)) and source.kind == "class"]
        return [nodes for owner in owners if (nodes := class_body(owner.nodes[0]).get(name))]

    def docstring(self, found):
        """The docstring of a definition, from its source if the stub has none, or None."""
        text = next((text for node in found.nodes if (text := doc_of(node))), None)
        source = self.package.source(found)
        if found.kind == "module" and source:
            # The stub's says that it is generated.
            text = None
        if text is None and source and source.nodes[0] is not found.nodes[0]:
            return self.docstring(source)
        return text

    def member_docstring(self, found, name):
        """The docstring of a method, possibly that of a base, or None."""
        return next((text for nodes in self.lookup(found, name) for node in nodes if (text := doc_of(node))), None)

    def constructor(self, found):
        """The calls that create an instance, as argument lists; None if nothing says."""
        for owner in [found, *self.package.bases(found)]:
            body = class_body(owner.nodes[0])
            for name in ("__init__", "__new__"):
                nodes = [node for node in body.get(name, []) if isinstance(node, FUNCTIONS)]
                if nodes:
                    return [docs.argument_list(node.args, skip_first=True) for node in shown(nodes)]
            if is_record(owner.nodes[0]):
                return [[record_field(nodes[0]) for nodes in body.values() if isinstance(nodes[0], ast.AnnAssign)]]
        return None

    # ---- What lacks a docstring

    def missing(self):
        """The full names of modules, functions, classes and methods without a docstring."""
        for name, module in self.modules.items():
            if not self.docstring(Found(module, name, [module.tree], "module")):
                yield name
        for home in self.homes.values():
            found = self.entry(home)
            if not self.docstring(found):
                yield home
            if found.kind == "class":
                for name, member in self.members(found).items():
                    if isinstance(member.nodes[0], FUNCTIONS) and not self.member_docstring(found, name):
                        yield f"{home}.{name}"


def identity(found):
    """The same for all names of a definition."""
    return (found.module.name, found.name, found.kind)


def doc_of(node):
    documented = isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS))
    text = ast.get_docstring(node) if documented else None
    return inspect.cleandoc(text) if text else None


def class_body(node):
    """The definitions in a class by name: methods, and attributes with a type."""
    found = {}
    for one in statements(node.body):
        if isinstance(one, FUNCTIONS):
            kinds = decorators(one)
            if "setter" in kinds or "deleter" in kinds:
                continue
            overloads = [other for other in found.get(one.name, []) if isinstance(other, FUNCTIONS) and "overload" in decorators(other)]
            found[one.name] = [*overloads, one]
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            found[one.target.id] = [one]
    return found


def shown(nodes):
    """The definitions of a function whose signatures are shown: the overloads, if it has any."""
    overloads = [node for node in nodes if "overload" in decorators(node)]
    return overloads or nodes


def is_record(node):
    """Whether the fields of a class are the arguments of its constructor."""
    return any(ast.unparse(base).endswith("NamedTuple") for base in node.bases) or "dataclass" in decorators(node)


def record_field(node):
    kind = docs.annotation(node.annotation)
    return f"{node.target.id}: {kind}" + (f" = {ast.unparse(node.value)}" if node.value else "")


def ternion(root=ROOT):
    """The public API of the package of this repository."""
    return Api(root / "python", "ternion", ALSO_PUBLIC)
