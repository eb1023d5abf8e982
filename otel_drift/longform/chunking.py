"""Cuts a long answer into runs of whole sentences that overlap, none larger than a judge can take."""

from __future__ import annotations

from collections.abc import Sequence

MOST_TOKENS = 4_000
LEAST_TOKENS = 2_000
OVERLAP_TOKENS = 200


def chunks(tokens: Sequence[int], most: int = MOST_TOKENS, overlap: int = OVERLAP_TOKENS) -> list[range]:
    """Cut sentences into chunks of about equal size.

    Args:
        tokens: the tokens of each sentence, in order.
        most: the size of a chunk; only a sentence that is larger by itself exceeds it. Up to this size nothing is cut,
            and no chunk is smaller than about half of it.
        overlap: a chunk begins with the last sentences of the one before it, as many as come next to this size, at
            least one (unless that alone leaves no room).

    Returns:
        ranges of sentence numbers; together they cover every sentence.
    """
    total = sum(tokens)
    if total <= most:
        return [range(len(tokens))] if tokens else []
    overlap = min(overlap, most // 4)
    number = -(-(total - overlap) // (most - overlap))
    target = (total + (number - 1) * overlap) / number
    found: list[range] = []
    start = fresh = 0
    while fresh < len(tokens):
        end, size = start, 0
        while end < len(tokens) and (end <= fresh or (size < target and size + tokens[end] <= most)):
            size += tokens[end]
            end += 1
        found.append(range(start, end))
        fresh, start = end, _overlap_start(tokens, end, start, overlap, most)
    return found


def _overlap_start(tokens: Sequence[int], end: int, previous: int, overlap: int, most: int) -> int:
    """The first sentence of the next chunk: nearest to `overlap` tokens back, always after the start of this one."""
    start, size = end, 0
    while start - 1 > previous and size < overlap:
        step = tokens[start - 1]
        if size and size + step - overlap > overlap - size:
            break
        if size + step > most // 2:
            break
        size += step
        start -= 1
    return start
