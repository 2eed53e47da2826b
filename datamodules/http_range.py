"""Going on with a download that broke: what curl is told, and what the server's answer means.

A server that takes ranges (RFC 9110, section 14) sends the rest with status 206; one that does not,
or whose file has changed in between, sends the whole file with status 200.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass

_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_END = re.compile(rb"\r?\n\r?\n")
_MAX_HEAD = 1 << 20


@dataclass(frozen=True, slots=True)
class Head:
    """Status and header fields of an answer; names in lower case."""

    status: int
    fields: Mapping[str, str]

    @property
    def start(self) -> int:
        """The place in the file of the body's first byte."""
        found = _RANGE.match(self.fields.get("content-range", ""))
        return int(found[1]) if self.status == 206 and found else 0

    @property
    def total(self) -> int | None:
        """Bytes of the whole file, where the server says."""
        found = _RANGE.match(self.fields.get("content-range", ""))
        if self.status == 206:
            return int(found[2]) if found else None
        length = self.fields.get("content-length", "")
        return int(length) if length.isdecimal() else None

    @property
    def validator(self) -> str | None:
        """What tells this version of the file from others byte for byte, for ``If-Range``."""
        tag = self.fields.get("etag", "")
        return tag if tag.startswith('"') else self.fields.get("last-modified")


def curl_command(url: str, head: Head | None, have: int) -> list[str]:
    """Ask for a file, headers first; for what is missing where ``have`` bytes of it are there.

    Args:
        url: of the file.
        head: the answer that those bytes came with.
        have: how many are there; 0: none that can be used.
    """
    # As webdataset asks, with -i; the header fields of a proxy's tunnel are not the answer's.
    command = ["curl", "--connect-timeout", "30", "--retry", "30", "--retry-delay", "2"]
    command += ["--suppress-connect-headers", "-fsLi"]
    if have and head is not None:
        command += ["--range", f"{have}-", "--header", f"If-Range: {head.validator}"]
    return [*command, url]


def read_head(pieces: Generator[bytes, None, None]) -> tuple[Head, bytes]:
    """Read the header fields off the pieces of an answer; gives what follows of the body, too.

    Answers before the last, such as redirections or one that curl asks again after, are passed
    over. Where there is no other the status is 0.
    """
    begun = b""
    for piece in pieces:
        begun += piece
        while (end := _END.search(begun)) is not None:
            head = _parse(begun[: end.start()].decode("latin-1"))
            begun = begun[end.end() :]
            if head.status in (200, 206):
                return head, begun
        if len(begun) > _MAX_HEAD:
            break
    return Head(0, {}), b""


def _parse(text: str) -> Head:
    first, *lines = text.splitlines() or [""]
    words = first.split()
    fields = (line.partition(":") for line in lines)
    return Head(
        int(words[1]) if len(words) > 1 and words[1].isdecimal() else 0,
        {name.strip().lower(): value.strip() for name, _, value in fields},
    )
