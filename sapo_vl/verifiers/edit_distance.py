"""Levenshtein distance in time linear in one text, and the similarity it gives."""

from __future__ import annotations


def edit_distance(left: str, right: str) -> int:
    """Return how many insertions, deletions and replacements turn one text into the other.

    The columns of the usual table are kept as differences of +1 and -1, one bit a row (Myers 1999,
    with Hyyrö's handling of the boundary), so each character of ``right`` costs a few additions.
    """
    if not left or not right:
        return len(left) + len(right)
    where: dict[str, int] = {}
    for i, char in enumerate(left):
        where[char] = where.get(char, 0) | (1 << i)
    full = (1 << len(left)) - 1
    last = 1 << (len(left) - 1)
    up, down, distance = full, 0, len(left)  # rows that grow and that shrink
    for char in right:
        equal = where.get(char, 0)
        diagonal = ((((equal & up) + up) ^ up) | equal | down) & full
        grows, shrinks = down | (full & ~(diagonal | up)), up & diagonal
        distance += bool(grows & last) - bool(shrinks & last)
        grows, shrinks = ((grows << 1) | 1) & full, (shrinks << 1) & full
        up, down = shrinks | (full & ~(diagonal | grows)), grows & diagonal
    return distance


def similarity(left: str, right: str, threshold: float) -> float:
    """Return 1 - edits / length of the longer text, 0 from ``threshold`` of edits on (ANLS).

    Texts are compared as they are: what does not count (case, blanks) is for the caller to fold.
    """
    longer, shorter = max(len(left), len(right)), min(len(left), len(right))
    # The lengths alone decide where one text is much longer, so long garbage costs nothing.
    if not longer or (longer - shorter) / longer >= threshold:
        return float(left == right)
    share = edit_distance(left, right) / longer
    return 1 - share if share < threshold else 0.0
