"""Lets SGLang start where there is no NVIDIA driver.

    python sglang_stub.py FOLDER

Some of its compiled parts are linked against `libcuda.so.1`. Writes FOLDER/stub/libcuda.so.1, whose
every function answers "no device", as a machine without one would. Needs a C compiler.
"""

import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

NO_DEVICE = 100


def wanted():
    """Names of the driver's functions that any library of this environment asks for."""
    names = {"cuInit", "cuDriverGetVersion", "cuGetErrorString", "cuGetErrorName", "cuGetProcAddress"}
    root = Path(next(iter(distributions())).locate_file(""))
    for library in root.rglob("*.so*"):
        data = library.read_bytes()
        if b"libcuda.so.1" in data:
            names |= {name.decode() for name in re.findall(rb"\0(cu[A-Z][A-Za-z0-9_]+)(?=\0)", data)}
    return sorted(names)


folder = Path(sys.argv[1]) / "stub"
folder.mkdir(exist_ok=True)
source = folder / "stub.c"
source.write_text("".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in wanted()))
target = folder / "libcuda.so.1"
subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", target, source], check=True)
