"""Where the kernel compiler NVRTC is searched for: first in the wheels of the interpreter that
imports the package."""

import os
import shutil
import subprocess
import sys

import pytest

import ternion

#: A library with NVRTC's functions and its own version. Nothing is compiled.
LIBRARY = r"""
int nvrtcVersion(int *major, int *minor) { *major = 77; *minor = 5; return 0; }
int nvrtcGetErrorString(void) { return 0; }
int nvrtcCreateProgram(void) { return 1; }
int nvrtcCompileProgram(void) { return 1; }
int nvrtcGetCUBINSize(void) { return 1; }
int nvrtcGetCUBIN(void) { return 1; }
int nvrtcGetProgramLogSize(void) { return 1; }
int nvrtcGetProgramLog(void) { return 1; }
int nvrtcDestroyProgram(void) { return 1; }
"""

PROGRAM = """
import ternion
try:
    print(*ternion.cuda.nvrtc_version())
except RuntimeError as error:
    print(error)
"""

in_c = pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="makes a library in C")


def printed(packages, **variables):
    """Returns what the program prints if a folder of packages is in `sys.path`."""
    environment = {name: value for name, value in os.environ.items() if name != "TERNION_NVRTC"}
    environment["PYTHONPATH"] = os.pathsep.join([str(packages)] + [path for path in sys.path if path])
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env={**environment, **variables}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def install_wheel(packages, library):
    """Installs a library as the wheel of NVRTC of CUDA 13 does. Returns its folder."""
    folder = packages / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    (packages / "nvrtc.c").write_text(library)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(folder / "libnvrtc.so.13"), str(packages / "nvrtc.c")], check=True)
    return folder


def skip_without_cuda(text):
    if "not compiled in" in text:
        pytest.skip("built without CUDA")


@in_c
def test_the_wheel_of_the_interpreter_is_used(tmp_path):
    folder = install_wheel(tmp_path, LIBRARY)
    text = printed(tmp_path)
    skip_without_cuda(text)
    assert text == "77 5"
    # A folder that is named comes first.
    (tmp_path / "empty").mkdir()
    assert "no libnvrtc.so" in printed(tmp_path, TERNION_NVRTC=str(tmp_path / "empty"))
    assert printed("/nowhere", TERNION_NVRTC=str(folder)) == "77 5"


def test_without_a_compiler_the_error_says_what_to_install(tmp_path):
    text = printed(tmp_path, TERNION_NVRTC=str(tmp_path))
    skip_without_cuda(text)
    assert text.startswith("device cuda: TERNION_NVRTC names ") and str(tmp_path) in text


def test_the_version_is_a_pair():
    try:
        major, minor = ternion.cuda.nvrtc_version()
    except RuntimeError as error:
        pytest.skip(f"no NVRTC: {error}")
    assert (major, minor) >= (12, 1)
