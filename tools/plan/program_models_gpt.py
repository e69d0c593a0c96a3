"""A training step of a GPT with 1024 hidden units on 4 x 1024 tokens: forward, backward and the
optimiser.
"""

import types

from program_models import FLOAT, HALF, Tape

BATCH, SEQUENCE, HIDDEN, HEADS = 4, 1024, 1024, 16
ROWS = BATCH * SEQUENCE
INTERMEDIATE = 4 * HIDDEN
VOCABULARY = 50304


class GptTrainingStep:
    def __init__(self):
        self.tape = Tape()
        self.weight_gradients = []

    def program(self, layers, checkpointed):
        """`checkpointed`: a layer keeps only its input, and runs forward again before backward."""
        tape = self.tape
        hidden, stack = self.rows(HIDDEN), []
        for _ in range(layers):
            output, saved = self.forward()
            if checkpointed:
                self.drop(saved)
            stack.append((hidden, saved))
            hidden = output
        gradient = self.loss(hidden)
        for given, saved in reversed(stack):
            if checkpointed:
                output, saved = self.forward()
                tape.free(output)
            gradient = self.backward(gradient, given, saved)
        tape.free(gradient)
        for weight_gradient in self.weight_gradients:
            tape.free(tape.new(2 * tape.buffers[weight_gradient][2]))
            tape.free(weight_gradient)
        return tape.finish()

    def rows(self, width):
        return self.tape.new(ROWS * width * HALF)

    def statistics(self):
        return self.tape.new(ROWS * FLOAT)

    def mask(self):
        return self.tape.new(ROWS * HIDDEN)

    def sums(self):
        return self.tape.new(BATCH * HEADS * SEQUENCE * FLOAT)

    def weight(self, rows, columns):
        return self.tape.new(rows * columns * HALF)

    def forward(self):
        """The output, and what the layer keeps for its backward pass beside its input."""
        tape, saved = self.tape, types.SimpleNamespace()
        saved.normed = self.rows(HIDDEN)
        saved.mean, saved.deviation = self.statistics(), self.statistics()
        saved.qkv = self.rows(3 * HIDDEN)
        saved.attended = self.rows(HIDDEN)
        saved.sums = self.sums()
        saved.random_state = tape.new(16)
        projected = self.rows(HIDDEN)
        saved.attention_mask = self.mask()
        dropped = self.rows(HIDDEN)
        tape.free(projected)
        saved.middle = self.rows(HIDDEN)
        tape.free(dropped)
        saved.middle_normed = self.rows(HIDDEN)
        saved.middle_mean, saved.middle_deviation = self.statistics(), self.statistics()
        saved.up, saved.activated = self.rows(INTERMEDIATE), self.rows(INTERMEDIATE)
        down = self.rows(HIDDEN)
        saved.output_mask = self.mask()
        output_dropped = self.rows(HIDDEN)
        tape.free(down)
        output = self.rows(HIDDEN)
        tape.free(output_dropped)
        return output, saved

    def drop(self, saved):
        self.tape.free(saved.normed, saved.mean, saved.deviation, saved.qkv, saved.attended,
                       saved.sums, saved.random_state, saved.attention_mask, saved.middle,
                       saved.middle_normed, saved.middle_mean, saved.middle_deviation, saved.up,
                       saved.activated, saved.output_mask)

    def loss(self, hidden):
        tape = self.tape
        logits = self.rows(VOCABULARY)
        logits_float = tape.new(ROWS * VOCABULARY * FLOAT)
        losses = self.statistics()
        tape.free(logits)
        logits_gradient = self.rows(VOCABULARY)
        tape.free(logits_float, losses)
        gradient = self.rows(HIDDEN)
        self.weight_gradients.append(self.weight(VOCABULARY, HIDDEN))
        tape.free(logits_gradient, hidden)
        return gradient

    def backward(self, gradient, given, saved):
        tape = self.tape
        output_undropped = self.rows(HIDDEN)
        tape.free(saved.output_mask)
        activated = self.rows(INTERMEDIATE)
        down_weight = self.weight(INTERMEDIATE, HIDDEN)
        tape.free(saved.activated, output_undropped)
        up = self.rows(INTERMEDIATE)
        tape.free(activated, saved.up)
        middle_normed = self.rows(HIDDEN)
        up_weight = self.weight(INTERMEDIATE, HIDDEN)
        tape.free(up, saved.middle_normed)
        middle_norm_weight = self.weight(2, HIDDEN)
        middle_part = self.rows(HIDDEN)
        tape.free(middle_normed, saved.middle_mean, saved.middle_deviation, saved.middle)
        middle = self.rows(HIDDEN)
        tape.free(middle_part, gradient)

        undropped = self.rows(HIDDEN)
        tape.free(saved.attention_mask)
        attended = self.rows(HIDDEN)
        output_weight = self.weight(HIDDEN, HIDDEN)
        tape.free(undropped)
        qkv = self.rows(3 * HIDDEN)
        sums = self.sums()
        accumulated = tape.new(ROWS * HIDDEN * FLOAT)
        tape.free(accumulated, sums, attended, saved.attended, saved.sums, saved.random_state,
                  saved.qkv)
        normed = self.rows(HIDDEN)
        qkv_weight = self.weight(3 * HIDDEN, HIDDEN)
        tape.free(qkv, saved.normed)
        norm_weight = self.weight(2, HIDDEN)
        part = self.rows(HIDDEN)
        tape.free(normed, saved.mean, saved.deviation, given)
        total = self.rows(HIDDEN)
        tape.free(part, middle)
        self.weight_gradients += [down_weight, up_weight, output_weight, qkv_weight,
                                  middle_norm_weight, norm_weight]
        return total
