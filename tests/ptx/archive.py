"""Archives of texts that a compiler made: the same texts are the same bytes.

    write(path, {"softmax.ptx": text})
    texts = read(path)
"""

import io
import tarfile


def write(path, texts):
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name, text in sorted(texts.items()):
            data = text.encode()
            member = tarfile.TarInfo(name)  # Of nobody, in 1970.
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def read(path):
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read().decode() for member in archive}
