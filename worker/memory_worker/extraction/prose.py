"""Separates what a person wrote from what they pasted: code, logs, mails, documents and quotations are left out."""

import re
from collections.abc import Iterator

import msgspec

SENTENCES_MAX = 400
"""Most sentences of one message that are looked at."""
DOCUMENT_CHARS = 400
"""A paragraph of at least this many characters without a first-person word is taken for a pasted document."""
MACHINE_SHARE = 0.4
"""A line of which more than this share is digits and ASCII symbols is no prose."""
LONG_PROSE_CHARS = 1_500
"""From this much prose on, only a message's first paragraph counts as the person speaking to the assistant: beyond
it, a standing instruction may be part of something pasted."""


class Sentence(msgspec.Struct, frozen=True):
    """One sentence (or list line) of a person's prose. `own` is False where it may belong to something pasted."""

    text: str
    own: bool
    listed: bool = False
    heading: str = ""


_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_BLANKS = re.compile(r"\n[ \t\n]{2,}\n")
_INLINE_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_TRIPLE_QUOTE = re.compile(r"(\"\"\"|''').*?(?:\1|\Z)", re.DOTALL)
_LONG_QUOTE = re.compile(r"[\"“«„][^\"“”«»„]{160,}[\"”»]", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>")

# Where something pasted begins: everything from here to the end of the message is somebody else's text.
_MAIL_HEADER = re.compile(
    r"^[>* \t]*(?:From|To|Cc|Subject|Sent|Date|Von|An|Betreff|De|À|Objet|Asunto|Para|Assunto)\s*:\*?\s*\S.*\n"
    r"(?:\s*\n)?[>* \t]*(?:From|To|Cc|Subject|Sent|Date|Reply-To|Von|An|Betreff|Datum|De|À|Objet|Asunto|Para|Assunto)"
    r"\s*:\*?\s*\S",
    re.MULTILINE,
)
_FORWARDED = re.compile(
    r"^\s*(?:-{2,}\s*(?:original|forwarded) message|begin forwarded message|(?:>{1,3}\s*)?on\b.{4,120}\bwrote:)",
    re.MULTILINE | re.IGNORECASE,
)
_PASTE_NOUN = (
    r"(?:e-?mails?|mail|articles?|texts?|documents?|docs?|docstring|pages?|web ?pages?|websites?|sites?|messages?|"
    r"letters?|posts?|threads?|transcripts?|chats?|conversations?|logs?|readme|essays?|paragraphs?|passages?|excerpts?|snippets?|"
    r"output|results?|response|reply|comments?|reviews?|notes|minutes|contract|policy|instructions?|prompts?|"
    r"files?|content|contents|ticket|issue|description|job (?:ad|description|posting)|report|draft|blog|tweets?|"
    r"newsletter|release notes|guidelines?|terms|manual|error|stack ?trace|traceback|search results?)"
)
_SEGMENT = re.compile(r"[^.!?\n]+")
_INTRODUCED = re.compile(
    rf"(?:\b(?:here(?:'s|’s| is| are)|below (?:is|are)|see below|this is|these are|following|pasted?|pasting|copied|"
    rf"forwarding|forwarded|summari[sz]e|translate|proofread|rewrite|paraphrase|review|check|analy[sz]e|explain|read|"
    rf"edit|improve|correct|fix|shorten|look at|it says|says|said|wrote|reads|got|received|sent|found|quote|tl;?dr|"
    r"answer|reply to|respond to|make of|think of|opinion on|feedback on)\b"
    rf"[^.!?\n]{{0,100}}?\b{_PASTE_NOUN}\b[^.!?\n]{{0,60}}|\b(?:it|page|site|readme|mail|e-?mail|article|doc|text|file|"
    rf"he|she|they|bot|model|assistant|tool|output|documentation)\s+(?:says|said|reads|wrote|states|shows|replied|"
    rf"answered|returned|printed))\s*:[ \t]*",
    re.IGNORECASE,
)
# "… this website content:" at the end of a line.
_INTRODUCED_BELOW = re.compile(
    rf"\b(?:this|that|these|those|the)\s+(?:\w+\s+){{0,2}}{_PASTE_NOUN}\b[^.!?\n]{{0,60}}:[ \t]*\n", re.IGNORECASE
)
_TRANSCRIPT_LINE = re.compile(
    r"^\s*(?:\*\*|#+\s*|\[)?(?:user|human|assistant|system|ai|bot|tool|function|model|customer|agent|chatgpt|claude|gpt"
    r"|developer|input|output|example(?:\s*\d+)?|q|a|question|answer|prompt|completion|observation|thought|action)"
    r"(?:\*\*|\])?\s*\d*\s*[:>]",
    re.IGNORECASE,
)
_QUOTED_LINE = re.compile(r"^\s*(?:>|\|)")
_LOG_LINE = re.compile(
    r"^\s*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|\d{1,3}(?:\.\d{1,3}){3}\s|"
    r"(?:DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|TRACE|CRITICAL|NOTICE)\b[\s:\]]|"
    r"Traceback \(most recent|File \"[^\"]+\", line \d|at [\w.$<>]+\(|"
    r"Caused by:|[\w.]+(?:Error|Exception|Warning):\s|\$ |# \w+ -|PS [A-Z]:|>>> |\.\.\. |\w+@[\w.-]+[:~]|"
    r"(?:npm|pip|yarn|cargo|git|docker|kubectl|sudo|curl|wget|apt(?:-get)?|brew) (?:ERR!|[a-z-]+ \S))"
)
_CODE_LINE = re.compile(
    r"^\s*(?:(?:import|from)\s+[\w.{*]+|(?:def|class|func|fn|public|private|protected|static|const|let|var|package|"
    r"namespace|using|struct|enum|interface|impl|async def|SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)\s+[\w*`\"]+"
    r".*[({:;=,]|@\w+[.(]|#include|//|/\*|\*/|<!--|--\s|</?\w+[^>]*>\s*$|[\w.\[\]'\"]+\s*[-+*/|&]?=\s*\S|"
    r"(?:if|for|while|elif|else|try|except|with|return|switch|case|catch|finally)\b.*[:{;]\s*$|[{}()\[\];,]+\s*$|"
    r"\"[\w$-]+\"\s*:\s*|[\w-]+:\s*[\w\"'#.%-]+;\s*$)"
)
_CODE_TAIL = re.compile(r"[;{}]\s*$|\)\s*:\s*$|=>\s*$")
_SYMBOL = re.compile(r"[\d!-/:-@\[-`{-~]")
_LIST_MARK = re.compile(r"^\s*(?:[-*•–+]|\d{1,2}[.)]|\[[ xX]?\])\s+")
_HEADING = re.compile(r"^\s*(?:#{1,6}\s+\S|\*\*[^*]+\*\*:?\s*$|[^.!?:\n]{2,60}:\s*$)")
_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)")
_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I’m|my|me|mine|we|we're|our|us|ours)\b", re.IGNORECASE)

# A full stop ends a sentence unless it belongs to an abbreviation, an initial or a number.
# The stop comes first in the pattern and what precedes it is looked up afterwards: the other order is ten times slower.
_ABBREVIATIONS = (
    "Dr Mr Ms Mrs St vs etc approx No Jr Sr Prof Inc Ltd Co ca e.g i.e z.B "
    "Jan Feb Mar Apr Jun Jul Aug Sept Sep Oct Nov Dec"
)
_NOT_AFTER = "".join(rf"(?<!\b{re.escape(word)}\.)" for word in _ABBREVIATIONS.split(" "))
_SENTENCE_END = re.compile(
    rf"\.(?=\s|$)(?<![A-Z]\.)(?<!\b[A-Za-z]\.[A-Za-z]\.){_NOT_AFTER}[)\"'”’]*"
    r"|\.(?<=[A-Z]{2}\.)(?=\s+[A-Z])|[!?]+[)\"'”’]*(?=\s|$)|[。！？।؟۔]+|…(?=\s)"
)


def without_pasted(text: str) -> tuple[str, bool]:
    """Give `text` without code blocks, quotations and everything after the start of something pasted.

    The second value tells whether something pasted was cut.
    """
    text = _FENCE.sub("\n\n", text)
    if "```" in text:
        text = _INLINE_FENCE.sub("\n\n", text)
    text = _TRIPLE_QUOTE.sub("\n\n", text)
    text = _BLANKS.sub("\n\n\n", _LONG_QUOTE.sub(" ", text))
    end = len(text)
    for pattern in (_MAIL_HEADER, _FORWARDED):
        found = pattern.search(text)
        if found:
            end = min(end, found.start())
    for found in _introductions(text, end):
        rest = text[found.end() : end].strip()
        # A fence that was cut follows as an empty paragraph: there, the person's own words go on after it.
        if rest and not text[found.end() : end].startswith("\n\n\n"):
            end = found.end()
            break
    return text[:end], end < len(text)


def _introductions(text: str, end: int) -> Iterator[re.Match[str]]:
    """Where something pasted is introduced, in order. Only segments with a colon are looked at."""
    for segment in _SEGMENT.finditer(text, 0, end):
        if ":" in segment.group():
            yield from _INTRODUCED.finditer(text, segment.start(), segment.end())
            yield from _INTRODUCED_BELOW.finditer(text, segment.start(), min(end, segment.end() + 1))


def sentences(text: str) -> list[Sentence]:
    """Give the person's own sentences and list lines in `text`, in order, at most `SENTENCES_MAX`."""
    text, _ = without_pasted(text)
    paragraphs = re.split(r"\n[ \t]*\n", text)
    long_prose = len(text) > LONG_PROSE_CHARS
    out: list[Sentence] = []
    in_transcript = False
    first = True
    for paragraph in paragraphs:
        if not paragraph.strip():
            continue
        lines = paragraph.split("\n")
        if sum(1 for line in lines if _TRANSCRIPT_LINE.match(line)) >= 1 and _is_transcript(lines):
            in_transcript = True
        if in_transcript:
            continue
        listed = 2 * sum(1 for line in lines if _LIST_MARK.match(line)) >= len(lines)
        pasted = len(paragraph) >= DOCUMENT_CHARS and not listed and not _FIRST_PERSON.search(paragraph)
        if not pasted:
            _read_lines(lines, first or not long_prose, out)
        first = False
        if len(out) >= SENTENCES_MAX:
            break
    return out[:SENTENCES_MAX]


def _is_transcript(lines: list[str]) -> bool:
    return sum(1 for line in lines if _TRANSCRIPT_LINE.match(line)) >= min(2, len(lines))


def _read_lines(lines: list[str], own: bool, out: list[Sentence]) -> None:
    heading = ""
    prose: list[str] = []

    def flush() -> None:
        if prose:
            joined = " ".join(prose)
            out.extend(Sentence(part, own) for part in split_sentences(joined))
            prose.clear()

    for line in lines:
        if not line.strip():
            continue
        if _QUOTED_LINE.match(line) or _is_machine(line):
            flush()
            continue
        mark = _LIST_MARK.match(line)
        plain = _EMPHASIS.sub("", _TAG.sub(" ", line[mark.end() :] if mark else line)).strip()
        if _HEADING.match(line) and not mark:
            flush()
            heading = plain.lstrip("# ").rstrip(": ")
            continue
        if mark:
            flush()
            if plain:
                out.append(Sentence(plain, own, listed=True, heading=heading))
        elif plain:
            if prose and plain[0].isupper() and prose[-1][-1].isalnum():
                flush()  # a line that starts anew, rather than a wrapped one
            prose.append(plain)
    flush()


def _is_machine(line: str) -> bool:
    """Tell whether a line is code, a log line or shell output rather than somebody's words."""
    if _LOG_LINE.match(line) or _CODE_LINE.match(line) or _CODE_TAIL.search(line):
        return True
    symbols = len(_SYMBOL.findall(line))
    return len(line) > 20 and symbols > MACHINE_SHARE * len(line) and not _FIRST_PERSON.search(line)


def split_sentences(text: str) -> list[str]:
    """Split prose into sentences, each with its closing mark; abbreviations, versions and initials stay whole."""
    out: list[str] = []
    start = 0
    for found in _SENTENCE_END.finditer(text):
        part = text[start : found.end()].strip()
        if part:
            out.append(part)
        start = found.end()
    tail = text[start:].strip()
    if tail:
        out.append(tail)
    return out
