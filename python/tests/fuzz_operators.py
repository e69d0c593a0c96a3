"""The operators that drawn programs are made of: how a line of each is written, how exact it is.

What a tensor holds has a *level*: how far results may be from eager's. Data are small multiples of
1/4, so that sums and products of them are the same in any order; an operator that jumps, as a
comparison, takes nothing less exact than VALUE.
"""

import dataclasses

import torch

# Levels. BITS: moved, or integers. VALUE: equal, but zeros may have another sign. Behind it what is
# rounded, by the coarsest type that it went through.
BITS, VALUE, CLOSE = 0, 1, 2
ROUNDED = {torch.float64: 2, torch.float32: 3, torch.float16: 4, torch.bfloat16: 5}
ANYTHING = 5

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
KINDS = {"float": FLOATS, "wide": FLOATS[:2], "integer": INTEGERS, "bool": (torch.bool,),
         "index": (torch.int64,), "number": FLOATS + INTEGERS,
         "whole": (*INTEGERS, torch.bool), "any": (*FLOATS, *INTEGERS, torch.bool)}
SAME_BYTES = {8: (torch.float64, torch.int64), 4: (torch.float32, torch.int32),
              2: (torch.float16, torch.bfloat16, torch.int16),
              1: (torch.int8, torch.uint8, torch.bool)}

class NoOperand(Exception):
    """A program has no tensor yet that an operator takes."""

@dataclasses.dataclass(frozen=True)
class Operator:
    """write(draw) gives the text of a line behind "v3 = "; `results` 0 is one that writes in place.
    `level` is the best that comes out, `need` the worst that may go in."""

    name: str
    family: str
    level: int
    need: int
    results: int
    write: object

OPERATORS = {}

def add(family, level, need, results, **writers):
    for name, write in writers.items():
        assert name not in OPERATORS, name
        OPERATORS[name] = Operator(name, family, level, need, results, write)

def each(pattern, names):
    """Operators whose text differs in a name alone: {name: writer}."""
    def writer(name):
        return lambda g: pattern(g).replace("?", name)

    return {name.replace(".", "_"): writer(name) for name in names.split()}

add("pointwise", VALUE, ANYTHING, 1,
    add=lambda g: f"{g.x()} + {g.other()}",
    subtract=lambda g: f"{g.x()} - {g.other()}",
    multiply=lambda g: f"{g.x()} * {g.other()}",
    add_alpha=lambda g: f"torch.add({g.x('float')}, {g.other()}, alpha=2)",
    add_scalar=lambda g: f"{g.x()} + {g.scalar()}",
    multiply_scalar=lambda g: f"{g.x()} * {g.scalar()}",
    subtract_from=lambda g: f"{g.scalar()} - {g.x()}",
    quarter=lambda g: f"{g.x('float')} / 4",
    clamp=lambda g: f"torch.clamp({g.x()}, {g.pick(0, 1)}, 3)",
    masked_fill=lambda g: f"{g.x()}.masked_fill({g.mask()}, {g.pick(0, 1, 2)})",
    where=lambda g: "torch.where({1}, {0}, {2})".format(g.x(), g.mask(), g.other()),
    where_scalar=lambda g: "torch.where({1}, {0}, {2})".format(g.x(), g.mask(), g.scalar()),
    leaky=lambda g: f"F.leaky_relu({g.x('wide')}, 0.25)",
    **each(lambda g: f"{g.x()}.?()", "neg abs relu square nan_to_num"),
    **each(lambda g: f"torch.?({g.x()}, {g.other()})", "maximum minimum"))
add("pointwise", VALUE, VALUE, 1,
    mask=lambda g: f"{g.x('any', 1)} * ({g.first} == {g.first}[:1])",
    floor_divide=lambda g: f"{g.x('integer')} // 3",
    remainder=lambda g: f"{g.x('number')} % 2",
    to_integer=lambda g: f"{g.x('float')}.to(torch.{g.pick('int64', 'int32', 'int16', 'int8')})",
    heaviside=lambda g: f"torch.heaviside({g.x('float')}, {g.other('float')})",
    **each(lambda g: f"{g.x('float')}.?()", "floor ceil round trunc frac"),
    **each(lambda g: f"{g.x()}.?()", "sign"))
add("pointwise", BITS, VALUE, 1,
    less=lambda g: f"{g.x()} < {g.other()}",
    equal=lambda g: f"{g.x('any')} == {g.other('any')}",
    at_least=lambda g: f"{g.x()} >= {g.scalar()}",
    differs=lambda g: f"{g.x()} != {g.scalar()}",
    isnan=lambda g: f"torch.isnan({g.x('float')})",
    to_bool=lambda g: f"{g.x()}.bool()",
    logical_and=lambda g: f"torch.logical_and({g.x('any')}, {g.other('any')})")
add("pointwise", BITS, BITS, 1,
    bits_and=lambda g: f"{g.x('whole')} & {g.other('whole')}",
    bits_or=lambda g: f"{g.x('whole')} | {g.other('whole')}",
    bits_xor=lambda g: f"{g.x('whole')} ^ {g.other('whole')}",
    bits_not=lambda g: f"~{g.x('whole')}",
    shift_left=lambda g: f"{g.x('integer')} << 1",
    shift_right=lambda g: f"{g.x('integer')} >> 1",
    signbit=lambda g: f"torch.signbit({g.x('float')})",
    copysign=lambda g: f"torch.copysign({g.x('float')}, {g.other('float')})")
add("pointwise", VALUE, ANYTHING, 1,
    to_float=lambda g: f"{g.x('any')}.to(torch.{g.pick('float32', 'float64', 'float16')})",
    to_bfloat16=lambda g: f"{g.x('any')}.to(torch.bfloat16)",
    from_bool=lambda g: f"{g.x('bool')}.to(torch.{g.pick('int64', 'int8', 'uint8', 'float32')})",
    widen=lambda g: f"{g.x('integer')}.to(torch.int64)")
add("pointwise", CLOSE, ANYTHING, 1,
    divide=lambda g: f"{g.x('float')} / ({g.other('number')}.abs() + 1)",
    thirds=lambda g: f"{g.x('float')} / 3",
    sqrt=lambda g: f"torch.sqrt({g.x('float')}.abs() + 1)",
    rsqrt=lambda g: f"torch.rsqrt({g.x('float')}.abs() + 1)",
    log1p=lambda g: f"torch.log1p({g.x('float')}.abs())",
    lerp=lambda g: f"torch.lerp({g.x('wide')}, {g.like()}, 0.3)",
    addcmul=lambda g: f"torch.addcmul({g.x('wide')}, {g.like()}, {g.like()}, value=0.5)",
    clamp_tensor=lambda g: f"torch.clamp({g.x('wide')}, max={g.like()})",
    **each(lambda g: f"torch.?({g.x('float')})", "sin cos exp tanh sigmoid erf atan"),
    **each(lambda g: f"F.?({g.x('float')})", "gelu silu softplus elu hardswish"))
add("reduction", VALUE, ANYTHING, 1,
    sum=lambda g: f"{g.x('any')}.sum()",
    sum_along=lambda g: f"{g.x('any', 1)}.sum({g.dim()})",
    sum_kept=lambda g: f"{g.x('number', 1)}.sum({g.dim()}, keepdim=True)",
    sum_typed=lambda g: f"{g.x('number', 1)}.sum({g.dim()}, dtype=torch.float64)",
    cumsum=lambda g: f"torch.cumsum({g.x('number', 1)}, {g.dim()})",
    diff=lambda g: f"torch.diff({g.x('number', 1)}, dim={g.dim()})",
    **each(lambda g: f"{g.x('number', 1)}.?({g.dim()}, keepdim={g.pick(True, False)})",
           "amax amin"))
add("reduction", BITS, VALUE, 1,
    argmax=lambda g: f"{g.x('number', 1)}.argmax({g.dim()})",
    argmin=lambda g: f"{g.x('number', 1)}.argmin({g.dim()}, keepdim=True)",
    any=lambda g: f"{g.x('any', 1)}.any({g.dim()})",
    all=lambda g: f"{g.x('any')}.all()",
    count_nonzero=lambda g: f"torch.count_nonzero({g.x('any', 1)}, {g.dim()})")
add("reduction", VALUE, VALUE, 2,
    max_along=lambda g: f"{g.x('number', 1)}.max({g.dim()})",
    min_along=lambda g: f"{g.x('number', 1)}.min({g.dim()})",
    cummax=lambda g: f"torch.cummax({g.x('number', 1)}, {g.dim()})",
    median=lambda g: f"{g.x('number', 1)}.median({g.dim()})")
add("reduction", CLOSE, ANYTHING, 1,
    mean=lambda g: f"{g.x('float', 1)}.mean({g.dim()})",
    mean_all=lambda g: f"{g.x('float')}.mean()",
    var=lambda g: f"{g.x('wide', 1)}.var({g.dim()}, unbiased=False)",
    prod=lambda g: f"({g.x('wide', 1)} / 4).prod({g.dim()})",
    norm=lambda g: f"torch.linalg.vector_norm({g.x('wide', 1)}, dim={g.dim()})",
    logsumexp=lambda g: f"torch.logsumexp({g.x('float', 1)}, {g.dim()})",
    layer_norm=lambda g: f"F.layer_norm({g.x('float', 1)}, {g.last_shape()})",
    **each(lambda g: f"torch.?({g.x('float', 1)}, {g.dim()})", "softmax log_softmax"))
add("view", BITS, ANYTHING, 1,
    t=lambda g: f"{g.x('any', 2, 2)}.t()",
    transpose=lambda g: f"{g.x('any', 2)}.transpose({g.dim()}, {g.dim()})",
    permute=lambda g: f"{g.x('any', 2)}.permute({g.permutation()})",
    new_axis=lambda g: f"{g.x('any')}[None]",
    unsqueeze=lambda g: f"{g.x('any', 1)}.unsqueeze({g.dim()})",
    squeeze=lambda g: f"{g.x('any', 1)}.squeeze({g.dim()})",
    tail=lambda g: f"{g.x('any', 1)}[1:]",
    head=lambda g: f"{g.x('any', 1)}[:-1]",
    every_second=lambda g: f"{g.x('any', 1)}[..., ::2]",
    last=lambda g: f"{g.x('any', 1)}[-1]",
    select=lambda g: f"{g.x('any', 1)}.select({g.dim()}, {g.pick(0, 1, -1)})",
    narrow=lambda g: f"{g.x('any', 1)}.narrow({g.dim()}, {g.pick(0, 1)}, {g.pick(1, 2)})",
    half_of=lambda g: f"{g.x('any', 1)}[{g.first}.shape[0] // 2:]",
    nothing_of=lambda g: f"{g.x('any', 1)}[:0]",
    flat_view=lambda g: f"{g.x('any')}.view(-1)",
    reshape=lambda g: f"{g.x('any')}.reshape(-1)",
    flatten=lambda g: f"{g.x('any', 3)}.flatten(0, 1)",
    view_pairs=lambda g: f"{g.x('any', 1)}.view({g.pairs()})",
    view_one=lambda g: f"{g.x('any', 1)}.view(1, *{g.first}.shape, 1)",
    unflatten=lambda g: f"{g.x('any', 1)}.unflatten(-1, (2, -1))",
    expand=lambda g: f"{g.x('any')}.expand({g.pick(1, 2, 3)}, *{g.first}.shape)",
    expand_kept=lambda g: f"{g.x('any', 1)}.unsqueeze(-1).expand(*{g.first}.shape, 2)",
    broadcast_to=lambda g: f"torch.broadcast_to({g.x('any')}, {g.shape_of_other()})",
    diagonal=lambda g: f"{g.x('any', 2)}.diagonal(0, -2, -1)",
    unfold=lambda g: f"{g.x('any', 1)}.unfold({g.dim()}, 2, {g.pick(1, 2)})",
    movedim=lambda g: f"{g.x('any', 2)}.movedim(0, -1)",
    view_as=lambda g: f"{g.x('any')}.view_as({g.first})",
    as_strided=lambda g: f"torch.as_strided({g.x('any', 1)}, {g.strided()})",
    contiguous=lambda g: f"{g.x('any')}.contiguous()",
    detach=lambda g: f"{g.x('float')}.detach()")
add("view", BITS, ANYTHING, 2,
    chunk=lambda g: f"{g.x('any', 1)}.chunk(2, {g.dim()})",
    unbind=lambda g: f"{g.x('any', 1)}.unbind({g.dim()})",
    split=lambda g: f"{g.x('any', 1)}.split([1, {g.size(0)} - 1])")
add("bits", BITS, BITS, 1,
    view_dtype=lambda g: f"{g.x('any')}.view({g.type_of_same_bytes()})",
    view_narrower=lambda g: f"{g.x('any', 1)}.view(torch.{g.pick('uint8', 'int16', 'float16')})",
    view_wider=lambda g: f"{g.x('any', 1)}.view(torch.{g.pick('int32', 'int64', 'float32')})")
add("move", BITS, ANYTHING, 1,
    clone=lambda g: f"{g.x('any')}.clone()",
    flip=lambda g: f"{g.x('any', 1)}.flip({g.dim()})",
    roll=lambda g: f"{g.x('any', 1)}.roll(1, {g.dim()})",
    repeat=lambda g: f"{g.x('any', 1, 2)}.repeat(2, {g.pick(1, 2)})",
    repeat_interleave=lambda g: f"{g.x('any', 1)}.repeat_interleave(2, {g.dim()})",
    pad=lambda g: f"F.pad({g.x('number', 1)}, ({g.pick(0, 1)}, {g.pick(1, 2)}))",
    tril=lambda g: f"{g.x('any', 2)}.tril()",
    triu=lambda g: f"{g.x('any', 2)}.triu(1)",
    cat=lambda g: f"torch.cat([{g.x('any', 1)}, {g.like('any')}], {g.dim()})",
    cat_parts=lambda g: f"torch.cat([{g.x('any', 1)}[1:], {g.first}[:1]])",
    stack=lambda g: f"torch.stack([{g.x('any')}, {g.like('any')}], 0)",
    zeros_like=lambda g: f"torch.zeros_like({g.x('any')})",
    full=lambda g: f"torch.full(({g.x('any', 1)}.shape[0], 2), {g.scalar()})",
    new_ones=lambda g: f"{g.x('any', 1)}.new_ones({g.size(0)})",
    arange=lambda g: f"torch.arange({g.x('any', 1)}.shape[0])",
    slice_scatter=lambda g: f"torch.slice_scatter({g.x('any', 1)}, {g.first}[1:] * 1, 0, 1)",
    select_scatter=lambda g: f"torch.select_scatter({g.x('any', 1)}, {g.first}[0] * 0, 0, 0)")
add("index", BITS, ANYTHING, 1,
    index=lambda g: f"{g.x('any', 1)}[{g.indices()}]",
    index_second=lambda g: f"{g.x('any', 2)}[:, {g.indices()}]",
    index_pair=lambda g: f"{g.x('any', 2)}[{g.indices()}, {g.indices()}]",
    index_select=lambda g: f"{g.x('any', 1)}.index_select({g.dim()}, {g.indices()})",
    gather=lambda g: f"{g.x('any', 1)}.gather({g.dim()}, {g.order()})",
    embedding=lambda g: f"F.embedding({g.indices()}, {g.x('float', 2, 2)})",
    one_hot=lambda g: f"F.one_hot({g.indices()}, 5)")
add("scatter", VALUE, ANYTHING, 1,
    scatter=lambda g: f"{g.x('any', 1)}.scatter({g.dim()}, {g.order()}, {g.like()})",
    scatter_value=lambda g: f"{g.x('number', 1)}.scatter({g.dim()}, {g.order()}, 1)",
    scatter_add=lambda g: f"{g.x('wide', 1)}.scatter_add(0, {g.zeros_index()}, {g.like()})",
    scatter_amax=lambda g: (f"{g.x('wide', 1)}.scatter_reduce(0, {g.zeros_index()}, {g.like()}, "
                            "'amax')"),
    index_add=lambda g: f"{g.x('wide', 1)}.index_add(0, {g.arange()}, {g.like()})",
    index_copy=lambda g: f"{g.x('any', 1)}.index_copy(0, {g.arange()}.flip(0), {g.like()})",
    index_fill=lambda g: f"{g.x('number', 1)}.index_fill(0, {g.indices()}, 2)",
    index_put=lambda g: f"{g.x('any', 1)}.index_put(({g.arange()}.flip(0),), {g.like()})",
    accumulate=lambda g: (f"{g.x('wide', 1)}.index_put(({g.indices()},), {g.first}[0] * 1, "
                          "accumulate=True)"))
add("sort", BITS, VALUE, 2,
    sort=lambda g: f"torch.sort({g.x('number', 1)}, stable=True, dim={g.dim()})",
    sort_down=lambda g: (f"torch.sort({g.x('number', 1)}, stable=True, descending=True, "
                         f"dim={g.dim()})"),
    topk=lambda g: f"torch.topk({g.x('number', 1)}, {g.pick(1, 2)}, {g.dim()})")
add("sort", BITS, VALUE, 1,
    argsort=lambda g: f"torch.argsort({g.x('number', 1)}, dim={g.dim()}, stable=True)",
    top_values=lambda g: f"torch.topk({g.x('number', 1)}, 2, {g.dim()}).values",
    bucketize=lambda g: f"torch.bucketize({g.x('wide')}, torch.tensor([-1.0, 0.0, 2.0]))",
    searchsorted=lambda g: f"torch.searchsorted({g.x('wide', 1, 1)}.sort().values, {g.first})")
add("product", VALUE, ANYTHING, 1,
    matmul=lambda g: f"{g.x('wide', 2)} @ {g.factor()}",
    gram=lambda g: f"{g.x('float', 2)} @ {g.first}.mT",
    bmm=lambda g: f"torch.bmm({g.x('float', 3, 3)}, {g.first}.transpose(1, 2))",
    addmm=lambda g: f"torch.addmm({g.scalar_tensor()}, {g.x('wide', 2, 2)}, {g.first}.t())",
    outer=lambda g: f"torch.outer({g.x('wide', 1, 1)}, {g.first})",
    mv=lambda g: f"torch.mv({g.x('wide', 2, 2)}, {g.first}[0])",
    einsum=lambda g: f"torch.einsum('ij,kj->ik', {g.x('float', 2, 2)}, {g.first})",
    linear=lambda g: f"F.linear({g.x('wide', 1)}, {g.weight()})",
    conv1d=lambda g: f"F.conv1d({g.x('wide', 3, 3)}, {g.kernel()}, padding={g.pick(0, 1)})",
    conv2d=lambda g: (f"F.conv2d({g.x('wide', 4, 4)}, {g.kernel()}, stride={g.pick(1, 2)}, "
                      "padding=1)"),
    max_pool=lambda g: f"F.max_pool2d({g.x('wide', 4, 4)}, 2, ceil_mode={g.pick(True, False)})",
    nearest=lambda g: f"F.interpolate({g.x('wide', 4, 4)}, scale_factor=2)")
add("product", CLOSE, ANYTHING, 1,
    avg_pool=lambda g: f"F.avg_pool2d({g.x('wide', 4, 4)}, 2, padding=1)",
    attention=lambda g: f"F.scaled_dot_product_attention(*[{g.x('wide', 3)}] * 3)",
    linear_half=lambda g: f"F.linear({g.x('float', 1)}, {g.weight()})")
add("write", VALUE, ANYTHING, 0,
    add_=lambda g: f"{g.x()}.add_({g.other()})",
    multiply_=lambda g: f"{g.x()}.mul_({g.pick(2, 3)})",
    copy_=lambda g: f"{g.x()}.copy_({g.other()})",
    fill_=lambda g: f"{g.x()}.fill_({g.pick(0, 3)})",
    zero_=lambda g: f"{g.x('any')}.zero_()",
    clamp_=lambda g: f"{g.x()}.clamp_(0, 2)",
    write_tail_=lambda g: f"{g.x('number', 1)}[1:].add_(1)",
    write_row_=lambda g: f"{g.x('number', 1)}[0] = {g.pick(0, 1)}",
    write_column_=lambda g: f"{g.x('number', 2)}[:, -1] = {g.first}[:, 0]",
    write_transposed_=lambda g: f"{g.x('number', 2)}.mT.mul_(2)",
    write_flat_=lambda g: f"{g.x('number', 1)}.view(-1)[::2].neg_()",
    flip_=lambda g: f"{g.x('number', 1)}.copy_({g.first}.flip(0))",
    shift_=lambda g: f"{g.x('number', 1)}[1:] = {g.first}[:-1].clone()",
    index_put_=lambda g: f"{g.x('number', 1)}[{g.indices()}] = {g.pick(1, 2)}",
    masked_fill_=lambda g: f"{g.x()}.masked_fill_({g.mask()}, 2)",
    index_add_=lambda g: f"{g.x('wide', 1)}.index_add_(0, {g.arange()}, {g.like()})",
    add_size_=lambda g: f"{g.x()}.add_({g.any_size()})")
add("write", BITS, ANYTHING, 0,
    t_=lambda g: f"{g.x('any', 2, 2)}.t_()",
    unsqueeze_=lambda g: f"{g.x('any')}.unsqueeze_(0)",
    swapdims_=lambda g: f"{g.x('any', 2)}.transpose_(0, -1)",
    squeeze_=lambda g: f"{g.x('any', 1)}.squeeze_({g.dim()})")
add("type", VALUE, VALUE, 1,
    float8=lambda g: f"{g.x('float')}.to({g.float8()}).to(torch.float32)",
    float8_bits=lambda g: f"{g.x('float')}.to({g.float8()}).view(torch.uint8)",
    complex=lambda g: f"torch.view_as_real(torch.complex({g.x('wide')}, {g.like()}) * 2)",
    conjugate=lambda g: f"torch.complex({g.x('wide')}, {g.like()}).conj().imag")
FAMILIES = sorted({operator.family for operator in OPERATORS.values()})
