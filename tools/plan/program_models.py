"""Lifetimes of well-known models, operation by operation, as a framework requests and releases
memory: written by hand from the published models, not recorded.

Weights and caches are no part of them. Half precision where nothing else is said; `eager` models
keep the intermediates that fused kernels do not have. A program is a list of [begin, end, bytes],
one per buffer, in order of request. All of them are the same on every machine.
"""

import dataclasses
import random

HALF, FLOAT, LONG = 2, 4, 8  # Bytes of one value.
MIB = 1 << 20


class Tape:
    """Writes down when a program requests and releases memory.

    Every request and every release is a step of its own, so that the inputs of an operation overlap
    with its outputs. What is never released lives to the end of the program.
    """

    def __init__(self):
        self.buffers = []
        self.step = 0

    def new(self, size):
        self.buffers.append([self.step, None, max(size, 1)])
        self.step += 1
        return len(self.buffers) - 1

    def free(self, *ids):
        """Releases one after the other; None is no buffer."""
        for one in ids:
            if one is not None:
                self.buffers[one][1] = self.step
                self.step += 1

    def finish(self):
        """The buffers in order of request."""
        return [[begin, self.step + 1 if end is None else end, size]
                for begin, end, size in self.buffers]


def cache_splits(tokens, kv_heads):
    """Into how many parts attention splits the cache to fill the multiprocessors of an H100."""
    multiprocessors, splits_max = 132, 32
    blocks = tokens * kv_heads
    if 10 * blocks >= 8 * multiprocessors:
        return 1
    return max(1, min(multiprocessors // blocks, splits_max))


@dataclasses.dataclass(frozen=True)
class FusedDecoder:
    """A decoder of the Llama kind with fused kernels; defaults are Llama 3 8B."""

    layers: int = 32
    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    head_size: int = 128
    intermediate: int = 14336
    vocabulary: int = 128256
    ranks: int = 1         # Tensor parallelism: heads, intermediate and vocabulary are split.
    experts: int = 0       # 0: one dense layer.
    experts_used: int = 2  # Per token.
    logits: bool = True    # The program computes logits.
    fp8: bool = False      # Activations are quantised before each projection.
    decode: bool = True    # Attention splits the cache over multiprocessors.


class FusedDecoderStep:
    def __init__(self, model, tokens):
        self.model, self.tokens, self.tape = model, tokens, Tape()
        self.heads = model.heads // model.ranks
        self.kv_heads = max(1, model.kv_heads // model.ranks)
        self.intermediate = model.intermediate // model.ranks

    def program(self):
        residual = self.rows(self.model.hidden * HALF)
        hidden = self.rows(self.model.hidden * HALF)
        for _ in range(self.model.layers):
            hidden = self.attention(hidden)
            hidden = self.expert_layers(hidden) if self.model.experts else self.dense(hidden)
        self.tape.free(residual)
        if self.model.logits:
            self.logits(hidden)
        return self.tape.finish()

    def rows(self, size):
        return self.tape.new(self.tokens * size)

    def quantise(self, values, width):
        """Values and their scales."""
        if not self.model.fp8:
            return values, None
        quantised = self.rows(width), self.rows(FLOAT)
        self.tape.free(values)
        return quantised

    def project(self, values, width):
        """The projection of `width` columns to hidden ones, summed over ranks."""
        source = self.quantise(values, width)
        output = self.rows(self.model.hidden * HALF)
        self.tape.free(*source)
        return self.sum_over_ranks(output)

    def sum_over_ranks(self, part):
        if self.model.ranks == 1:
            return part
        total = self.rows(self.model.hidden * HALF)
        self.tape.free(part)
        return total

    def attention(self, hidden):
        """The residual is added in place."""
        size = self.model.head_size
        source = self.quantise(hidden, self.model.hidden)
        qkv = self.rows((self.heads + 2 * self.kv_heads) * size * HALF)
        self.tape.free(*source)
        attended = self.rows(self.heads * size * HALF)
        sums = self.rows(self.heads * FLOAT)
        split_attended = split_sums = None
        splits = cache_splits(self.tokens, self.kv_heads) if self.model.decode else 1
        if splits > 1:
            split_attended = self.rows(splits * self.heads * size * FLOAT)
            split_sums = self.rows(splits * self.heads * FLOAT)
        self.tape.free(sums, split_attended, split_sums, qkv)
        return self.project(attended, self.heads * size)

    def dense(self, hidden):
        source = self.quantise(hidden, self.model.hidden)
        gate_up = self.rows(2 * self.intermediate * HALF)
        self.tape.free(*source)
        activated = self.rows(self.intermediate * HALF)
        self.tape.free(gate_up)
        return self.project(activated, self.intermediate)

    def expert_layers(self, hidden):
        block = 64  # Tokens that a block of the fused kernel takes.
        experts, new = self.model.experts, self.tape.new
        pairs = self.tokens * self.model.experts_used
        router_half = self.rows(experts * HALF)
        router = self.rows(experts * FLOAT)
        self.tape.free(router_half)
        weights, choices = new(pairs * FLOAT), new(pairs * FLOAT)
        self.tape.free(router)
        padded = pairs + experts * (block - 1)
        ranked = new(padded * FLOAT)
        block_experts = new(-(-padded // block) * FLOAT)
        padded_count = new(FLOAT)
        gate_up = new(pairs * 2 * self.intermediate * HALF)
        activated = new(pairs * self.intermediate * HALF)
        self.tape.free(gate_up)
        parts = new(pairs * self.model.hidden * HALF)
        self.tape.free(activated)
        output = self.rows(self.model.hidden * HALF)
        self.tape.free(parts, ranked, block_experts, padded_count, weights, choices, hidden)
        return self.sum_over_ranks(output)

    def logits(self, hidden):
        logits = self.rows(self.model.vocabulary // self.model.ranks * HALF)
        if self.model.ranks > 1:
            gathered = self.rows(self.model.vocabulary * HALF)
            self.tape.free(logits)
            logits = gathered
        self.rows(self.model.vocabulary * FLOAT)  # Lives to the end, as do the chosen tokens.
        self.tape.free(logits, hidden)
        self.rows(LONG)


def eager_norm(tape, rows, width):
    """Root mean square normalisation of `rows` that stay, one operation at a time."""
    x_float = tape.new(rows * width * FLOAT)
    squares = tape.new(rows * width * FLOAT)
    variance = tape.new(rows * FLOAT)
    tape.free(squares)
    shifted = tape.new(rows * FLOAT)
    tape.free(variance)
    inverse = tape.new(rows * FLOAT)
    tape.free(shifted)
    product = tape.new(rows * width * FLOAT)
    tape.free(inverse, x_float)
    rounded = tape.new(rows * width * HALF)
    tape.free(product)
    output = tape.new(rows * width * HALF)
    tape.free(rounded)
    return output


def eager_rotation(tape, x, values):
    """Rotary position embedding, one operation at a time."""
    cosine_part = tape.new(values * HALF)
    negated = tape.new(values)
    rotated = tape.new(values * HALF)
    tape.free(negated)
    sine_part = tape.new(values * HALF)
    tape.free(rotated)
    output = tape.new(values * HALF)
    tape.free(cosine_part, sine_part, x)
    return output


class EagerDecoderStep:
    """Llama 3 8B as separate operations: a token for each of `batch` sequences of `context`."""

    LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_SIZE = 32, 4096, 32, 8, 128
    INTERMEDIATE, VOCABULARY = 14336, 128256

    def __init__(self, batch, context):
        self.batch, self.context, self.tape = batch, context, Tape()

    def program(self):
        tape = self.tape
        hidden = self.rows(self.HIDDEN)
        frequencies = self.rows(self.HEAD_SIZE // 2, FLOAT)
        angles = self.rows(self.HEAD_SIZE // 2, FLOAT)
        joined = self.rows(self.HEAD_SIZE, FLOAT)
        tape.free(angles, frequencies)
        cosine_float = self.rows(self.HEAD_SIZE, FLOAT)
        sine_float = self.rows(self.HEAD_SIZE, FLOAT)
        tape.free(joined)
        cosine, sine = self.rows(self.HEAD_SIZE), self.rows(self.HEAD_SIZE)
        tape.free(cosine_float, sine_float)
        mask = self.rows(self.context)
        for _ in range(self.LAYERS):
            hidden = self.feed_forward(self.attention(hidden))
        normed = eager_norm(tape, self.batch, self.HIDDEN)
        tape.free(hidden, cosine, sine, mask)
        logits = self.rows(self.VOCABULARY)
        tape.free(normed)
        self.rows(self.VOCABULARY, FLOAT)
        tape.free(logits)
        return tape.finish()

    def rows(self, width, value=HALF):
        return self.tape.new(self.batch * width * value)

    def attention(self, hidden):
        tape, all_heads = self.tape, self.HEADS * self.HEAD_SIZE
        kv_width = self.KV_HEADS * self.HEAD_SIZE
        normed = eager_norm(tape, self.batch, self.HIDDEN)
        queries, keys, values = self.rows(all_heads), self.rows(kv_width), self.rows(kv_width)
        tape.free(normed)
        queries = eager_rotation(tape, queries, self.batch * all_heads)
        keys = eager_rotation(tape, keys, self.batch * kv_width)
        tape.free(keys, values)
        scores = self.HEADS * self.context  # Per sequence.
        repeated_keys = self.rows(scores * self.HEAD_SIZE)
        repeated_values = self.rows(scores * self.HEAD_SIZE)
        raw, scaled = self.rows(scores), self.rows(scores)
        tape.free(raw, repeated_keys, queries)
        masked = self.rows(scores)
        tape.free(scaled)
        softmax = self.rows(scores, FLOAT)
        tape.free(masked)
        weights = self.rows(scores)
        tape.free(softmax)
        attended = self.rows(all_heads)
        tape.free(weights, repeated_values)
        contiguous = self.rows(all_heads)
        tape.free(attended)
        output = self.rows(self.HIDDEN)
        tape.free(contiguous)
        total = self.rows(self.HIDDEN)
        tape.free(output, hidden)
        return total

    def feed_forward(self, hidden):
        tape = self.tape
        normed = eager_norm(tape, self.batch, self.HIDDEN)
        gate, activated = self.rows(self.INTERMEDIATE), self.rows(self.INTERMEDIATE)
        tape.free(gate)
        up, product = self.rows(self.INTERMEDIATE), self.rows(self.INTERMEDIATE)
        tape.free(activated, up, normed)
        down = self.rows(self.HIDDEN)
        tape.free(product)
        total = self.rows(self.HIDDEN)
        tape.free(down, hidden)
        return total


def bert_layer(tape, hidden, batch, sequence, eager):
    """A layer of BERT large: 16 heads, 1024 hidden units, 4096 intermediate ones."""
    heads, width, intermediate, rows = 16, 1024, 4096, batch * sequence

    def half_rows(count=1):
        return [tape.new(rows * width * HALF) for _ in range(count)]

    def statistics():
        return tape.new(rows * FLOAT), tape.new(rows * FLOAT)

    queries, keys, values = half_rows(3)
    if eager:
        score_bytes = batch * heads * sequence * sequence * HALF
        raw = tape.new(score_bytes)
        tape.free(queries, keys)
        scaled = tape.new(score_bytes)
        tape.free(raw)
        masked = tape.new(score_bytes)
        tape.free(scaled)
        weights = tape.new(score_bytes)
        tape.free(masked)
        (attended,) = half_rows()
        tape.free(weights, values)
        (context,) = half_rows()
        tape.free(attended)
    else:
        (context,) = half_rows()
        sums = tape.new(batch * heads * sequence * FLOAT)
        random_state = tape.new(16)
        tape.free(sums, random_state, queries, keys, values)
    (projected,) = half_rows()
    tape.free(context)
    (attention_sum,) = half_rows()
    tape.free(projected, hidden)
    (normed,) = half_rows()
    tape.free(attention_sum, *statistics())
    up = tape.new(rows * intermediate * HALF)
    activated = tape.new(rows * intermediate * HALF)
    tape.free(up)
    (down,) = half_rows()
    tape.free(activated)
    (total,) = half_rows()
    tape.free(down, normed)
    (output,) = half_rows()
    tape.free(total, *statistics())
    return output


def bert_large(batch, sequence, eager):
    """`eager`: attention keeps its scores."""
    layers, width, rows, tape = 24, 1024, batch * sequence, Tape()
    mask = tape.new(rows * HALF)
    tape.new(rows * FLOAT)  # The additive mask lives to the end.
    tape.free(mask)
    words = tape.new(rows * width * HALF)
    positions = tape.new(sequence * width * HALF)
    embedded = tape.new(rows * width * HALF)
    tape.free(words, positions)
    hidden = tape.new(rows * width * HALF)
    tape.free(embedded)
    for _ in range(layers):
        hidden = bert_layer(tape, hidden, batch, sequence, eager)
    pooled = tape.new(batch * width * HALF)
    tape.new(batch * width * HALF)
    tape.free(pooled)
    return tape.finish()


class T5Base:
    """The encoder over `sequence` tokens, then the decoder over `decoded`."""

    LAYERS, HIDDEN, HEADS, INTERMEDIATE, VOCABULARY = 12, 768, 12, 3072, 32128

    def __init__(self, batch):
        self.batch, self.tape = batch, Tape()

    def program(self, sequence, decoded):
        tape, batch = self.tape, self.batch
        hidden = self.rows(sequence)
        bias = None
        for _ in range(self.LAYERS):
            hidden, bias = self.attention(hidden, sequence, sequence, bias)
            hidden = self.feed_forward(hidden, sequence)
        tape.free(bias)
        encoded = eager_norm(tape, batch * sequence, self.HIDDEN)
        tape.free(hidden)

        hidden = self.rows(decoded)
        self_bias = cross_bias = None
        for _ in range(self.LAYERS):
            hidden, self_bias = self.attention(hidden, decoded, decoded, self_bias)
            hidden, cross_bias = self.attention(hidden, decoded, sequence, cross_bias)
            hidden = self.feed_forward(hidden, decoded)
        tape.free(self_bias, cross_bias)
        normed = eager_norm(tape, batch * decoded, self.HIDDEN)
        tape.free(hidden)
        logits = tape.new(batch * decoded * self.VOCABULARY * HALF)
        tape.free(normed, encoded)
        tape.new(batch * decoded * self.VOCABULARY * FLOAT)
        tape.free(logits)
        return tape.finish()

    def rows(self, length, width=HIDDEN):
        return self.tape.new(self.batch * length * width * HALF)

    def attention(self, hidden, queries_length, keys_length, bias):
        """Over keys of this length. The first layer makes the bias, the others share it."""
        tape = self.tape
        pairs = queries_length * keys_length
        scores = self.batch * self.HEADS * pairs
        normed = eager_norm(tape, self.batch * queries_length, self.HIDDEN)
        queries = self.rows(queries_length)
        keys, values = self.rows(keys_length), self.rows(keys_length)
        tape.free(normed)
        raw = tape.new(scores * HALF)
        tape.free(queries, keys)
        if bias is None:
            distances, bucketed = tape.new(pairs * LONG), tape.new(pairs * LONG)
            tape.free(distances)
            looked_up = tape.new(pairs * self.HEADS * HALF)
            tape.free(bucketed)
            bias = tape.new(scores * HALF)
            tape.free(looked_up)
        biased = tape.new(scores * HALF)
        tape.free(raw)
        softmax = tape.new(scores * FLOAT)
        tape.free(biased)
        weights = tape.new(scores * HALF)
        tape.free(softmax)
        attended = self.rows(queries_length)
        tape.free(weights, values)
        contiguous = self.rows(queries_length)
        tape.free(attended)
        return self.add(contiguous, hidden, queries_length), bias

    def feed_forward(self, hidden, length):
        normed = eager_norm(self.tape, self.batch * length, self.HIDDEN)
        up = self.rows(length, self.INTERMEDIATE)
        self.tape.free(normed)
        activated = self.rows(length, self.INTERMEDIATE)
        self.tape.free(up)
        return self.add(activated, hidden, length)

    def add(self, source, hidden, length):
        """Projects `source` and adds the result to `hidden`."""
        projected = self.rows(length)
        self.tape.free(source)
        total = self.rows(length)
        self.tape.free(projected, hidden)
        return total


def random_program(count, lives, seed):
    """Buffers whose begins are spread over 4 x count steps.

    `lives` says how long they live: about 40 steps if "short", one in ten much longer if "mix", up
    to half of the program if "long".
    """
    draw = random.Random(seed)

    def life():
        if lives == "long":
            return draw.randrange(1, 2 * count)
        if lives == "short" or draw.random() < 0.9:
            return 1 + int(draw.expovariate(1 / 40))
        return 1 + int(draw.expovariate(1 / (count / 2)))

    buffers = []
    for _ in range(count):
        begin = draw.randrange(4 * count)
        end = min(4 * count, begin + life()) + 1
        buffers.append([begin, end, 512 * max(1, int(draw.lognormvariate(5, 2)))])
    return buffers
