"""Checks the crates that are published: their metadata, and that each package has the files that
its build reads.

check_packages.py           checks all crates; fails with the crate and what is missing

Nothing is built: `.ci/release` builds each crate from its package.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Limits of the registry.
KEYWORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]{0,19}")
MOST_KEYWORDS = MOST_CATEGORIES = 5
MOST_BYTES = 10 << 20
# The categories in use. The registry drops others than its own without an error.
CATEGORIES = {"development-tools::testing", "hardware-support", "mathematics", "science", "visualization"}
TEXTS = ["description", "license", "repository", "rust_version"]
EXPECTED = {"Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"}
# A file that a source includes by its path, and a folder whose files a macro includes.
FILE = re.compile(r'(?:include(?:_str|_bytes)?!\(\s*|#\[path\s*=\s*)"([^"]+)"')
FOLDER = re.compile(r'include(?:_str|_bytes)!\(\s*concat!\(\s*"([^"]+)/",')


def metadata_faults(package):
    """What is missing in the metadata of a crate, given as `cargo metadata` prints it."""
    faults = [f"Cargo.toml has no {name}" for name in TEXTS if not package[name]]
    keywords, categories = package["keywords"], package["categories"]
    if not 0 < len(keywords) <= MOST_KEYWORDS:
        faults.append(f"{len(keywords)} keywords, expected 1 to {MOST_KEYWORDS}")
    faults += [f"the keyword {word!r} is too long or has other characters than letters, digits, _, + and -" for word in keywords if not KEYWORD.fullmatch(word)]
    if not 0 < len(categories) <= MOST_CATEGORIES:
        faults.append(f"{len(categories)} categories, expected 1 to {MOST_CATEGORIES}")
    faults += [f"{name!r} is not among the categories in use (.ci/check_packages.py)" for name in categories if name not in CATEGORIES]
    if package["readme"] != "README.md":
        faults.append(f"the readme is {package['readme']}, expected README.md")
    docs = ((package["metadata"] or {}).get("docs") or {}).get("rs") or {}
    if not docs.get("targets"):
        faults.append("package.metadata.docs.rs has no targets")
    return faults


def has_unpublished_tests(package):
    """Whether tests need crates that the package does not name: Cargo removes dev-dependencies
    without a version.
    """
    return any(one["kind"] == "dev" and one.get("path") and one["req"] == "*" for one in package["dependencies"])


def includes(path, text):
    """The files and the folders that a source includes, as paths in its package."""
    folder = pathlib.PurePosixPath(path).parent
    files = {normal(folder / name) for name in FILE.findall(text)}
    folders = {normal(folder / name) for name in FOLDER.findall(text)}
    return files, folders


def normal(path):
    """A path without `..` in the middle."""
    parts = []
    for part in path.parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def file_faults(folder, listed, tracked):
    """The files that a package lacks. `folder` is that of the crate, `listed` has the paths of the
    package, and `tracked` returns the files of a folder that are under version control.
    """
    faults = [f"the package has no {name}" for name in sorted(EXPECTED - listed)]
    for path in sorted(listed):
        if not path.endswith(".rs"):
            continue
        files, folders = includes(path, (folder / path).read_text(encoding="utf-8"))
        for name in folders:
            found = {f"{name}/{file}" for file in tracked(folder / name)}
            files |= found or {f"{name}/*"}
        faults += [f"{path} includes {name}, which the package lacks" for name in sorted(files - listed)]
    bytes_ = sum((folder / path).stat().st_size for path in listed if (folder / path).is_file())
    if bytes_ > MOST_BYTES:
        faults.append(f"the package has {bytes_} bytes, expected at most {MOST_BYTES}")
    return faults


def test_faults(package, listed):
    """Tests and benchmarks in a package that cannot compile there."""
    if not has_unpublished_tests(package):
        return []
    return [f"{path} is in the package, but a dev-dependency without a version is not" for path in sorted(listed) if path.startswith(("tests/", "benches/"))]


def output(*command):
    """What a command prints. Its errors are shown, and end the check."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}")
    return done.stdout


def tracked_files(folder):
    """The files under version control in a folder, also if it is a link; relative to it."""
    real = folder.resolve()
    return output("git", "-C", str(real), "ls-files").splitlines() if real.is_dir() else []


def published():
    """The crates that are published, as `cargo metadata` prints them."""
    every = json.loads(output("cargo", "metadata", "--no-deps", "--locked", "--format-version", "1"))["packages"]
    return [package for package in every if package["publish"] != []]


def main():
    faults, packages = [], published()
    for package in packages:
        folder = pathlib.Path(package["manifest_path"]).parent
        listed = set(output("cargo", "package", "--list", "--allow-dirty", "--locked", "-p", package["name"]).splitlines())
        found = metadata_faults(package) + file_faults(folder, listed, tracked_files) + test_faults(package, listed)
        faults += [f"{package['name']}: {fault}" for fault in found]
    print(*faults, f"{len(packages)} packages checked, {len(faults)} findings", sep="\n")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
