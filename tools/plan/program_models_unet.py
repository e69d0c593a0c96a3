"""The UNet of Stable Diffusion 1.5: residual blocks and transformers on the way down and up, with
skips between them.
"""

import dataclasses

from program_models import FLOAT, HALF, MIB, Tape

LEVEL_CHANNELS = (320, 640, 1280, 1280)
PLAIN_LEVEL = 3  # Has no transformers.
EMBEDDING = 1280
GROUPS = 32
PROMPT_TOKENS = 77
IMAGE_PER_LATENT = 8     # Pixels, each way.
SCRATCH_MAX = 256 * MIB  # Of a convolution.


@dataclasses.dataclass(frozen=True)
class Image:
    channels: int
    height: int
    width: int
    id: int = None


class DiffusionUnet:
    def __init__(self, batch):
        self.batch, self.tape = batch, Tape()
        self.skips = []  # Of the way down, for the way up.

    def program(self, height, width):
        """For an image of height x width pixels."""
        tape = self.tape
        sine = tape.new(self.batch * LEVEL_CHANNELS[0] * FLOAT)
        lifted = tape.new(self.batch * EMBEDDING * HALF)
        tape.free(sine)
        time = tape.new(self.batch * EMBEDDING * HALF)
        tape.free(lifted)
        latent = self.new(Image(4, height // IMAGE_PER_LATENT, width // IMAGE_PER_LATENT))
        middle = self.middle(self.down(latent))
        normed = self.norm(self.up(middle), keep=False)
        self.convolve(normed, 4, keep=False)
        tape.free(time)
        return tape.finish()

    def bytes_of(self, image):
        return self.batch * image.channels * image.height * image.width * HALF

    def new(self, like, **changes):
        """An image of the same extents but for the changes."""
        image = dataclasses.replace(like, **changes)
        return dataclasses.replace(image, id=self.tape.new(self.bytes_of(image)))

    def convolve(self, source, channels, keep, shrink=1):
        """Divides the extents by `shrink`."""
        output = self.new(source, channels=channels, height=source.height // shrink,
                          width=source.width // shrink)
        filter_bytes = source.channels * channels * 9 * HALF
        self.tape.free(self.tape.new(min(2 * self.bytes_of(source) + filter_bytes, SCRATCH_MAX)))
        if not keep:
            self.tape.free(source.id)
        return output

    def norm(self, source, keep):
        """Group normalisation and activation."""
        normed = self.new(source)
        mean = self.tape.new(self.batch * GROUPS * FLOAT)
        deviation = self.tape.new(self.batch * GROUPS * FLOAT)
        self.tape.free(mean, deviation)
        activated = self.new(source)
        self.tape.free(normed.id)
        if not keep:
            self.tape.free(source.id)
        return activated

    def residual(self, source, channels, keep):
        tape = self.tape
        first = self.convolve(self.norm(source, keep=True), channels, keep=False)
        activated_time = tape.new(self.batch * EMBEDDING * HALF)
        projected_time = tape.new(self.batch * channels * HALF)
        tape.free(activated_time)
        timed = self.new(first)
        tape.free(first.id, projected_time)
        second = self.convolve(self.norm(timed, keep=False), channels, keep=False)
        shortcut = None
        if source.channels != channels:
            shortcut = self.convolve(source, channels, keep=True).id
        output = self.new(second)
        tape.free(shortcut, second.id)
        if not keep:
            tape.free(source.id)
        return output

    def attention(self, hidden, rows, key_rows, channels):
        heads, tape = 8, self.tape
        normed = tape.new(rows * channels * HALF)
        queries = tape.new(rows * channels * HALF)
        keys = tape.new(key_rows * channels * HALF)
        values = tape.new(key_rows * channels * HALF)
        tape.free(normed)
        attended = tape.new(rows * channels * HALF)
        sums = tape.new(rows * heads * FLOAT)
        tape.free(queries, keys, values, sums)
        return self.add(attended, hidden, rows * channels * HALF)

    def add(self, source, hidden, size):
        """Projects `source` and adds the result to `hidden`."""
        projected = self.tape.new(size)
        self.tape.free(source)
        total = self.tape.new(size)
        self.tape.free(projected, hidden)
        return total

    def transform(self, source):
        tape, rows = self.tape, self.batch * source.height * source.width
        size = self.bytes_of(source)
        projected = self.convolve(self.norm(source, keep=True), source.channels, keep=False)
        hidden = self.new(source).id
        tape.free(projected.id)
        hidden = self.attention(hidden, rows, rows, source.channels)
        hidden = self.attention(hidden, rows, self.batch * PROMPT_TOKENS, source.channels)
        normed, gated = tape.new(size), tape.new(8 * size)
        tape.free(normed)
        activated = tape.new(4 * size)
        tape.free(gated)
        hidden = self.add(activated, hidden, size)
        back = self.convolve(dataclasses.replace(source, id=hidden), source.channels, keep=False)
        output = self.new(source)
        tape.free(back.id, source.id)
        return output

    def down(self, latent):
        hidden = self.convolve(latent, LEVEL_CHANNELS[0], keep=False)
        self.skips = [hidden]
        for level, channels in enumerate(LEVEL_CHANNELS):
            for _ in range(2):
                hidden = self.residual(hidden, channels, keep=True)
                if level < PLAIN_LEVEL:
                    hidden = self.transform(hidden)
                self.skips.append(hidden)
            if level == PLAIN_LEVEL:
                continue
            hidden = self.convolve(hidden, hidden.channels, keep=True, shrink=2)
            self.skips.append(hidden)
        return hidden

    def middle(self, source):
        first = self.transform(self.residual(source, source.channels, keep=True))
        return self.residual(first, first.channels, keep=False)

    def up(self, hidden):
        for level, channels in reversed([*enumerate(LEVEL_CHANNELS)]):
            for _ in range(3):
                skip = self.skips.pop()
                joined = self.new(hidden, channels=hidden.channels + skip.channels)
                self.tape.free(hidden.id, skip.id)
                hidden = self.residual(joined, channels, keep=False)
                if level < PLAIN_LEVEL:
                    hidden = self.transform(hidden)
            if level == 0:
                continue
            larger = self.new(hidden, height=2 * hidden.height, width=2 * hidden.width)
            self.tape.free(hidden.id)
            hidden = self.convolve(larger, larger.channels, keep=False)
        return hidden
