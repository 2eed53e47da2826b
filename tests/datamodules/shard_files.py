"""Samples and tar files that the tests of shards are made of."""

import io
import json
import tarfile

from published import picture


def make(count, **more):
    return [
        {"key": f"{i:04d}", "images": [picture()], "question": "Q?", "answer": str(i), **more}
        for i in range(count)
    ]


def pack(path, members):
    """Write a tar by hand from (name, bytes) pairs."""
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return str(path)


def row(answer="1", **more):
    return json.dumps({"question": "Q?", "answer": answer, **more}).encode()
