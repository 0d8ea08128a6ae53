"""python_api.py with a small package, and that the pages of the repository's package are whole.

python3 -m unittest discover -s .ci
"""

import ast
import functools
import pathlib
import re
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import build_site  # noqa: E402
import python_api  # noqa: E402
import python_docs as docs  # noqa: E402
from python_model import Api  # noqa: E402

PACKAGE = {
    "__init__.py": '''
        """A package. More about it."""
        from . import part as part, _hidden
        from ._hidden import helper as helper, Base
        from ._hidden import dtype as dtype
        __all__ = ["part", "helper", "again", "Thing", "wide", "one", "dtype", "Row"]
        again = helper
        wide, one = 1, 2
        def _private(): ...
        class Thing(Base):
            """A thing <of> *parts*."""
            size: int
            def __init__(self, size: int, *, name: str = "a|b"): ...
            def __len__(self) -> int: ...
            def plain(self): ...
            @property
            def half(self) -> int:
                """Half of the `size`."""
            @staticmethod
            def made(count) -> "Thing":
                """Makes one."""
        class Row(NamedTuple):
            """A row."""
            first: int
            second: str = "x"
    ''',
    "_hidden.py": '''
        from typing import overload
        @overload
        def helper(x: int) -> int: ...
        @overload
        def helper(x: str, /, *rest: str, **more: int) -> str: ...
        def helper(x):
            """Helps. Not twice."""
        class Base:
            def shared(self, a, b=None):
                """Is inherited."""
            def _secret(self):
                """Is not shown."""
        class dtype:
            """A dtype."""
    ''',
    "part.pyi": '''
        """Written by a program."""
        from .part_types import Kind as Kind, unlisted
        from .star import *
        def stubbed(x: _int) -> _float: ...
        value: Kind
        def _private() -> None: ...
    ''',
    "part.py": '''
        """The part."""
        def stubbed(x):
            """Has its docstring in the source."""
    ''',
    "part_types.py": "class Kind:\n    '''A kind.'''\ndef unlisted():\n    '''No.'''\n",
    "star.py": "__all__ = 'first'.split()\n__all__ += ['second']\ndef first():\n    '''1'''\ndef second():\n    '''2'''\ndef third():\n    '''3'''\n",
}


def small(**changes):
    """The API of a package of these files, changed."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in {**PACKAGE, **{name.replace("init", "__init__") + ".py": text for name, text in changes.items()}}.items():
            (pathlib.Path(folder) / "pkg").mkdir(exist_ok=True)
            (pathlib.Path(folder) / "pkg" / path).write_text(textwrap.dedent(text).lstrip())
        api = Api(pathlib.Path(folder), "pkg")
        return api, python_api.pages(api), list(api.missing())


class SmallPackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.api, cls.pages, cls.missing = small()

    def test_public_names_are_those_of_all_or_explicit_reexports(self):
        self.assertEqual(list(self.api.modules), ["pkg", "pkg.part"])
        self.assertEqual(list(self.api.entries["pkg"]), ["again", "dtype", "helper", "one", "part", "Row", "Thing", "wide"])
        self.assertEqual(list(self.api.entries["pkg.part"]), ["first", "Kind", "second", "stubbed", "value"])

    def test_a_class_has_its_signature_and_methods(self):
        page = self.pages["python/pkg.md"]
        self.assertIn("```python\nclass Thing(size: int, *, name: str = 'a|b')\n```", page)
        self.assertIn("A thing \\<of\\> \\*parts\\*.", page)
        self.assertIn('<a id="pkg.Thing.half"></a>\n\n### `Thing.half`\n\n```python\nhalf: int\n```\n\n*Property.*\n\nHalf of the `size`.', page)
        self.assertIn("```python\n@staticmethod\nmade(count) -> Thing\n```", page)
        self.assertIn("```python\n__len__() -> int\n```", page)
        self.assertIn('- <a id="pkg.Thing.size"></a>`size: int`', page)
        self.assertIn('<a id="pkg.Thing.plain"></a>\n\n**Other methods and properties**\n\n```python\nplain()\n```', page)

    def test_methods_of_bases_without_a_page_are_shown(self):
        page = self.pages["python/pkg.md"]
        self.assertIn("### `Thing.shared`\n\n```python\nshared(a, b=None)\n```\n\nIs inherited.", page)
        self.assertNotIn("_secret", page)

    def test_overloads_are_shown_without_the_implementation(self):
        page = self.pages["python/pkg.md"]
        self.assertIn("```python\nhelper(x: int) -> int\nhelper(x: str, /, *rest: str, **more: int) -> str\n```\n\nHelps. Not twice.", page)

    def test_an_alias_leads_to_the_name(self):
        page = self.pages["python/pkg.md"]
        self.assertEqual(self.api.target("pkg.again"), "python/pkg.md#pkg.helper")
        self.assertIn('| <a id="pkg.again"></a>[`again`](#pkg.helper) | The same as `helper`. Helps. |', page)

    def test_a_record_is_created_from_its_fields(self):
        self.assertIn("class Row(first: int, second: str = 'x')", self.pages["python/pkg.md"])

    def test_a_stub_has_the_signature_and_the_source_the_docstring(self):
        page = self.pages["python/pkg.part.md"]
        self.assertIn("# `pkg.part`\n\nThe part.", page)
        self.assertIn("```python\nstubbed(x: int) -> float\n```\n\nHas its docstring in the source.", page)
        self.assertIn('- <a id="pkg.part.value"></a>`value: Kind`', page)

    def test_the_index_has_first_sentences(self):
        page = self.pages["python/pkg.md"]
        self.assertIn("| [`pkg.part`](pkg.part.md) | The part. |", page)
        self.assertIn("| [`Thing`](#pkg.Thing) | A thing \\<of\\> \\*parts\\*. |", page)
        self.assertEqual(python_api.summary_lines(self.api), ["- [pkg](python/pkg.md)", "- [pkg.part](python/pkg.part.md)"])

    def test_names_without_docstring_are_found(self):
        self.assertEqual(self.missing, ["pkg.Thing.plain"])
        _, _, missing = small(part_types="class Kind: ...\n", part="def stubbed(x): ...\n")
        self.assertEqual(missing, ["pkg.part", "pkg.Thing.plain", "pkg.part.Kind", "pkg.part.stubbed"])

    def test_names_lead_to_their_anchors(self):
        self.assertEqual(self.api.target("pkg.part"), "python/pkg.part.md")
        self.assertEqual(self.api.target("pkg.Thing.shared"), "python/pkg.md#pkg.Thing.shared")
        self.assertIsNone(self.api.target("pkg.Thing.gone"))
        self.assertIsNone(self.api.target("pkg.gone"))

    def test_a_public_name_without_definition_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "no definition of the public name gone"):
            small(init="__all__ = ['gone']\n")

    def test_a_long_class_has_its_own_page(self):
        methods = "".join(f"    def m{number}(self):\n        '''m'''\n" for number in range(101))
        _, pages, _ = small(init=f"'''P'''\n__all__ = ['Long']\nclass Long:\n    '''L.'''\n{methods}")
        self.assertIn('| <a id="pkg.Long"></a>[`Long`](pkg.Long.md#pkg.Long) | L. |', pages["python/pkg.md"])
        self.assertNotIn("m100", pages["python/pkg.md"])
        self.assertIn('<a id="pkg.Long.m100"></a>\n\n## `Long.m100`', pages["python/pkg.Long.md"])
        self.assertIn("| [`m100`](#pkg.Long.m100) | m |", pages["python/pkg.Long.md"])


class DocstringTest(unittest.TestCase):
    def markdown(self, text):
        return docs.docstring_markdown(textwrap.dedent(text).strip())

    def test_sections_become_lists(self):
        text = """
            Does it, as
            described.

            Shapes: [n, ..] -> [] and
            more

            After.

            Args:
                x, *rest: the first line
                    and the second.
                kind (str): a|b.

            Raises:
                ValueError: If `x < 0`.

            Returns:
                The result.
        """
        self.assertEqual(
            self.markdown(text),
            "Does it, as described.\n\n**Shapes**: \\[n, ..\\] -\\> \\[\\] and more\n\nAfter.\n\n"
            "**Arguments**\n\n- `x`, `*rest`: the first line and the second.\n- `kind` (str): a\\|b.\n\n"
            "**Raises**\n\n- `ValueError`: If `x < 0`.\n\n**Returns**: The result.",
        )

    def test_text_at_the_margin_ends_a_section(self):
        self.assertEqual(self.markdown("A.\n\nArgs:\n    x: y.\n\nAfter."), "A.\n\n**Arguments**\n\n- `x`: y.\n\nAfter.")

    def test_code_lists_and_tables_stay(self):
        text = "Use:\n\n    x = f(1)\n\n    y = <x>\n\n- one *a*\n- two\n  lines\n\n| a | b_c |\n|---|---|\n| `x|y` | <d> |"
        self.assertEqual(
            self.markdown(text.replace("`x|y`", "x")),
            "Use:\n\n```text\nx = f(1)\n\ny = <x>\n```\n\n- one \\*a\\*\n- two lines\n\n| a | b\\_c |\n|---|---|\n| x | \\<d\\> |",
        )
        self.assertEqual(self.markdown("A:\n- b\n- c"), "A:\n\n- b\n- c")
        self.assertEqual(self.markdown("A\n- b"), "A - b")
        self.assertEqual(self.markdown("A:\n\n```python\nx = *y*\n\nz\n```\nB_"), "A:\n\n```python\nx = *y*\n\nz\n```\n\nB\\_")
        self.assertEqual(self.markdown("A:\n\n    x = 1\n    ```"), "A:\n\n````text\nx = 1\n```\n````")

    def test_specials_are_escaped_outside_of_code(self):
        self.assertEqual(docs.escaped("a_b *c* [d](e) <b> & `f_*<g>` `open"), "a\\_b \\*c\\* \\[d\\](e) \\<b\\> &amp; `f_*<g>` \\`open")
        self.assertEqual(docs.escaped("`a|b` c|d", cell=True), "`a\\|b` c\\|d")
        self.assertEqual(docs.escaped("{{#include x}} `{{#title y}}`"), "\\{{#include x}} `\\{{#title y}}`")
        for text, expected in [("# a", "\\# a"), ("+ a", "\\+ a"), ("1) a", "1\\) a"), ("-", "\\-"), ("a # b", "a # b")]:
            self.assertEqual(docs.paragraph([text], None).strip(), expected)

    def test_code_spans_of_names_are_links(self):
        link = {"pkg.f": "pkg.md#pkg.f"}.get
        self.assertEqual(docs.docstring_markdown("See `pkg.f` and `f`.", link), "See [`pkg.f`](pkg.md#pkg.f) and `f`.")

    def test_the_first_sentence(self):
        self.assertEqual(docs.first_sentence("Is `a. B`, e.g. one (Su et al. 2021)\nof\nthem. Next."), "Is `a. B`, e.g. one (Su et al. 2021) of them.")
        self.assertEqual(docs.first_sentence("Raises:\n    ValueError: x."), "")

    def test_signatures(self):
        def shown(source):
            return docs.signature(ast.parse(source).body[0], "f", in_class=source.startswith("@class") or "self" in source)

        self.assertEqual(shown("def f(a, /, b: _int = 1, *, c=None, **d) -> 'T': ..."), "f(a, /, b: int = 1, *, c=None, **d) -> T")
        self.assertEqual(shown("def f(self, *a: _bool) -> None: ..."), "f(*a: bool) -> None")
        self.assertEqual(shown("@classmethod\ndef f(cls, a) -> None: ..."), "@classmethod\nf(a) -> None")
        self.assertEqual(shown(f"def f(a{'a' * 60}, b{'b' * 60}): ..."), f"f(\n    a{'a' * 60},\n    b{'b' * 60},\n)")


@functools.cache
def generated():
    api = python_api.ternion(build_site.ROOT)
    return api, python_api.pages(api)


class TernionTest(unittest.TestCase):
    def test_every_module_of_the_tests_of_names_has_a_page(self):
        text = (build_site.ROOT / "python/tests/test_public_names.py").read_text()
        names = re.search(r'MODULES = """(.*?)"""', text, re.S)[1].split()
        self.assertGreater(len(names), 20)
        self.assertEqual(set(names) - set(generated()[0].modules), set())

    def test_every_link_leads_to_an_anchor(self):
        _, pages = generated()
        found = {path: python_api.anchors(text) for path, text in pages.items()}
        for path, text in pages.items():
            for target in re.findall(r"`\]\(([^)]+)\)", text):
                page, _, anchor = target.partition("#")
                page = f"python/{page}" if page else path
                self.assertIn(page, pages, f"{path}: {target}")
                self.assertTrue(not anchor or anchor in found[page], f"{path}: {target}")

    def test_anchors_are_unique_and_have_every_name(self):
        api, pages = generated()
        for path, text in pages.items():
            names = re.findall(r'<a id="([^"]+)">', text)
            self.assertEqual(sorted(names), sorted(set(names)), path)
        for module, entries in api.entries.items():
            missing = {name for name, found in entries.items() if found.kind != "module"} - {
                name.removeprefix(module + ".") for name in python_api.anchors(pages[api.page_of(module)])
            }
            self.assertEqual(missing, set(), module)

    def test_there_is_no_other_html(self):
        for path, text in generated()[1].items():
            text = re.sub(r"^(`{3,})\w+\n.*?^\1$", "", text, flags=re.S | re.M)
            text = re.sub(r'<a id="[\w.]+"></a>', "", docs.CODE.sub("", text))
            self.assertEqual(re.findall(r".*(?<!\\)[<>].*", text), [], path)

    def test_signatures_are_python(self):
        head = r"^(?:#+ `[^`]+`|\*\*(?:Operators|Other methods and properties)\*\*)"
        count = 0
        for path, text in generated()[1].items():
            for block in re.findall(head + r"\n\n```python\n(.*?)\n```$", text, re.S | re.M):
                for signature in re.findall(r"^(?:@\w+\n)?\w[^\n]*(?:\n {4}[^\n]*)*(?:\n\)[^\n]*)?", block, re.M):
                    ast.parse(self.definition(signature), path)
                    count += 1
        self.assertGreater(count, 1500)

    @staticmethod
    def definition(signature):
        """A signature as a statement: of a function with a body, or of a value with a type."""
        mark = re.match(r"(?:@\w+\n)?", signature)[0]
        rest = signature.removeprefix(mark).removeprefix("class ")
        return f"{mark}def {rest}: ..." if "(" in rest.split(":")[0] else rest

    def test_every_name_has_a_docstring(self):
        self.assertEqual(list(generated()[0].missing()), [])

    def test_long_classes(self):
        self.assertEqual(list(generated()[0].long), ["ternion.Tensor"])


if __name__ == "__main__":
    unittest.main()
