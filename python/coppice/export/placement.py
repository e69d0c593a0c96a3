"""Moves a graph that was traced on the CPU to CUDA: its tensors, and numbers in place of
tensors."""

import torch
from torch.utils._pytree import tree_map


def on_cuda(value):
    """A fake tensor on the CPU as one on CUDA; anything else as it is."""
    if not isinstance(value, torch._subclasses.FakeTensor):
        return value
    with value.fake_mode:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda")


def makes_on_cpu(node):
    """Whether a node makes a tensor from no other tensor, and names no device."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    arguments = {argument.name: str(argument.type) for argument in node.target._schema.arguments}
    given = dict(zip(arguments, node.args)) | node.kwargs
    return "device" in arguments and given.get("device") is None and not any(
        "Tensor" in kind for kind in arguments.values())


def hold_numbers(node):
    """If an operator gets numbers in place of all its tensors, gives it tensors that hold the
    numbers and are on the device of the others."""
    result = node.meta.get("val")
    takes_tensor = ["Tensor" in str(argument.type) for argument in node.target._schema.arguments]
    values = [value.meta.get("val") if isinstance(value, torch.fx.Node) else value
              for value, takes in zip(node.args, takes_tensor) if takes]
    if not values or not isinstance(result, torch._subclasses.FakeTensor) or not all(
            isinstance(value, (int, float, torch.SymInt)) for value in values):
        return
    node.args = tuple(held(node, result.fake_mode, value) if takes else value
                      for value, takes in zip(node.args, takes_tensor))


def held(user, mode, value):
    """Inserts a node that makes a tensor of one number, before another node."""
    known = value.meta["val"] if isinstance(value, torch.fx.Node) else value
    dtype = torch.get_default_dtype() if isinstance(known, float) else (
        torch.bool if isinstance(known, bool) else torch.int64)
    with user.graph.inserting_before(user):
        made = user.graph.call_function(torch.ops.aten.scalar_tensor.default, (value,),
                                        {"dtype": dtype, "device": torch.device("cuda")})
    with mode:
        made.meta["val"] = torch.empty((), dtype=dtype, device="cuda")
    return made


def move_to_cuda(module):
    """Moves a graph, and the graphs that it calls, to CUDA. It was traced on the CPU, where its
    inputs are."""
    cuda = torch.device("cuda")

    def moved(value):
        return cuda if isinstance(value, torch.device) else value

    for part in [part for part in module.modules() if isinstance(part, torch.fx.GraphModule)]:
        for node in list(part.graph.nodes):
            node.args, node.kwargs = tree_map(moved, node.args), tree_map(moved, node.kwargs)
            if isinstance(node.target, torch._ops.OpOverload):
                hold_numbers(node)
            if makes_on_cpu(node):
                node.kwargs = {**node.kwargs, "device": cuda}
            if "val" in node.meta:
                node.meta["val"] = tree_map(on_cuda, node.meta["val"])
            if node.target == torch.ops.aten._assert_tensor_metadata.default:
                part.graph.erase_node(node)
        part.recompile()
