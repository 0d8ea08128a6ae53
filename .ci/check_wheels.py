"""Checks wheels of the Python package before they are distributed.

check_wheels.py FOLDER ARCHITECTURE..   there is one wheel for each architecture, with the files of
                                        python/ternion, a library for that architecture, the
                                        licenses, and no path of the machine that built it
"""

import pathlib
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = "ternion_ml"
PLATFORM = "cp39-abi3-manylinux_2_28"
LIBRARY = "ternion/_ternion.abi3.so"
# The machine in the header of an ELF file.
MACHINES = {"x86_64": 0x3E, "aarch64": 0xB7}
# Lines of the metadata.
METADATA = ["Name: ternion-ml", "Provides-Extra: cuda13", "License-Expression: MIT OR Apache-2.0", "Requires-Dist: numpy"]


def faults(wheel, architecture, sources, private):
    """What is wrong with a wheel. `sources` are the files of the package, and `private` are texts
    that must not be in the library.
    """
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    packed = {name for name in files if name.startswith("ternion/")}
    found = [f"it has no {name}" for name in sorted({*sources, LIBRARY} - packed)]
    found += [f"it has {name}, which the repository has not" for name in sorted(packed - {*sources, LIBRARY})]
    info = [name for name in files if ".dist-info/" in name]
    found += [f"it has no {name}" for name in ("LICENSE-MIT", "LICENSE-APACHE") if not any(file.endswith(f"/{name}") for file in info)]
    metadata = "".join(files[name].decode() for name in info if name.endswith("/METADATA")).splitlines()
    found += [f"its metadata has no line {line}" for line in METADATA if line not in metadata]
    library = files.get(LIBRARY, b"")
    if int.from_bytes(library[18:20], "little") != MACHINES[architecture]:
        found.append(f"its library is not for {architecture}")
    return found + [f"its library names {text}" for text in private if text.encode() in library]


def sources():
    listed = subprocess.run(["git", "ls-files", "python/ternion"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {line.removeprefix("python/") for line in listed.splitlines()}


def main():
    folder, architectures = pathlib.Path(sys.argv[1]), sys.argv[2:]
    private = [str(ROOT), str(pathlib.Path.home() / ".cargo")]
    for architecture in architectures:
        wheels = list(folder.glob(f"{NAME}-*-{PLATFORM}_{architecture}.whl"))
        if len(wheels) != 1:
            sys.exit(f"{folder} has {len(wheels)} wheels {NAME}-*-{PLATFORM}_{architecture}.whl, expected 1")
        found = faults(wheels[0], architecture, sources(), private)
        print(*(f"{wheels[0].name}: {fault}" for fault in found), f"{wheels[0].name}: {wheels[0].stat().st_size} bytes, {len(found)} findings", sep="\n")
        if found:
            sys.exit(1)


if __name__ == "__main__":
    main()
