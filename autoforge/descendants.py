"""Counts how many features wait for each of some others, exactly: not how many ways lead to them."""

from collections.abc import Sequence

AT_ONCE = 4096
"""For so many one walk over the graph is made; more at once would take more memory, n · AT_ONCE / 8 bytes, not less time."""


def count(wanted: Sequence[int], *, order: Sequence[int], followers: Sequence[Sequence[int]]) -> list[int]:
    """For each of the wanted, the distinct nodes of the order, dependencies first, that are reached over followers."""
    counts = dict.fromkeys(wanted, 0)
    roots = [n for n in wanted if followers[n]]
    for start in range(0, len(roots), AT_ONCE):
        part = roots[start : start + AT_ONCE]
        counts |= zip(part, _count_at_once(part, order, followers), strict=True)
    return list(counts.values())


def _count_at_once(
    roots: Sequence[int], order: Sequence[int], followers: Sequence[Sequence[int]]
) -> list[int]:
    above = [0] * len(followers)  # which roots it is or waits for, a bit for each
    for bit, n in enumerate(roots):
        above[n] = 1 << bit
    reached = []
    for n in order:
        bits = above[n]
        if bits:
            reached.append(bits)
            for follower in followers[n]:
                above[follower] |= bits
    return [max(0, rows - 1) for rows in _add_up(reached, len(roots))]  # without itself


def _add_up(rows: list[int], width: int) -> list[int]:
    """In how many rows each bit is set. All columns are added at once, two rows and what is there at a time."""
    digits: list[str] = []  # of the sums, the lowest first
    while rows or not digits:
        carries = []
        digit = 0
        pairs = iter(rows)
        for a in pairs:
            b = next(pairs, 0)
            either = a ^ b
            carries.append(a & b | either & digit)
            digit ^= either
        digits.append(f"{digit:0{width}b}")
        rows = [carry for carry in carries if carry]
    return [int("".join(sums), 2) for sums in zip(*reversed(digits), strict=True)][::-1]
