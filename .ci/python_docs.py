"""Docstrings and signatures of Python as Markdown.

Text of a docstring is escaped, except for code spans. Of Markdown it may have lists and tables.
Indented blocks are code. Sections have Google's form: `Args:`, `Raises:` and similar, with a list
of names; `Shapes: ..`, whose text may begin on the same line.
"""

import ast
import re

from python_names import decorators

SECTION = re.compile(r"(Args|Arguments|Attributes|Examples?|Keyword Args|Notes?|Raises|References|Returns|See also|Shapes?|Warnings?|Yields):(?:\s+(.*))?$")
ITEM = re.compile(r"(\*{0,2}[\w.]+(?:(?:, | or )\*{0,2}[\w.]+)*)(?: \(([^()]*)\))?:(?: +(.*))?$")
LISTS = {"Args", "Arguments", "Attributes", "Keyword Args", "Raises"}
CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
LIST = re.compile(r"(-|\*|\d+\.) +")
FENCE = re.compile(r"(```+|~~~+)\w*$")
WIDTH = 100


def plain(text):
    """Text with what Markdown and HTML would interpret escaped."""
    text = re.sub(r"([\\`*_\[\]<>|~])", r"\\\1", text.replace("&", "&amp;"))
    return text.replace("{{#", "\\{{#")


def escaped(text, link=None, cell=False):
    """A line of a docstring: code spans stay, the rest is escaped.

    Args:
        link: returns the target of a code span that is a name of the package, or None.
        cell: whether the text is in a table, where a code span may not have a bar.
    """
    parts, end = [], 0
    for span in CODE.finditer(text):
        parts.append(plain(text[end : span.start()]))
        code = (span[0].replace("|", "\\|") if cell else span[0]).replace("{{#", "\\{{#")
        target = link(span[2]) if link else None
        parts.append(f"[{code}]({target})" if target else code)
        end = span.end()
    return "".join([*parts, plain(text[end:])])


def paragraph(lines, link):
    """Lines as one line of Markdown that does not begin like a heading or a list."""
    text = escaped(" ".join(line.strip() for line in lines), link)
    return re.sub(r"^(#|\+(?= |$)|-(?= |-|$)|=|\d+(?=[.)]( |$)))", lambda mark: mark[0] + "\\" if mark[0].isdigit() else "\\" + mark[0], text)


def table_row(line, link):
    """A row of a table, cell by cell."""
    if re.fullmatch(r"[|:\- ]+", line):
        return line.strip()
    cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
    return "| " + " | ".join(escaped(cell.strip(), link) for cell in cells) + " |"


def blocks(lines):
    """The paragraphs of a text: lists of lines without the empty ones between them.

    An indented block is one, with its empty lines, and so is a fenced one.
    """
    found, fence = [], None
    for line in [*lines, ""]:
        mark = FENCE.match(line)
        if fence:
            found[-1].append(line)
            fence = None if line.strip() == fence else fence
        elif mark:
            fence = mark[1]
            found.append([line])
        elif not line.strip():
            # An empty line within code belongs to it, which the next line shows.
            found[-1].append("") if is_code(found) else found.append([])
        elif found and found[-1] and not FENCE.match(found[-1][0]) and (line.startswith("    ") or not is_code(found)):
            found[-1].append(line)
        else:
            found.append([line])
    return [block for block in found if block]


def is_code(found):
    """Whether the last block is an indented one."""
    return bool(found and found[-1] and found[-1][0].startswith("    "))


def code(lines):
    """An indented block as a fenced one."""
    text = "\n".join(line.removeprefix("    ") for line in lines).rstrip()
    return fenced(text, "python" if ">>>" in text or parses(text) else "text")


def fenced(text, language):
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}{language}\n" + text.replace("{{#", "\\{{#") + f"\n{fence}"


def parses(text):
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def block_markdown(lines, link):
    """A paragraph, list, table or code block as Markdown."""
    if lines[0].startswith("    "):
        return code(lines)
    if FENCE.match(lines[0]):
        return "\n".join(line.replace("{{#", "\\{{#") for line in lines).rstrip()
    if lines[0].startswith("|"):
        return "\n".join(table_row(line, link) for line in lines)
    first = list_start(lines)
    before = [paragraph(lines[:first], link)] if first else []
    entries = []
    for line in lines[first:]:
        mark = LIST.match(line)
        if mark:
            entries.append((mark[1], [line[mark.end() :]]))
        else:
            entries[-1][1].append(line)
    shown = "\n".join(f"{mark} {paragraph(entry, link)}" for mark, entry in entries)
    return "\n\n".join([*before, *([shown] if shown else [])])


def list_start(lines):
    """The number of the line on which a list begins: the first, or one after a colon."""
    for number, line in enumerate(lines):
        if LIST.match(line) and (number == 0 or lines[number - 1].endswith(":")):
            return number
    return len(lines)


def text_markdown(lines, link=None):
    """Text without sections as Markdown."""
    return "\n\n".join(block_markdown(block, link) for block in blocks(lines))


def items(lines):
    """The entries of a section as name, type and lines; entries without a name have None."""
    found = []
    for line in lines:
        match = None if line.startswith(" ") else ITEM.match(line)
        if match:
            found.append((match[1], match[2], [match[3] or ""]))
        elif found:
            found[-1][2].append(line.removeprefix("    "))
        else:
            found.append((None, None, [line]))
    return found


def item_markdown(entry, link):
    """An entry of a section as an item of a list."""
    name, kind, lines = entry
    names = re.sub(r"[*\w.]+", lambda one: one[0] if one[0] == "or" else f"`{one[0]}`", name) if name else ""
    head = names + (f" ({escaped(kind, link)})" if kind else "")
    text = text_markdown(lines, link).replace("\n", "\n  ")
    return f"- {head}: {text}" if head else f"- {text}"


def section_markdown(title, lines, link):
    """A section as Markdown: its title in bold, then a list of names or a text."""
    shown = {"Args": "Arguments", "Keyword Args": "Keyword arguments"}.get(title, title)
    if title in LISTS:
        body = "\n".join(re.sub(r"\n +\n", "\n\n", item_markdown(entry, link)) for entry in items([line for line in lines if line.strip()]))
        return f"**{shown}**\n\n{body}"
    text = text_markdown(lines, link)
    return f"**{shown}**\n\n{text}" if text.startswith(("`" * 3, "|", "- ")) else f"**{shown}**: {text}"


def sections(text):
    """The text before the sections, and the sections as title and lines."""
    before, found, target, indented = [], [], None, False
    for line in text.splitlines():
        match = SECTION.match(line)
        if match:
            target, indented = [match[2]] if match[2] else [], not match[2]
            found.append((match[1], target))
        elif target is not None and line and indented and not line.startswith(" "):
            # Text at the margin ends a section with an indented body.
            target = None
            found.append(("", [line]))
        elif target is None:
            (found[-1][1] if found else before).append(line)
        elif indented:
            target.append(line.removeprefix("    "))
        elif line:
            target.append(line)
        else:
            # An empty line ends a section with text on the line of its title.
            target = None
            found.append(("", []))
    return before, found


def docstring_markdown(text, link=None):
    """A docstring, without its indentation, as Markdown."""
    before, found = sections(text)
    parts = [text_markdown(before, link)]
    for title, lines in found:
        parts.append(section_markdown(title, lines, link) if title else text_markdown(lines, link))
    return "\n\n".join(part for part in parts if part)


def first_sentence(text):
    """The first sentence of a docstring, for an index, unescaped."""
    lines = (blocks(sections(text)[0]) or [[""]])[0]
    joined = " ".join(line.strip() for line in lines)
    # Periods within code spans do not end a sentence.
    covered = CODE.sub(lambda span: "x" * len(span[0]), joined)
    end = re.search(r"[.!?:](?= +[A-Z`(]|$)", covered)
    return joined[: end.end()].rstrip(":") if end else joined


def built_in(text):
    """An annotation with the built-in types instead of the names that stubs have for them."""
    return re.sub(r"(?<![\w.])_(bool|float|int)\b", r"\1", text)


def argument_list(arguments, skip_first=False):
    """The parameters of a function as texts, in the order of its signature."""
    regular = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(regular) - len(arguments.defaults)) + arguments.defaults
    shown = [one_argument(argument, default) for argument, default in zip(regular, defaults)]
    if arguments.posonlyargs:
        shown.insert(len(arguments.posonlyargs), "/")
    if skip_first and regular:
        shown = shown[1:]
        shown = shown[1:] if shown[:1] == ["/"] else shown
    if arguments.vararg:
        shown.append("*" + one_argument(arguments.vararg, None))
    elif arguments.kwonlyargs:
        shown.append("*")
    shown += [one_argument(argument, default) for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return [*shown, "**" + one_argument(arguments.kwarg, None)] if arguments.kwarg else shown


def one_argument(argument, default):
    kind = f": {annotation(argument.annotation)}" if argument.annotation else ""
    if default is None:
        return argument.arg + kind
    return argument.arg + kind + (" = " if kind else "=") + ast.unparse(default)


def annotation(node):
    """A type, without the quotes of names that are defined later."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)
    return built_in(text)


def laid_out(head, arguments, tail):
    """A signature on one line, or with one argument per line if that is too long."""
    line = f"{head}({', '.join(arguments)}){tail}"
    if len(line) <= WIDTH or not arguments:
        return line
    return f"{head}(\n" + "".join(f"    {argument},\n" for argument in arguments) + f"){tail}"


def signature(node, name, in_class=False):
    """The signature of a function or method, without `self`."""
    kinds = decorators(node)
    result = f" -> {annotation(node.returns)}" if node.returns else ""
    if "property" in kinds or "cached_property" in kinds:
        return name + (f": {annotation(node.returns)}" if node.returns else "")
    mark = "".join(f"@{kind}\n" for kind in ("classmethod", "staticmethod") if kind in kinds)
    skip = in_class and "staticmethod" not in kinds
    return mark + laid_out(name, argument_list(node.args, skip), result)
