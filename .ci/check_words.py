"""Checks the wording of comments, strings and documents against the word list, `.ci/words.txt`.

check_words.py              checks all files; fails with file:line, the word and the term to use
check_words.py PATH ..      checks only these files and folders
check_words.py --count      prints the number of hits in the whole tree, by folder and by pattern

Code, code spans, code fences, link targets, URLs and paths are not prose and are not checked.
"""

import argparse
import bisect
import collections
import fnmatch
import itertools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The word list itself, and the test that plants words.
EXCLUDED = {".ci/words.txt", ".ci/test_check_words.py"}

# Comments and strings by language. A character literal is matched so that a quote inside it does
# not open a string.
STRING = r'"(?:\\.|[^"\\\n])*"'
C = re.compile(rf"//[^\n]*|/\*.*?\*/|{STRING}|'(?:\\[^\n]|[^'\\\n])'", re.S)
RUST = re.compile(r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*"|'(?:\\[^\n][^'\n]*|[^'\\\n])'""", re.S)
PYTHON = re.compile(rf"""#[^\n]*|[rbufRBUF]{{0,2}}(?:(?P<quote>\"\"\"|''')(?:\\.|.)*?(?P=quote)|{STRING}|'(?:\\.|[^'\\\n])*')""", re.S)
SHELL = re.compile(rf"(?:(?<=\s)|^)#[^\n]*|{STRING}|'[^'\n]*'", re.M)
LEXERS = {".rs": RUST, ".cu": C, ".cuh": C, ".h": C, ".wgsl": C, ".py": PYTHON, ".pyi": PYTHON, ".sh": SHELL, ".toml": SHELL, "": SHELL}
HAS_CHARACTERS = {".rs", ".cu", ".cuh", ".h", ".wgsl"}

COMMENT_MARKERS = re.compile(r"\A(?://+!?|/\*+!?|#+!?)|(?<=\n)[ \t]*\*(?!/)|\*/\Z")
QUOTES = re.compile(r"\A[a-zA-Z]{0,2}#*(?:\"\"\"|'''|\"|')|(?:\"\"\"|'''|\"|')#*\Z")
# Names inside prose: code spans, link targets, URLs, paths, format placeholders, HTML comments.
NAMES = re.compile(
    r"(?P<ticks>`+)[^`\n]+(?P=ticks)|(?<=\])\([^()\n]*\)|\bhttps?://[^\s)>\]]+|<!--.*?-->|\{[^{}\n]*\}"
    r"|[\w.*-]*/[\w./*-]*\.\w+|\b[\w-]+\.(?:rs|cu|cuh|wgsl|py|pyi|md|toml|txt|json|jsonl|svg|sh)\b",
    re.S,
)
FENCE = re.compile(r"[ \t>]*(?:```|~~~)")
PROMPT = re.compile(r"[ \t]*(?:>>>|\.\.\.) ")

Entry = collections.namedtuple("Entry", "pattern term allowed")
Hit = collections.namedtuple("Hit", "path line text entry")


def masked(text, by):
    """The text with every character except line ends replaced."""
    return re.sub(r"[^\n]", by, text)


def token_prose(token):
    """A comment or string of the same length, without its markers, quotes and escapes."""
    if token.startswith(("//", "/*", "#")):
        return COMMENT_MARKERS.sub(lambda marker: masked(marker[0], " "), token)
    token = QUOTES.sub(lambda quote: masked(quote[0], "\0"), token)
    return re.sub(r"\\(?:\n|.)", lambda escape: masked(escape[0], " "), token)


def without_examples(text):
    """The text without fenced code blocks and interpreter sessions."""
    lines, fenced = [], False
    for line in text.split("\n"):
        fence = bool(FENCE.match(line))
        # A fence ends with its comment at the latest.
        fenced = fenced != fence and "\0" not in line
        lines.append(masked(line, "\0") if fenced or fence or PROMPT.match(line) else line)
    return "\n".join(lines)


def prose(path, text):
    """The text of a file with the same lines and columns; all except prose and spaces is NUL."""
    suffix = pathlib.PurePosixPath(path).suffix
    if suffix != ".md":
        parts, end = [], 0
        for token in LEXERS[suffix].finditer(text):
            parts.append(re.sub(r"\S", "\0", text[end : token.start()]))
            is_character = suffix in HAS_CHARACTERS and token[0].startswith("'")
            parts.append(masked(token[0], "\0") if is_character else token_prose(token[0]))
            end = token.end()
        text = "".join([*parts, re.sub(r"\S", "\0", text[end:])])
    return NAMES.sub(lambda name: masked(name[0], "\0"), without_examples(text))


def joined(text):
    """The words of masked text with single spaces, and the offset and line of each; code and empty
    lines become one NUL."""
    words = [("\0" if set(word) == {"\0"} else word, line) for line, row in enumerate(text.split("\n"), 1) for word in row.split() or ["\0"]]
    words = [word for before, word in itertools.pairwise([(None, 0), *words]) if word[0] != "\0" or before[0] != "\0"]
    starts = list(itertools.accumulate((len(word) + 1 for word, _ in words), initial=0))
    return " ".join(word for word, _ in words), starts, [line for _, line in words]


def entries(text):
    """The entries of a word list: pattern, term and globs, separated by tabs. Empty lines and
    comments are skipped."""
    rows = [line.split("\t") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [Entry(row[0], row[1], row[2].split() if len(row) > 2 else []) for row in rows]


def compiled(word_list):
    """Each entry with its pattern, which matches whole words."""
    return [(entry, re.compile(rf"(?<!\w)(?:{entry.pattern})(?!\w)", re.I)) for entry in word_list]


def is_under(path, patterns):
    """Whether a path is one of these files, is inside one of these folders, or matches one of these
    globs."""
    return any(path == pattern or path.startswith(pattern.rstrip("/") + "/") or fnmatch.fnmatch(path, pattern) for pattern in patterns)


def hits(path, text, patterns):
    """The listed words in a file that are not allowed there, by line."""
    text, starts, lines = joined(prose(path, text))
    applicable = [(entry, pattern) for entry, pattern in patterns if not is_under(path, entry.allowed)]
    found = [(match, entry) for entry, pattern in applicable for match in pattern.finditer(text)]
    found.sort(key=lambda hit: hit[0].start())
    return [Hit(path, lines[bisect.bisect(starts, match.start()) - 1], match[0], entry) for match, entry in found]


def is_checked(path):
    """Whether a path is a regular file of a known language and is not excluded."""
    suffix = pathlib.PurePosixPath(path).suffix
    known = suffix == ".md" or (suffix and suffix in LEXERS) or path == ".ci/run"
    return known and path not in EXCLUDED and (ROOT / path).is_file() and not (ROOT / path).is_symlink()


def files():
    """The files of the repository that are checked, new ones included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({path for path in listed if path and is_checked(path)})


def folder(path):
    """The part of the tree under which a file is counted: a crate or a top folder."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "crates" else parts[0] if len(parts) > 1 else "(root)"


def counts(found):
    """The number of hits by folder and by pattern, as lines."""
    by_folder = collections.Counter(folder(hit.path) for hit in found)
    by_pattern = collections.defaultdict(collections.Counter)
    for hit in found:
        by_pattern[hit.entry[:2]][folder(hit.path)] += 1
    yield from (f"{count:6}  {name}" for name, count in by_folder.most_common())
    yield f"{len(found):6}  total"
    for (pattern, term), folders in sorted(by_pattern.items(), key=lambda row: -row[1].total()):
        yield f"{folders.total():6}  {pattern} -> {term} ({', '.join(f'{name} {count}' for name, count in folders.most_common())})"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="print the number of hits by folder and by pattern")
    parser.add_argument("paths", nargs="*", help="files and folders to check instead of all")
    return parser.parse_args()


def selected(options):
    """The files to check: the given paths, else all."""
    every = files()
    unmatched = [pattern for pattern in options.paths if not any(is_under(path, [pattern]) for path in every)]
    if unmatched:
        sys.exit(f"no file to check: {', '.join(unmatched)}")
    return [path for path in every if not options.paths or is_under(path, options.paths)]


def main():
    options = arguments()
    patterns = compiled(entries((ROOT / ".ci/words.txt").read_text()))
    paths = selected(options)
    found = [hit for path in paths for hit in hits(path, (ROOT / path).read_text(), patterns)]
    if options.count:
        print("\n".join(counts(found)))
        return
    for hit in found:
        print(f"{hit.path}:{hit.line}: {hit.text!r}; use: {hit.entry.term}")
    print(f"{len(paths)} files checked, {len(found)} words to replace")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
