"""The bounds and weights of recall, each a named setting."""

import msgspec


class RecallSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the recall room; the defaults are the measured ones."""

    candidates: int = 200
    """Most rows per bank that the lexical arm hands on to scoring."""
    postings: int = 400_000
    """Most postings read per bank and recall to find candidates; commoner words then only refine the found ones."""
    query_terms: int = 48
    """Most different words of a query that are looked up, the rarest first."""
    query_chars: int = 4_000
    """Most characters of a query that are read: its beginning and its end."""
    typo_terms: int = 6
    """Most unknown words of a query that are looked up with one edit."""
    scan_rows: int = 100_000
    """Most rows per bank whose 1-bit vectors are compared to find paraphrases: the newest."""
    scan_candidates: int = 100
    """Most rows per bank that the 1-bit scan hands on to scoring."""
    arms: tuple[str, ...] = ("lexical", "semantic", "context")
    """Arms that run; `context` is dates, handles and what was said beside."""
    talk_rows: int = 32
    """Leading rows per bank of which the rows said just before and after are looked at; 0 = none."""
    lexical_weight: float = 0.45
    """Weight of the words against the vectors, in [0, 1]."""
    floor: float = 0.30
    """Relevance in [0, 1] under which a memory is not returned, whatever else the bank holds."""
    keep_share: float = 0.25
    """Share of the best row's ranking score under which a row is not returned: beside a clear answer it is noise."""
    change_batch: int = 1_000
    """Journal changes applied per step."""
    near_rows: int = 2_000
    """Journal rows that the index may be behind while nobody asks; beyond, it reads them unasked."""
    near_s: float = 5.0
    """Pause, in seconds, between two looks at how far behind the index is."""
    catch_up_ms: int = 2_000
    """Longest wait, in milliseconds, for changes written before the recall; the reply names what is missing then."""
    embed_batch: int = 64
    """Texts embedded per background step, for models that are too slow to run inline."""
    query_embed_ms: int = 400
    """Longest wait, in milliseconds, for a query vector of such a model; then the words alone serve."""
    snapshot_changes: int = 5_000
    """Changes after which a new snapshot is written (a tenth of the rows if that is more); one at stop as well."""
