"""The names of a Python package, read from its stubs and sources without importing it.

A module is read from its stub, if it has one, otherwise from its source. Public names are those of
`__all__`. Without it they are the definitions and the explicit re-exports (`import x as x`) without
a leading underscore. Only the forms of `__all__` that this package uses are known: lists,
`"a b".split()` and `other.__all__`.
"""

import ast
import collections

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# The definition of a name: the module that has it, its name there, and its syntax trees (several
# for overloads). The kind is "module", "class", "function" or "value".
Found = collections.namedtuple("Found", "module name nodes kind")


def statements(body):
    """The statements of a module or class, with those of `if` and `try` in order.

    Of `if TYPE_CHECKING` only the first branch counts: it has the types.
    """
    for node in body:
        if isinstance(node, ast.If):
            typed = "TYPE_CHECKING" in ast.unparse(node.test)
            yield from statements(node.body if typed else [*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from statements(node.body)
        else:
            yield node


def decorators(node):
    """The names of the decorators of a definition: the last part of `a.b(c)` is `b`."""
    calls = (ast.unparse(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list)
    return [name.rpartition(".")[2] for name in calls]


def add_definition(definitions, node):
    """Records a function or class. Overloads and their implementation are kept together."""
    known = definitions.get(node.name, [])
    if "setter" in decorators(node) or "deleter" in decorators(node):
        return
    overloads = [one for one in known if isinstance(one, FUNCTIONS) and "overload" in decorators(one)]
    definitions[node.name] = [*overloads, node]


def assigned(node):
    """The pairs of name and value of an assignment; the value is None if it cannot be read."""
    if isinstance(node, ast.AnnAssign):
        return [(node.target.id, node.value)] if isinstance(node.target, ast.Name) else []
    pairs = []
    for target in node.targets:
        if isinstance(target, ast.Name):
            pairs.append((target.id, node.value))
        elif isinstance(target, ast.Tuple):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [None] * len(target.elts)
            pairs += [(one.id, value) for one, value in zip(target.elts, values) if isinstance(one, ast.Name)]
    return pairs


class Module:
    """What a file defines and imports. Nothing is resolved here."""

    def __init__(self, name, path):
        self.name, self.path = name, path
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.definitions, self.values, self.imports = {}, {}, {}
        self.stars, self.reexports, self.all = [], [], []
        for node in statements(self.tree.body):
            self.read(node)

    def read(self, node):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            add_definition(self.definitions, node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for name, value in assigned(node):
                if name == "__all__":
                    self.all = [value]
                else:
                    self.definitions[name], self.values[name] = [node], value
        elif isinstance(node, ast.AugAssign) and ast.unparse(node.target) == "__all__":
            self.all.append(node.value)
        elif isinstance(node, ast.ImportFrom):
            self.read_import(node)

    def read_import(self, node):
        package = self.name.split(".") if self.path.stem == "__init__" else self.name.split(".")[:-1]
        base = package[: len(package) - node.level + 1] if node.level else []
        source = ".".join([*base, *([node.module] if node.module else [])])
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(source)
                continue
            self.imports[alias.asname or alias.name] = (source, alias.name)
            if alias.asname == alias.name:
                self.reexports.append(alias.name)


class Package:
    """The modules of a package below a folder."""

    def __init__(self, folder):
        self.folder, self.modules = folder, {}

    def files(self, name):
        """The files that a module may have, the stub first."""
        path = self.folder.joinpath(*name.split("."))
        return [path / "__init__.pyi", path.with_name(path.name + ".pyi"), path / "__init__.py", path.with_name(path.name + ".py")]

    def module(self, name, stub=True):
        """A module by its full name, or None if the package has no such module.

        Args:
            stub: false for the source of a module that has a stub.
        """
        if (name, stub) not in self.modules:
            paths = [path for path in self.files(name) if path.is_file() and (stub or path.suffix == ".py")]
            self.modules[name, stub] = Module(name, paths[0]) if paths else None
        return self.modules[name, stub]

    def stated(self, module):
        """The names of `__all__`, or None if there is none that can be read."""
        names = []
        for value in module.all:
            part = self.all_names(module, value)
            if part is None:
                return None
            names += part
        return list(dict.fromkeys(names)) if module.all else None

    def all_names(self, module, value):
        """The names of one term of `__all__`, or None if the term cannot be read."""
        if isinstance(value, (ast.List, ast.Tuple)):
            return [ast.literal_eval(one) for one in value.elts]
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "split":
            return ast.literal_eval(value.func.value).split()
        if isinstance(value, ast.Attribute) and value.attr == "__all__":
            found = self.find(module, ast.unparse(value.value))
            return self.stated(found.module) if found and found.kind == "module" else None
        if isinstance(value, ast.Name) and module.imports.get(value.id, ("", ""))[1] == "__all__":
            return self.stated(self.module(module.imports[value.id][0]))
        return None

    def public(self, module):
        """The public names of a module, in the order in which it has them."""
        names = self.stated(module)
        if names is None:
            stars = [name for star in module.stars if (other := self.module(star)) for name in self.public(other)]
            names = [name for name in [*module.reexports, *stars, *module.definitions] if not name.startswith("_")]
        return list(dict.fromkeys(names))

    def find(self, module, name):
        """The definition of a name of a module, through imports and aliases, or None."""
        if module is None:
            return None
        first, _, rest = name.partition(".")
        if rest:
            holder = self.find(module, first)
            return self.find(holder.module, rest) if holder and holder.kind == "module" else None
        if name in module.definitions:
            return self.find_defined(module, name)
        if name in module.imports:
            source, original = module.imports[name]
            # `from . import name` of a package is a module of it.
            inside = self.find(self.module(source), original) if source != module.name else None
            return inside or self.found_module(f"{source}.{original}")
        stars = [star for star in module.stars if (other := self.module(star)) and name in self.public(other)]
        return self.find(self.module(stars[-1]), name) if stars else self.found_module(f"{module.name}.{name}")

    def find_defined(self, module, name):
        nodes, value = module.definitions[name], module.values.get(name)
        if isinstance(nodes[0], ast.ClassDef):
            return Found(module, name, nodes, "class")
        if isinstance(nodes[0], FUNCTIONS):
            return Found(module, name, nodes, "function")
        # An alias: `concatenate = cat`, `zeta = _special.zeta`.
        alias = isinstance(value, (ast.Name, ast.Attribute)) and ast.unparse(value) != name
        target = self.find(module, ast.unparse(value)) if alias else None
        return target or Found(module, name, nodes, "value")

    def found_module(self, name):
        module = self.module(name)
        return Found(module, name, [module.tree], "module") if module else None

    def source(self, found):
        """The same definition in the source of a module, for what its stub leaves out, or None."""
        module = self.module(found.module.name, stub=False) if found.module.path.suffix == ".pyi" else None
        if module is None or found.kind == "module":
            return Found(module, found.name, [module.tree], "module") if module else None
        return self.find(module, found.name)

    def bases(self, found, is_end=lambda base: False):
        """The classes of the package that a class is derived from, in the order of lookup.

        Args:
            is_end: returns whether a base is left out, together with its bases.
        """
        result = []
        for base in found.nodes[0].bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            other = self.find(found.module, ast.unparse(plain))
            if other and other.kind == "class" and other.nodes[0] is not found.nodes[0] and not is_end(other):
                result += [other, *self.bases(other, is_end)]
        return result
