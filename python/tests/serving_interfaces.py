#!/usr/bin/env python3
"""Writes serving_interfaces.json beside this file: of vLLM and SGLang, what
samples/python/serving_runner.py takes the place of, and what it asks of them, by name.

    pip download --no-deps vllm sglang
    serving_interfaces.py vllm-*.whl sglang-*.whl

Reads wheels' sources as text: nothing of them is run. Exits with 1 if something of WANTED is not
there any more, and names it.
"""

import argparse
import ast
import json
import pathlib
import re
import sys
import zipfile

TABLE = pathlib.Path(__file__).resolve().parent / "serving_interfaces.json"

# Module, class (empty: none), and methods, functions or imported names; "fields" of a dataclass.
WANTED = {
    "vllm": [
        ("vllm.compilation.cuda_graph", "CUDAGraphWrapper",
         ("__init__", "__call__", "unwrap", "cudagraph_wrapper", "clear_graphs",
          "clear_all_graphs")),
        ("vllm.compilation.monitor", "", ("validate_cudagraph_capturing_enabled",)),
        ("vllm.forward_context", "", ("get_forward_context", "is_forward_context_available")),
        ("vllm.forward_context", "BatchDescriptor", ("fields",)),
        ("vllm.forward_context", "ForwardContext", ("fields",)),
        ("vllm.compilation.backends", "", ("current_platform",)),
        *((f"vllm.v1.worker.{module}", "", ("CUDAGraphWrapper",))
          for module in ("gpu_model_runner", "gpu.cudagraph_utils", "gpu.model_runner")),
        ("vllm.platforms.interface", "Platform", ("get_static_graph_wrapper_cls",)),
        ("vllm.v1.cudagraph_dispatcher", "CudagraphDispatcher", ("dispatch",)),
    ],
    "sglang": [
        ("sglang.srt.model_executor.runner.decode_cuda_graph_runner", "DecodeCudaGraphRunner",
         ("__init__", "can_run_graph", "load_batch", "execute", "capture")),
        ("sglang.srt.model_executor.runner.base_cuda_graph_runner", "",
         ("get_batch_sizes_to_capture",)),
        ("sglang.srt.layers.attention.base_attn_backend", "AttentionBackend",
         ("get_cuda_graph_seq_len_fill_value", "init_cuda_graph_state",
          "init_forward_metadata_out_graph", "init_forward_metadata_in_graph")),
        ("sglang.srt.model_executor.forward_batch_info", "ForwardBatch", ("fields",)),
        ("sglang.srt.layers.logits_processor", "LogitsProcessorOutput", ("fields",)),
        ("sglang.srt.model_executor.forward_context", "", ("forward_context",)),
        ("sglang.srt.model_executor.forward_context", "ForwardContext", ("fields",)),
        ("sglang.srt.model_executor.model_runner_components.cuda_graph_setup", "",
         ("current_platform",)),
        ("sglang.srt.platforms.interface", "SRTPlatform", ("get_graph_runner_cls",)),
    ],
}


def parameters(function):
    """A function's, as text: "x", "x=" with a default, "*", "*args", "**kwargs"."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults = len(plain) - len(given.defaults)
    names = [one.arg + "=" * (index >= defaults) for index, one in enumerate(plain)]
    if given.vararg or given.kwonlyargs:
        names.append("*" + (given.vararg.arg if given.vararg else ""))
    names += [one.arg + "=" * (default is not None)
              for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg:
        names.append("**" + given.kwarg.arg)
    return [name for index, name in enumerate(names) if index or name not in ("self", "cls")]


def fields(body):
    return [node.target.id + "=" * (node.value is not None) for node in body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]


def imports(body, name):
    return any(alias.name == name for node in body if isinstance(node, ast.ImportFrom)
               for alias in node.names)


def find(body, kind, name):
    return next((node for node in body if isinstance(node, kind) and node.name == name), None)


def rows_of(wheel):
    """The table's rows of one wheel; raises LookupError for what is not there."""
    package, version = re.match(r"(\w+)-([^-]+)-", wheel.name).groups()
    with zipfile.ZipFile(wheel) as files:
        for module, owner, methods in WANTED[package]:
            body = ast.parse(files.read(module.replace(".", "/") + ".py")).body
            if owner:
                found = find(body, ast.ClassDef, owner)
                if found is None:
                    raise LookupError(f"{wheel.name}: {module} has no class {owner}")
                body = found.body
            for method in methods:
                function = find(body, ast.FunctionDef, method)
                if method != "fields" and function is None and not imports(body, method):
                    raise LookupError(f"{wheel.name}: {module} has no "
                                      f"{owner + '.' if owner else ''}{method}")
                yield {"package": package, "version": version, "module": module, "class": owner,
                       "method": method,
                       "parameters": parameters(function) if function else
                       fields(body) if method == "fields" else []}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", nargs="+", type=pathlib.Path, metavar="WHEEL")
    options = parser.parse_args()
    unknown = [wheel.name for wheel in options.wheels
               if wheel.name.partition("-")[0] not in WANTED or wheel.suffix != ".whl"]
    if unknown:
        parser.error(f"{unknown[0]}: give wheels of {' and '.join(WANTED)}")
    try:
        made = [row for wheel in options.wheels for row in rows_of(wheel)]
    except (LookupError, OSError, zipfile.BadZipFile) as error:
        print(f"serving_interfaces.py: {error}", file=sys.stderr)
        return 1
    given = {row["package"] for row in made}
    kept = [row for row in json.loads(TABLE.read_text()) if row["package"] not in given] \
        if TABLE.exists() else []
    rows = sorted([*kept, *made], key=lambda row: list(WANTED).index(row["package"]))
    TABLE.write_text("[\n" + ",\n".join(" " + json.dumps(row) for row in rows) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
