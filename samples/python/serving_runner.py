"""Graphs of vLLM and of SGLang, recorded and replayed by coppice: two classes that take the places
of theirs.

    GraphWrapper    in place of vLLM's CUDAGraphWrapper: a graph per batch descriptor, unpadded
    DecodeRunner    in place of SGLang's DecodeCudaGraphRunner: pads, plans, replays, cuts

    use_in_vllm(), use_in_sglang()          in a plugin, before the server starts

serving_servers.py runs both on the emulator. No GPU and neither server has run them yet. Needs
PyTorch. Threads: one calls.
"""

import bisect
import copy
import dataclasses
import types
import weakref

import torch

import coppice

# ---- In place of vLLM's CUDAGraphWrapper.


def vllm_server():
    """What a wrapper asks of vLLM."""
    from vllm.compilation.monitor import validate_cudagraph_capturing_enabled
    from vllm.forward_context import get_forward_context, is_forward_context_available

    return types.SimpleNamespace(
        get_forward_context=get_forward_context,
        is_forward_context_available=is_forward_context_available,
        validate_cudagraph_capturing_enabled=validate_cudagraph_capturing_enabled)


def detached(result):
    """What a wrapped callable returned, as tensors that no later replay writes to."""
    copies = None

    def walk(value):
        nonlocal copies
        if isinstance(value, coppice.Output):
            copies = copies or iter(value.lease.detach())
            return torch.from_dlpack(next(copies))
        if isinstance(value, (tuple, list)):
            members = map(walk, value)
            return type(value)(*members) if hasattr(value, "_fields") else type(value)(members)
        if isinstance(value, dict):
            return {key: walk(member) for key, member in value.items()}
        return value

    return walk(result)


def is_parameter(tensor):
    return isinstance(tensor, torch.nn.Parameter)


class GraphWrapper:
    """Replays one graph per batch descriptor of the forward context. If the context has another
    mode than this wrapper, it calls `runnable` without a graph. vLLM's dispatcher has padded the
    sizes already, so nothing is padded here. `runnable` also reads tensors that are not arguments,
    such as the attention metadata of the context. They must stay at the addresses that they had
    when the descriptor was recorded.

    static  a function: true for a tensor of the first call that stays where it is. Other tensors
            are copied in every call."""

    _all_instances = weakref.WeakSet()

    @classmethod
    def clear_all_graphs(cls):
        for one in list(cls._all_instances):
            one.clear_graphs()

    def __init__(self, runnable, vllm_config, runtime_mode, cudagraph_options=None, *,
                 static=is_parameter, server=None, session=None):
        self.runnable, self.vllm_config, self.runtime_mode = runnable, vllm_config, runtime_mode
        self.cudagraph_options = cudagraph_options  # For PyTorch's pool; read by nobody here.
        self.graph_pool = None  # vLLM sets it while it measures memory.
        self.is_static, self.session, self.wrapped = static, session, None
        self.server, self.recorded = server or vllm_server(), set()
        GraphWrapper._all_instances.add(self)

    def wrap(self, args, kwargs):
        runnable = self.runnable  # So that what is recorded does not keep the wrapper.

        def run(batch, args, kwargs):  # `batch` is text, so that each descriptor is a variant.
            return runnable(*args, **kwargs)

        named = {**{f"args.{index}": value for index, value in enumerate(args)},
                 **{f"kwargs.{name}": value for name, value in kwargs.items()}}
        return coppice.wrap(run, name=f"vllm_{self.runtime_mode.name.lower()}",
                            static=[name for name, value in named.items()
                                    if self.is_static(value)], session=self.session)

    def __call__(self, *args, **kwargs):
        if not self.server.is_forward_context_available():
            return self.runnable(*args, **kwargs)
        context = self.server.get_forward_context()
        if context.cudagraph_runtime_mode != self.runtime_mode:
            return self.runnable(*args, **kwargs)
        batch = repr(context.batch_descriptor)
        if batch not in self.recorded:
            self.server.validate_cudagraph_capturing_enabled()
            self.wrapped = self.wrapped or self.wrap(args, kwargs)
            self.wrapped(batch, args, kwargs)  # Warms up; the call below records.
            self.recorded.add(batch)
        return detached(self.wrapped(batch, args, kwargs))

    def __getattr__(self, key):
        if key == "runnable":
            raise AttributeError(key)
        return getattr(self.runnable, key)

    def unwrap(self):
        return self.runnable.unwrap() if hasattr(self.runnable, "unwrap") else self.runnable

    @property
    def cudagraph_wrapper(self):
        return self

    def clear_graphs(self):
        if self.wrapped is not None:
            self.wrapped.close()
        self.wrapped, self.recorded = None, set()


def use_in_vllm():
    """For vLLM's first model runner (VLLM_USE_V2_MODEL_RUNNER=0), and for pieces of both; the
    second one records graphs of whole steps itself."""
    from vllm.platforms import current_platform
    from vllm.v1.worker import gpu_model_runner
    from vllm.v1.worker.gpu import cudagraph_utils, model_runner

    # The first wraps by this name, and all of them drop graphs by it after they measured memory.
    for module in (gpu_model_runner, cudagraph_utils, model_runner):
        module.CUDAGraphWrapper = GraphWrapper
    current_platform.get_static_graph_wrapper_cls = lambda: f"{__name__}.GraphWrapper"


# ---- In place of SGLang's DecodeCudaGraphRunner.


def sglang_server():
    """What a runner asks of SGLang."""
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode
    from sglang.srt.model_executor.forward_context import ForwardContext, forward_context
    from sglang.srt.model_executor.runner.base_cuda_graph_runner import get_batch_sizes_to_capture

    def make_batch(batch_size, **tensors):
        return ForwardBatch(forward_mode=ForwardMode.DECODE, batch_size=batch_size, **tensors)

    return types.SimpleNamespace(
        make_batch=make_batch,
        sizes=lambda model_runner: get_batch_sizes_to_capture(model_runner)[0],
        forward_context=lambda backend, batch: forward_context(
            ForwardContext(attn_backend=backend), forward_batch=batch))


def pad(tensor, size, fill):
    return torch.nn.functional.pad(tensor, (0, size - len(tensor)), value=fill)


def with_tensors(forward_batch, batch_size, tensors):
    batch = copy.copy(forward_batch)
    batch.batch_size = batch_size
    for name, tensor in tensors.items():
        setattr(batch, name, tensor)
    return batch


class DecodeRunner:
    """Decodes batches of one token per request with graphs of a few sizes. coppice pads the inputs
    of the graph. This class pads what the attention backend plans outside of the graph, to the same
    size. The backend must keep its plan in buffers of its own, as it does for SGLang's runner."""

    READ = ("input_ids", "positions", "req_pool_indices", "seq_lens", "out_cache_loc")
    # Padded rows are token 0 of request 0, written to slot 0. SGLang uses neither for a request.
    FILLS = dict.fromkeys(READ, 0)
    # A batch that has one of these goes to SGLang's own runner.
    REFUSED = ("replace_embeds", "input_embeds", "spec_info", "lora_ids", "encoder_lens")

    def __init__(self, model_runner, *, attn_backend=None, speculative_num_steps=None,
                 speculative_num_draft_tokens=None, record_nolora_graph=False, sizes=None,
                 server=None, session=None):
        if speculative_num_steps or speculative_num_draft_tokens or record_nolora_graph:
            raise NotImplementedError("DecodeRunner: it decodes one token per request, without "
                                      "adapters; use SGLang's own runner for others")
        self.model_runner, self.server = model_runner, server or sglang_server()
        self.capture_bs = sorted(sizes or self.server.sizes(model_runner))
        self.attn_backend = attn_backend or model_runner.attn_backend
        fill = self.attn_backend.get_cuda_graph_seq_len_fill_value()
        self.fills = {**self.FILLS, "seq_lens": fill}
        self.bs, self.batch, self.output_type = 0, None, None
        size = coppice.Dim("bs", max=self.capture_bs[-1], policy=self.capture_bs)
        self.wrapped = coppice.wrap(
            self.step, {name: {0: size} for name in self.READ}, claim="row_independent",
            fills=self.fills, name="sglang_decode", session=session,
            outputs={"logits": ("f32", ["bs", model_runner.model_config.vocab_size])})
        self.attn_backend.init_cuda_graph_state(self.capture_bs[-1], self.capture_bs[-1])
        self.capture()

    def step(self, input_ids, positions, req_pool_indices, seq_lens, out_cache_loc):
        """What is recorded, on tensors of the padded size."""
        tensors = dict(zip(self.READ, (input_ids, positions, req_pool_indices, seq_lens,
                                       out_cache_loc), strict=True))
        batch = with_tensors(self.batch, input_ids.shape[0], tensors)
        with self.server.forward_context(self.attn_backend, batch):
            self.attn_backend.init_forward_metadata_in_graph(batch)
            output = self.model_runner.model.forward(input_ids, positions, batch)
        more = [field.name for field in dataclasses.fields(output)
                if field.name != "next_token_logits" and getattr(output, field.name) is not None]
        if more:
            raise NotImplementedError(f"DecodeRunner: the model returns {', '.join(more)}; add "
                                      "them to `outputs`, or run it by SGLang's own runner")
        self.output_type = type(output)
        return output.next_token_logits

    def can_run_graph(self, forward_batch):
        return (forward_batch.forward_mode.is_decode()
                and 0 < forward_batch.batch_size <= self.capture_bs[-1]
                and all(getattr(forward_batch, name, None) is None for name in self.REFUSED))

    def load_batch(self, forward_batch, pp_proxy_tensors=None, *, in_capture=False):
        """Plans attention for the padded size."""
        if pp_proxy_tensors is not None:
            raise NotImplementedError("DecodeRunner: it has one stage; run stages of a pipeline by "
                                      "SGLang's own runner")
        self.bs = self.capture_bs[bisect.bisect_left(self.capture_bs, forward_batch.batch_size)]
        planned = {name: pad(getattr(forward_batch, name), self.bs, fill)
                   for name, fill in self.fills.items()}
        if forward_batch.seq_lens_cpu is not None:
            planned["seq_lens_cpu"] = pad(forward_batch.seq_lens_cpu, self.bs,
                                          self.fills["seq_lens"])
        self.attn_backend.init_forward_metadata_out_graph(
            with_tensors(forward_batch, self.bs, planned), in_capture=in_capture)
        self.batch = forward_batch

    def replay(self):
        """Runs the batch that was loaded last."""
        logits = self.wrapped(*(getattr(self.batch, name) for name in self.READ))
        return self.output_type(next_token_logits=detached(logits))

    def execute(self, forward_batch, pp_proxy_tensors=None):
        self.load_batch(forward_batch, pp_proxy_tensors)
        return self.replay()

    def capture(self):
        """Records all sizes, by batches whose rows are all padding."""
        for size in self.capture_bs:
            tensors = {name: torch.full((size,), fill, device=self.model_runner.device)
                       for name, fill in self.fills.items()}
            lengths = tensors["seq_lens"].cpu()
            dummy = self.server.make_batch(size, **tensors, seq_lens_cpu=lengths,
                                           seq_lens_sum=int(lengths.sum()))
            for _ in range(2):  # The first warms up, the second records.
                self.load_batch(dummy, in_capture=True)
                self.replay()


def use_in_sglang():
    """For decode steps; prefill stays with SGLang's runner."""
    from sglang.srt.platforms import current_platform

    current_platform.get_graph_runner_cls = lambda: DecodeRunner
