"""Names of mirrored files: readable, stable, and safe on every file system."""

import re
import unicodedata
from collections.abc import Iterator

from memory_contracts.names import is_name

MEMORY_SUFFIX = ".md"
"""Ending of memory and rule files."""
SLUG_MAX_CHARS = 48
"""Longest readable part of a memory's file name, in characters."""
SLUG_MAX_BYTES = 120
"""Longest readable part in UTF-8 bytes: with the tail and ending it stays far under the 255 of ext4, APFS and NTFS,
and under the 143 that eCryptfs leaves of them."""
TAIL_CHARS = (4, 8, 26)
"""Characters of the id's end that a name carries: more only where a shorter tail is taken. 26 is the whole ULID."""

_RESERVED = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{device}{digit}" for device in ("com", "lpt") for digit in "0123456789¹²³"}
)
"""Names that Windows keeps for devices, with any ending (Microsoft, "Naming Files, Paths, and Namespaces")."""
_ESCAPE = "~"
"""Set after a reserved name; it cannot occur in a bank or rule name, so the way back is unambiguous."""

_NOISE = re.compile(
    r"""
      \..*                                  # hidden: .DS_Store, .#lock, .x.md.swp, .goutputstream-…
    | .*~                                   # backups of emacs, vim, gedit, nano
    | ~.*                                   # office locks, ~$x.md
    | \#.*\#                                # autosaves of emacs
    | 4913                                  # the file with which vim tries whether a folder can be written
    | .*\.(?:sw[a-px]|tmp|temp|part|partial|crdownload|bak|orig|rej)
    | .*___jb_(?:tmp|old|bak)___            # safe writes of JetBrains editors
    | .*\.tmp\.\d+(?:\.\d+)?                # atomic writes of several command line editors
    | thumbs\.db | desktop\.ini | icon\r
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def is_noise(name: str) -> bool:
    """Tell whether a file name belongs to an editor or a file manager rather than to a person."""
    return _NOISE.fullmatch(name) is not None


def slug(text: str, fallback: str = "memory") -> str:
    """Make the readable part of a file name: lower-case letters and digits of any script, joined by hyphens.

    At most `SLUG_MAX_CHARS` characters and `SLUG_MAX_BYTES` bytes, cut at a word where there is one, in NFC; never
    empty, never beginning or ending with a hyphen.
    """
    words: list[str] = []
    used = 0
    # Twice enough for a full name; a text of 2,000 characters need not be folded whole.
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text[: 4 * SLUG_MAX_CHARS]).lower())
    for word in _words(folded):
        room = SLUG_MAX_CHARS - used - bool(words)
        bytes_left = SLUG_MAX_BYTES - len("-".join(words).encode()) - bool(words)
        if len(word) > room or len(word.encode()) > bytes_left:
            if not words:
                words.append(_cut(word, room, bytes_left))
            break
        words.append(word)
        used += len(word) + bool(used)
    return "-".join(words) or fallback


def _words(folded: str) -> Iterator[str]:
    """Runs of letters, digits and the marks that belong to them; apostrophes inside a word vanish."""
    word = ""
    for character in folded:
        group = unicodedata.category(character)[0]
        if group in "LN" or (group == "M" and word):
            word += character
        elif character not in "'’" and word:
            yield word
            word = ""
    if word:
        yield word


def _cut(word: str, chars: int, size: int) -> str:
    """Shorten one long word (a script without spaces) without splitting a character from its marks."""
    cut = word[:chars]
    while len(cut.encode()) > size:
        cut = cut[:-1]
    while len(cut) < len(word) and cut and unicodedata.category(word[len(cut)])[0] == "M":
        cut = cut[:-1]
    return cut


def memory_names(memory_id: str, subject: str | None, text: str) -> Iterator[str]:
    """Give the file names a memory may have, the most readable first; the last one is unique to the id.

    The readable part is the subject where there is one, else the beginning of the text.
    """
    readable = slug(subject or text)
    tail = re.sub(r"[^0-9a-z]", "", memory_id.rpartition("_")[2].lower()) or "0"
    for length in TAIL_CHARS:
        yield f"{readable}-{tail[-length:]}{MEMORY_SUFFIX}"


def safe_component(name: str) -> str:
    """Give the file or folder name (without ending) of a bank or rule: itself, unless a system reserves it."""
    return name + _ESCAPE if name in _RESERVED else name


def name_of_component(component: str) -> str | None:
    """Give the bank or rule name that a file or folder name stands for, None when it stands for none."""
    name = component.removesuffix(_ESCAPE)
    if component != safe_component(name) or not is_name(name):
        return None
    return name
