"""What Dynamo knows of the function that it compiles: which function the graph belongs to, the
names of its sizes, and whether Python runs code between this graph and the next.
"""

import dataclasses
import re

import torch

# What PyTorch notes of axes on tensors that the caller marked.
MARKS = ("_dynamo_dynamic_indices", "_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices")
RESUMED = "torch_dynamo_resume_in_"  # How the rest of a function begins that a break cut in two.


@dataclasses.dataclass(frozen=True)
class Frame:
    """A graph of Dynamo's, and the function that it belongs to."""

    function: str = "a graph"  # "forward (model.py:12)"
    owner: object = None  # The backend as torch.compile wrapped it.
    recompiled: str = ""  # Why it is compiled again; empty the first time.
    graph_break: str = ""  # Why Python runs before or behind the graph; empty: it does not.
    sizes: tuple = ()  # Names of the axes of all its tensors: "x:0".
    variables: frozenset = frozenset()  # What the function calls its variables.
    inputs: tuple = ()  # Names of all that the graph takes, by position; "" of what has none.
    marked: frozenset = frozenset()  # Names of the axes that the caller marked as varying.


def frame_of(module):
    """The frame that Dynamo compiles to this graph module. Dynamo may call the backend again for
    sizes that it specialises on; the frame is then the same."""
    from torch._dynamo import symbolic_convert
    from torch._dynamo.eval_frame import innermost_backend
    from torch._dynamo.utils import get_metrics_context

    translator = getattr(symbolic_convert.tls, "current_tx", None)
    if translator is None:
        return module.meta.get("coppice_frame", Frame())
    reason = getattr(get_metrics_context(), "_metrics", {}).get("recompile_reason") or ""
    output, code = translator.output, translator.output.root_tx.f_code
    found = Frame(name_of(output.root_tx), innermost_backend(output.compiler_fn),
                  " ".join(str(reason).split()), break_of(output, code), sizes_of(module),
                  frozenset(code.co_varnames + code.co_cellvars + code.co_freevars),
                  inputs_of(module), marked_in(module))
    module.meta["coppice_frame"] = found
    return found


def name_of(root):
    """The function of a frame, as "forward (model.py:12)". If the frame is that of a wrapper of
    PyTorch's, it is the wrapped function."""
    called = root.f_locals.get("fn") if root.f_code.co_name == "inner" else None
    called = getattr(called, "forward", called)
    code = getattr(getattr(called, "__func__", called), "__code__", root.f_code)
    name = getattr(code, "co_qualname", code.co_name)
    return f"{name} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"


def break_of(output, code):
    """Why Python code runs before or after the graph: the graph break at its end, or the one before
    it."""
    reason = getattr(output, "compile_subgraph_reason", None)
    if reason is not None and reason.graph_break:
        where = next((f" at {frame.filename.rpartition('/')[2]}:{frame.lineno}"
                      for frame in reversed(reason.user_stack)), "")
        why, _, _ = reason.reason.strip().partition("\n")
        return f"graph break{where}: {why}"
    if code.co_name.startswith(RESUMED):
        return "graph break: Python runs the code before it"
    return ""


def spelled(source):
    """A source of Dynamo's as options and reports spell it: "x:0" for an axis, "n" for an
    integer."""
    text = source.name if isinstance(source.name, str) else source.name()
    match = re.fullmatch(r"(.*?)(?:\.size\(\)\[(\d+)\])?", text)
    whole = re.sub(r"\b[LG]\['(\w+)'\]", r"\1", match[1])
    return f"{whole}:{match[2]}" if match[2] else whole


def sizes_of(module):
    """Names of the axes of all tensors that a graph of Dynamo's takes, except parameters."""
    names = []
    for node in module.graph.find_nodes(op="placeholder"):
        value = node.meta.get("example_value")
        source = getattr(node.meta.get("grapharg"), "source", None)
        if isinstance(value, torch.Tensor) and source is not None and not isinstance(
                value, torch.nn.Parameter):
            names += [f"{spelled(source)}:{axis}" for axis in range(value.dim())]
    return tuple(names)


def inputs_of(module):
    """The caller's names for all inputs of a graph of Dynamo's."""
    sources = [getattr(node.meta.get("grapharg"), "source", None)
               for node in module.graph.find_nodes(op="placeholder")]
    return tuple(spelled(source) if source is not None else "" for source in sources)


def marked_in(module):
    """Names of the axes that the caller marked as varying, by mark_dynamic or mark_unbacked. If
    torch.compile was given dynamic_shapes, only the axes that they name vary."""
    spelled_out = getattr(torch._dynamo.config, "_dynamic_shapes_spec", None) is not None
    names = set()
    for node, name in zip(module.graph.find_nodes(op="placeholder"), inputs_of(module)):
        example = getattr(node.meta.get("grapharg"), "example", None)
        axes = {axis for mark in MARKS for axis in getattr(example, mark, ())}
        if spelled_out and isinstance(example, torch.Tensor):
            axes = range(example.dim())
        names |= {f"{name}:{axis}" for axis in axes}
    return frozenset(names)


def unknown_names(given, frame, earlier, tensors=()):
    """Names of sizes, and of `tensors`, that neither this graph nor `earlier` graphs of the
    function have. A variable that is not an input of this graph may be one of another graph."""
    if frame.owner is None:
        return []
    known = {*frame.sizes, *earlier}
    taken = {head_of(name) for name in known}
    unknown = [name for name in given if name not in known]
    unknown += [name for name in tensors if name not in {one.partition(":")[0] for one in known}]
    return [name for name in unknown
            if head_of(name) in taken or head_of(name) not in frame.variables]


def head_of(name):
    """"args" of "args[0]:1"."""
    return re.match(r"\w*", name)[0]
