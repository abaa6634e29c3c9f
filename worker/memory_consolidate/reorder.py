"""Tells whether two texts of the same tokens differ only in the order of one list, which carries no roles.

“Ana likes tea and coffee” and “Ana likes coffee and tea” say the same; “Ana manages Ben” and “Ben manages Ana” do not.
The check looks for one coordination in the whole text and for the same items in it; whatever it cannot read this way
(two lists, an order that is named, items whose reach is unclear) counts as a difference.
"""

from collections.abc import Sequence

from memory_consolidate.lexicon import Lexicon

ITEM_MAX_TOKENS = 5
"""Longest item of a list, in tokens; what is longer is a clause, and clauses may follow each other in time."""
_COMMAS = frozenset({",", "、"})


def differs_in_list_order(left: Sequence[str], right: Sequence[str], lexicon: Lexicon) -> bool:
    """Whether `right` is `left` with the items of its one list in another order. Tokens are case-folded."""
    if tuple(left) == tuple(right) or sorted(left) != sorted(right):
        return False
    if any(token in lexicon.sequence for token in left):
        return False
    first, separators = _split(left, lexicon)
    second, other_separators = _split(right, lexicon)
    if len(first) < 2 or separators != other_separators or not all(first) or not all(second):
        return False
    heads = range(min(len(first[0]), len(second[0])))
    tails = range(min(len(first[-1]), len(second[-1])))
    for head in heads:
        if first[0][:head] != second[0][:head]:
            break
        for tail in tails:
            end, other_end = len(first[-1]) - tail, len(second[-1]) - tail
            if first[-1][end:] != second[-1][other_end:]:
                break
            if not _is_framed(first[0][:head], first[-1][end:], lexicon):
                continue
            items = [first[0][head:], *first[1:-1], first[-1][:end]]
            others = [second[0][head:], *second[1:-1], second[-1][:other_end]]
            if sorted(items) == sorted(others) and all(_is_item(item, lexicon) for item in items):
                return True
    return False


def _split(tokens: Sequence[str], lexicon: Lexicon) -> tuple[list[tuple[str, ...]], list[str]]:
    segments: list[list[str]] = [[]]
    separators = []
    for token in tokens:
        if token in lexicon.conjunction or token in _COMMAS:
            separators.append(token)
            segments.append([])
        else:
            segments[-1].append(token)
    return [tuple(segment) for segment in segments], separators


def _is_framed(before: Sequence[str], after: Sequence[str], lexicon: Lexicon) -> bool:
    """Whether the list clearly begins after `before` and ends before `after`.

    “black tea and coffee” may be black coffee or not; only a word that cannot belong to an item bounds a list.
    """
    if not before and not after:
        return False
    return (not before or before[-1] in lexicon.opener) and (not after or after[0] in lexicon.closer)


def _is_item(item: Sequence[str], lexicon: Lexicon) -> bool:
    if not 1 <= len(item) <= ITEM_MAX_TOKENS:
        return False
    return not any(token in lexicon.copula or token in lexicon.negation for token in item)
