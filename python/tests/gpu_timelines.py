"""Timelines of a GPU, drawn at random with the truth about each kernel, in the two formats that
`python -m coppice.prof timeline` reads."""

import collections
import json
import sqlite3

# Symbols, and what a demangler makes of them.
NAMES = (
    ("attend", "attend"), ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
    ("_Z4stepPfi", "step(float*, int)"), ("_ZL4pushPf", "push(float*)"),
    ("_ZN5model4scanEPKf", "model::scan(float const*)"),
    ("_ZN12_GLOBAL__N_14foldEPf", "(anonymous namespace)::fold(float*)"),
    ("_Z6reduceIfEvPT_", "void reduce<float>(float*)"),
    ("_Z6reduceIdEvPT_", "void reduce<double>(double*)"),
    ("_ZN2at6native4castILi4ENS0_3AddIfEEEEvPT0_",
     "void at::native::cast<4, at::native::Add<float> >(at::native::Add<float>*)"),
    ("_ZN5model5BlockIiE3runILb1EEEvv", "void model::Block<int>::run<true>()"))
LIBRARY = (
    ("_ZN7cutlass7Kernel2I4GemmEEvNT_6ParamsE",
     "void cutlass::Kernel2<Gemm>(Gemm::Params)"),
    ("sm90_xmma_gemm_f32", "sm90_xmma_gemm_f32"),
    ("_Z11gemv2T_kernILi128EEvPf", "void gemv2T_kern<128>(float*)"))
OWN = "coppice_stage_inputs"  # A kernel of coppice itself.
PLAIN = ("attend", "attend"), ("project", "project")
# By symbols: the identifiers.
SHORT = {"attend": "attend", "triton_poi_fused_add_0": "triton_poi_fused_add_0",
         "_Z4stepPfi": "step", "_ZL4pushPf": "push", "_ZN5model4scanEPKf": "scan",
         "_ZN12_GLOBAL__N_14foldEPf": "fold",
         "_Z6reduceIfEvPT_": "reduce", "_Z6reduceIdEvPT_": "reduce",
         "_ZN2at6native4castILi4ENS0_3AddIfEEEEvPT0_": "cast",
         "_ZN5model5BlockIiE3runILb1EEEvv": "run"}

KERNEL_COLUMNS = (
    "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid",
    "demangledName", "shortName", "mangledName", "gridX", "gridY", "gridZ", "blockX", "blockY",
    "blockZ", "dynamicSharedMemory", "graphNodeId", "graphId")
OPTIONAL_COLUMNS = ("deviceId", "streamId", "globalPid", "shortName", "contextId",
                    "dynamicSharedMemory", "graphId")


class Ran:
    """A kernel on the timeline. `nodes` are those that its launch may be of; `listed`: kernels of
    these nodes that it is."""

    def __init__(self, names, grid, block, start, lasts, correlation, ids=(0, 0)):
        self.symbol, self.demangled = names
        self.grid, self.block, self.start, self.lasts = grid, block, start, lasts
        self.correlation, (self.graph, self.node) = correlation, ids
        self.nodes, self.listed = (), ()

    def programs(self):
        return tuple(dict.fromkeys(one["program"] for one in self.nodes))

    def label(self):
        return " or ".join(one["label"] for one in self.nodes)

    def agreed(self, key):
        values = {json.dumps(kernel[key]) for kernel in self.listed}
        return json.loads(values.pop()) if len(values) == 1 else None

    def padded(self):
        shares = {1 - kernel["blocks_needed"] / kernel["blocks"]
                  if kernel["blocks_needed"] is not None else None for kernel in self.listed}
        return shares.pop() if len(shares) == 1 else None


def kernel(names, grid, block, step=None, needed=None, program="decode"):
    blocks = grid[0] * grid[1] * grid[2]
    own = names[0] == OWN or step is None
    return {"name": names[0], "grid": grid, "block": block, "shared_bytes": 0, "blocks": blocks,
            "program": None if own else program, "step": step,
            "kernel": None if own else f"k{step}", "source": None if own else f"model.py:{step}",
            "blocks_needed": None if own else needed}


def node(number, program, bucket, kernels, label=None, calls=1, pieces=None, patched=()):
    return {"node": number, "label": label or f"{program} {bucket}", "program": program,
            "variant": "", "bucket": [bucket], "lane": 0, "calls": calls,
            "pieces": pieces or [len(kernels)], "kernels": kernels, "patched": list(patched)}


def two_nodes():
    """Of decode 8, a kernel of coppice, one of 64 blocks, of which 48 are needed, and one that is
    launched twice; of decode 16, the same with more blocks."""
    nodes = []
    for number, bucket in ((5, 8), (6, 16)):
        grid = [8 * bucket, 1, 1]
        nodes.append(node(number, "decode", bucket, [
            kernel((OWN, OWN), [bucket, 1, 1], [32, 1, 1]),
            kernel(PLAIN[0], grid, [256, 1, 1], 0, 6.0 * bucket),
            kernel(PLAIN[1], [4, 1, 1], [64, 1, 1], 1, 4.0),
            kernel(PLAIN[1], [4, 1, 1], [64, 1, 1], 2, 3.0)]))
    return nodes


def replay(one, correlation, begin, lasts=1000, graph=9):
    return [Ran((each["name"], each["name"]), each["grid"], each["block"], begin + 2000 * place,
                lasts, correlation, (graph, graph << 32 | place))
            for place, each in enumerate(one["kernels"])]


def document(nodes, package="p.zip"):
    return {"schema": "coppice.kernels/1", "trace": "t.trace", "package": package, "nodes": nodes}


def drawn_nodes(draw):
    """Programs with buckets. Each graph has a grid that no other has, but for one program that may
    have the same kernels as another, and a node that may have one kernel more than another."""
    nodes, unique = [], 100
    for program in ("decode", "prefill", "embed")[:draw.randrange(1, 4)]:
        steps = [(draw.choice(NAMES), [draw.randrange(1, 9), 1, 1], [draw.choice((32, 256)), 1, 1])
                 for _ in range(draw.randrange(2, 9))]
        for bucket in range(1, draw.randrange(2, 5)):
            unique += 1
            listed = [kernel(names, [grid[0] * bucket, 1, 1], block, step, draw.uniform(
                0, grid[0] * bucket), program) for step, (names, grid, block) in enumerate(steps)]
            listed.insert(draw.randrange(len(listed)), kernel(
                (OWN, OWN), [unique, 1, 1], [128, 1, 1]))
            nodes.append(node(len(nodes) + 3, program, bucket, listed))
    if draw.random() < 0.5:
        first = nodes[0]
        more = kernel(draw.choice(NAMES), [77, 1, 1], [64, 1, 1], 99, 7.0, first["program"])
        nodes.append(node(len(nodes) + 3, first["program"], 50, [*first["kernels"], more]))
    if draw.random() < 0.5:
        first = nodes[-1]
        same = [{**each, "program": each["program"] and "draft",
                 "source": each["source"] and draw.choice((each["source"], "draft.py:1")),
                 "blocks_needed": each["blocks_needed"] and
                 draw.choice((each["blocks_needed"], 0.5))} for each in first["kernels"]]
        nodes.append(node(len(nodes) + 3, "draft", 9, same))
    draw.shuffle(nodes)
    return nodes


class Drawing:
    """A run: launches of graphs and other kernels, one after another."""

    def __init__(self, draw, nodes):
        self.draw, self.nodes = draw, nodes
        self.ran, self.time, self.correlation = [], 1000, 0
        self.launches = collections.Counter()  # By numbers of nodes.
        self.foreign = 0

    def begin(self):
        self.correlation += self.draw.randrange(1, 5)
        return self.correlation

    def lasting(self):
        self.time += self.draw.randrange(1, 5000)
        lasts = self.draw.randrange(1, 100_000)
        self.time += lasts
        return self.time - lasts, lasts

    def launch(self, one):
        """Of a node, maybe with kernels of libraries in between."""
        same = [other for other in self.nodes if looks(other) == looks(one)]
        same.sort(key=self.nodes.index)
        correlation, graph = self.begin(), 10 + self.nodes.index(same[0])
        slots = list(enumerate(one["kernels"]))
        for place in range(self.draw.choice((0, 0, 1, 3))):
            slots.insert(self.draw.randrange(len(slots) + 1), (1000 + place, None))
        if self.draw.random() < 0.3:
            slots = self.reordered(slots)
        seen = collections.Counter()
        for place, each in slots:
            if each:
                names, grid, block = names_of(each["name"]), each["grid"], each["block"]
            else:
                names, grid, block = self.draw.choice(LIBRARY), [500 + place, 2, 1], [384, 1, 1]
            found = Ran(names, grid, block, *self.lasting(), correlation,
                        (graph, graph << 32 | place))
            found.nodes = same
            if each:
                look = each["name"], *grid, *block
                found.listed = [[other for other in twin["kernels"] if (
                    other["name"], *other["grid"], *other["block"]) == look][seen[look]]
                                for twin in same]
                seen[look] += 1
            self.ran.append(found)
        self.launches[tuple(each["node"] for each in same)] += 1

    def reordered(self, slots):
        """As if branches ran at the same time; equal kernels stay in order."""
        def look(slot):
            each = slot[1]
            return each and str((SHORT.get(each["name"], each["name"]), each["grid"],
                                 each["block"]))

        order = self.draw.sample(slots, len(slots))
        waiting = collections.defaultdict(list)
        for slot in reversed(slots):
            waiting[look(slot)].append(slot)
        return [waiting[look(slot)].pop() for slot in order]

    def other_graph(self):
        """A graph of somebody else; some have almost the kernels of a node."""
        one = self.draw.choice(self.nodes)
        rows = [(names_of(each["name"]), each["grid"], each["block"]) for each in one["kernels"]]
        rows = [row for row in rows if row[0][0] != OWN]
        if self.draw.random() < 0.5:
            rows = [(self.draw.choice(LIBRARY), [3, 3, 3], [32, 1, 1]) for _ in range(3)]
        elif self.draw.random() < 0.5:
            rows.append(((OWN, OWN), [99, 2, 1], [128, 1, 1]))
        correlation, graph = self.begin(), 900 + self.foreign % 2
        while len(rows) < 2:
            rows.append((self.draw.choice(LIBRARY), [9, 1, 1], [32, 1, 1]))
        for place, row in enumerate(rows):
            self.ran.append(Ran(*row, *self.lasting(), correlation, (graph, graph << 32 | place)))
        self.foreign += 1

    def eager(self):
        one = self.draw.choice(self.nodes)
        each = self.draw.choice(one["kernels"])
        row = self.draw.choice(((self.draw.choice(LIBRARY), [2, 1, 1], [64, 1, 1]),
                                (names_of(each["name"]), each["grid"], each["block"])))
        self.ran.append(Ran(*row, *self.lasting(), self.begin()))

    def run(self, steps):
        self.launch(self.draw.choice(self.nodes))
        for _ in range(steps):
            what = self.draw.random()
            if what < 0.6:
                self.launch(self.draw.choice(self.nodes))
            elif what < 0.8:
                self.other_graph()
            else:
                self.eager()
        self.draw.shuffle(self.ran)
        return self


def looks(one):
    return sorted((each["name"], each["grid"], each["block"]) for each in one["kernels"])


def names_of(symbol):
    return next((names for names in NAMES if names[0] == symbol), (symbol, symbol))


def kineto(ran, draw=None, graph_ids=True):
    """The document of PyTorch's profiler. With `draw`, it has other events, and lacks what old
    versions lack."""
    events = []
    for each in ran:
        arguments = {"External id": 7, "queued": 0, "device": 0, "context": 1, "stream": 7,
                     "correlation": each.correlation, "registers per thread": 32,
                     "shared memory": 0, "blocks per SM": 0.5, "grid": each.grid,
                     "block": each.block}
        if graph_ids:
            arguments |= {"graph id": each.graph, "graph node id": each.node}
        events.append({"ph": "X", "cat": "kernel", "name": each.demangled, "pid": 0, "tid": 7,
                       "ts": each.start / 1000, "dur": each.lasts / 1000, "args": arguments})
        if draw and draw.random() < 0.5:
            events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1,
                           "tid": 1, "ts": each.start / 1000 - 1, "dur": 1,
                           "args": {"correlation": each.correlation}})
            events.append({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD", "pid": 0,
                           "tid": 7, "ts": each.start / 1000, "dur": 1,
                           "args": {"correlation": each.correlation, "graph id": each.graph,
                                    "graph node id": each.node + 500}})
    if draw:
        events.append({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}})
        draw.shuffle(events)
    return {"schemaVersion": 1, "deviceProperties": [], "displayTimeUnit": "ms",
            "traceEvents": events, "traceName": "p.json"}


def nsys(path, ran, lacking=(), mangled=True):
    """Writes the tables of `nsys export` without the columns that are lacking."""
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    columns = [name for name in KERNEL_COLUMNS if name not in lacking and
               (mangled or name != "mangledName")]
    ids = {}
    rows = []
    for each in ran:
        text = [ids.setdefault(name, 100 + len(ids)) for name in (
            each.demangled, SHORT.get(each.symbol, each.symbol), each.symbol)]
        rows.append(dict(zip(KERNEL_COLUMNS, (
            each.start, each.start + each.lasts, 0, 1, 7, each.correlation, 0x12D4000000, *text,
            *each.grid, *each.block, 0, each.node or None, each.graph or None))))
    base.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    base.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({', '.join(map(quoted, columns))})")
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", [(key, text)
                                                             for text, key in ids.items()])
    base.executemany(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join('?' * len(columns))})",
        [[row[name] for name in columns] for row in rows])
    base.commit()
    base.close()
    return path


def quoted(column):
    return f'"{column}" INTEGER'


def expected(ran, mangled):
    """What the truth gives: kernels, their time, that of which the padding is known, and its cost,
    by programs, step and kernel. `mangled`: the timeline has mangled names."""
    rows = collections.defaultdict(lambda: [0, 0, 0, 0.0])
    for each in ran:
        if each.nodes:
            name = each.agreed("kernel") or (each.symbol if mangled else each.demangled)
            row = rows[each.programs(), each.agreed("step"), name]
            padded = each.padded()
            row[0] += 1
            row[1] += each.lasts
            row[2] += each.lasts if padded is not None else 0
            row[3] += each.lasts * (padded or 0)
    return dict(rows)
