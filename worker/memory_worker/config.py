"""Every setting of the worker: its unit, its default, its bounds, and how it is read.

Values come from a TOML file, then the environment, then flags; the later source wins. All problems are reported
together, each naming its key. `load` in `memory_worker.settings_source` reads them.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from memory_contracts.names import Name

Need = Literal["none", "required"]
"""Whether a sibling is asked: `none` = never; `required` = no answer means wait and retry."""
LogLevel = Literal["debug", "info", "warning", "error"]
EmbeddingModel = Literal["static", "minilm", "router", "none"]
TenantName = Annotated[str, Meta(pattern=r"^(\*|[a-z0-9][a-z0-9_-]{0,63})$(?![\s\S])")]


def _about(description: str, unit: str = "", *, reload: bool = False, secret: bool = False, **bounds: Any) -> Meta:
    """Document one setting. `reload` marks one that takes effect on SIGHUP, `secret` one that is never shown."""
    return Meta(description=description, extra={"unit": unit, "reload": reload, "secret": secret}, **bounds)


def _default_data_dir() -> Path:
    return Path.home() / ".local" / "share" / "memory-worker"


Positive = 1
"""Lower bound of settings that count something and may not be zero."""


class RecallSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How memories are found: section `[recall]` of the file, `MEMORY_RECALL_…` in the environment."""

    floor: Annotated[
        float,
        _about("Least fused score that counts as relevant; empty results are honest results.", ge=0, le=1, reload=True),
    ] = 0.3
    candidates: Annotated[
        int, _about("Most candidates one arm hands to fusion.", "memories", ge=Positive, le=10_000, reload=True)
    ] = 200
    embed_batch: Annotated[
        int, _about("Texts embedded in one go while an index is built.", "texts", ge=Positive, le=4_096, reload=True)
    ] = 256
    snapshot_rows: Annotated[
        int,
        _about("Journal rows after which an index is written to disk for a quick start.", "rows", ge=100, reload=True),
    ] = 5_000


class ConsolidateSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the consolidate worker does when: section `[consolidate]`, `MEMORY_CONSOLIDATE_…` in the environment."""

    quiet_s: Annotated[float, _about("Time without a change after which a changed bank is run.", "s", ge=0)] = 300.0
    interval_s: Annotated[
        float, _about("Time after which a bank is run even if nothing changed or it never falls quiet.", "s", ge=1)
    ] = 86_400.0
    supersedes_max: Annotated[
        int, _about("Most memories retired in one run; the rest is carried over.", "memories", ge=0)
    ] = 5_000
    suggestions_max: Annotated[
        int, _about("Most suggestions made in one run; the rest is carried over.", "suggestions", ge=0)
    ] = 100
    open_max: Annotated[
        int, _about("Open suggestions of it in a bank above which it makes no more.", "suggestions", ge=0)
    ] = 200
    unused_days: Annotated[
        float, _about("Age at which an inferred memory that was never used is offered for deletion.", "days", ge=1)
    ] = 180.0
    judge: Annotated[
        bool, _about("Whether the router may rank or drop suggestions; their texts are then sent to it.")
    ] = False


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting. Each field documents its meaning, unit and bounds; the default follows it."""

    # Where

    data_dir: Annotated[Path, _about("Directory that holds everything; one worker owns it.")] = msgspec.field(
        default_factory=_default_data_dir
    )
    port: Annotated[
        int, _about("Port of the embedded bus on 127.0.0.1; a free one is taken when it is in use.", ge=0, le=65_535)
    ] = 4222
    http_host: Annotated[
        str, _about("Address health and metrics listen on; they have no authentication, so keep it private.")
    ] = "127.0.0.1"
    http_port: Annotated[
        int, _about("Port of health and metrics; a free one is taken when it is in use.", ge=0, le=65_535)
    ] = 9464
    nats_url: Annotated[
        str, _about("Bus to use instead of the embedded one (also read from NATS_URL).", secret=True)
    ] = ""
    credentials: Annotated[Path | None, _about("Credentials file (JSON, mode 0600) to connect to the bus with.")] = None
    log_level: Annotated[LogLevel, _about("Least severe level that is logged.", reload=True)] = "info"

    # Bus

    prefix: Annotated[
        str, _about("Leading tokens of request and trigger subjects.", pattern=r"^[A-Za-z0-9_.-]+$(?![\s\S])")
    ] = "memory.v1"
    turn_prefix: Annotated[str, _about("Leading tokens of turn subjects.", pattern=r"^[A-Za-z0-9_.-]+$(?![\s\S])")] = (
        "turn.v1"
    )
    turn_stream: Annotated[
        str, _about("Stream that finished turns arrive on; a harness's own may be named.", min_length=1, max_length=64)
    ] = "TURNS"
    turn_stream_owned: Annotated[
        bool, _about("Whether a turn is securely deleted from the stream once it is in the inbox.")
    ] = True
    request_deadline_ms: Annotated[
        int,
        _about("Time a request may take before it is answered `unavailable`.", "ms", ge=100, le=600_000, reload=True),
    ] = 30_000
    function_concurrency: Annotated[
        int,
        _about(
            "Requests of one function at work at once; more are refused `unavailable`.", "requests", ge=1, reload=True
        ),
    ] = 256
    require_own_inbox: Annotated[
        bool,
        _about(
            "Whether a request's reply must lie under the caller's own inbox; set it where one account holds the "
            "worker and its callers."
        ),
    ] = False
    turn_fetch: Annotated[int, _about("Turns pulled from the bus at once.", "turns", ge=Positive, le=1_000)] = 256
    event_retention_days: Annotated[
        int,
        _about(
            "Age at which triggers are securely deleted from the event streams.", "days", ge=1, le=3_650, reload=True
        ),
    ] = 7
    events_include_memory: Annotated[
        bool, _about("Whether triggers carry the memory; false sends ids alone.", reload=True)
    ] = True
    bus_store_max_mb: Annotated[int, _about("Disk the embedded bus may use for its streams.", "MiB", ge=64)] = 4_096

    # Tenants and people

    tenants: Annotated[
        tuple[TenantName, ...],
        _about("Tenants that are served; `*` = each one the bus lets through.", min_length=1),
    ] = ("local",)
    tenants_open_max: Annotated[
        int,
        _about(
            "Tenant stores held open; the least used idle one closes beyond it.", "tenants", ge=Positive, reload=True
        ),
    ] = 64
    deciders: Annotated[
        tuple[Name, ...], _about("Human principals who may decide suggestions; empty = every human.", reload=True)
    ] = ()

    # Store

    commit_group_max: Annotated[int, _about("Most writes that share one commit.", "writes", ge=Positive, le=10_000)] = (
        256
    )
    idempotency_hours: Annotated[
        int, _about("How long an idempotency key gives the same reply.", "hours", ge=1, le=720, reload=True)
    ] = 24
    uses_days: Annotated[int, _about("How long it is kept which turn was given what.", "days", ge=1, reload=True)] = 90
    trash_retention_days: Annotated[
        int,
        _about(
            "Age at which a trashed bank is destroyed; 0 keeps it until a person wipes it.", "days", ge=0, reload=True
        ),
    ] = 0
    vault_key: Annotated[
        str,
        _about(
            "Key that wraps protected values, base64 of 32 bytes; empty = a file in the data directory.", secret=True
        ),
    ] = ""

    # Gate, suggestions, expiry

    protect_automatic: Annotated[
        bool,
        _about(
            "Whether phone numbers, addresses and the like are recognised and protected by themselves.", reload=True
        ),
    ] = False
    suggestion_days: Annotated[
        int, _about("Age at which an undecided suggestion lapses.", "days", ge=1, reload=True)
    ] = 90
    notice_grace_days: Annotated[
        int, _about("How long a lapsed memory can be brought back with `revert`.", "days", ge=1, reload=True)
    ] = 30
    expiry_batch: Annotated[
        int, _about("Memories one pass of the expiry sweeper lapses.", "memories", ge=Positive, le=10_000, reload=True)
    ] = 500
    expiry_interval_s: Annotated[
        float,
        _about("Pause between passes of the expiry sweeper when nothing is due.", "s", ge=0.05, le=3_600, reload=True),
    ] = 5.0

    # Siblings

    session_manager: Annotated[Need, _about("Whether the session manager is asked for metadata and messages.")] = "none"
    session_get_subject: Annotated[
        str, _about("Subject that gives a session; `{tenant}` is filled in.", min_length=1)
    ] = "session.v1.{tenant}.get"
    session_messages_subject: Annotated[
        str, _about("Subject that gives a session's messages; `{tenant}` is filled in.", min_length=1)
    ] = "session.v1.{tenant}.messages"
    session_deadline_ms: Annotated[
        int, _about("Time the session manager has to answer.", "ms", ge=10, le=600_000, reload=True)
    ] = 2_000
    session_page: Annotated[
        int, _about("Messages asked of the session manager at once.", "messages", ge=Positive, le=1_000, reload=True)
    ] = 200
    router: Annotated[Need, _about("Whether a model router is asked for completions and embeddings.")] = "none"
    router_complete_subject: Annotated[
        str, _about("Subject that completes; `{tenant}` is filled in.", min_length=1)
    ] = "router.v1.{tenant}.complete"
    router_embed_subject: Annotated[str, _about("Subject that embeds; `{tenant}` is filled in.", min_length=1)] = (
        "router.v1.{tenant}.embed"
    )
    router_models_subject: Annotated[
        str, _about("Subject that lists models; `{tenant}` is filled in.", min_length=1)
    ] = "router.v1.{tenant}.models"
    router_deadline_ms: Annotated[int, _about("Time a completion may take.", "ms", ge=100, le=600_000, reload=True)] = (
        60_000
    )
    router_embed_deadline_ms: Annotated[
        int, _about("Time an embedding may take.", "ms", ge=10, le=600_000, reload=True)
    ] = 5_000
    router_model: Annotated[str, _about("Model that reads turns; empty = the router's default.", reload=True)] = ""
    router_embed_model: Annotated[str, _about("Model that embeds; empty = the router's default.")] = ""
    sibling_retry_s: Annotated[
        float, _about("Pause before a sibling that was away is asked again.", "s", ge=0.1, le=3_600, reload=True)
    ] = 5.0

    # Extraction

    extractor: Annotated[
        Literal["auto", "model", "rules"],
        _about("Who reads turns; `auto` = the model if a router is configured, else the built-in rules.", reload=True),
    ] = "auto"
    rule_learning: Annotated[
        Literal["auto", "suggest", "off"], _about("What becomes of standing instructions the user gives.", reload=True)
    ] = "auto"
    learned_lines_per_turn: Annotated[
        int, _about("Most lines one turn may add to the `learned` rule.", "lines", ge=0, le=50, reload=True)
    ] = 3
    sub_agent_turns: Annotated[bool, _about("Whether turns of sub-agents (depth above 0) are read.", reload=True)] = (
        False
    )
    inbox_max_rows: Annotated[
        int, _about("Waiting turns of one tenant beyond which no more are pulled.", "turns", ge=Positive, reload=True)
    ] = 100_000
    inbox_max_bytes: Annotated[
        int,
        _about(
            "Bytes of waiting turns of one tenant beyond which no more are pulled.", "bytes", ge=1_048_576, reload=True
        ),
    ] = 1_073_741_824
    extraction_attempts: Annotated[
        int, _about("Attempts before a turn is parked.", "attempts", ge=Positive, le=100, reload=True)
    ] = 5
    extraction_backoff_s: Annotated[
        float, _about("Pause after the first failed attempt; doubles each time.", "s", ge=0, le=3_600, reload=True)
    ] = 2.0
    extraction_backoff_max_s: Annotated[
        float, _about("Longest pause between attempts.", "s", ge=0, le=86_400, reload=True)
    ] = 300.0
    extraction_concurrency: Annotated[
        int, _about("Sessions of one tenant read side by side.", "sessions", ge=Positive, le=1_024, reload=True)
    ] = 64
    extraction_model_requests: Annotated[
        int, _about("Turns of one tenant that a model reads at a time.", "turns", ge=Positive, le=1_024, reload=True)
    ] = 8
    extraction_chunk_chars: Annotated[
        int, _about("Most characters of conversation in one request to a model.", "characters", ge=1_000, reload=True)
    ] = 24_000
    extraction_output_tokens: Annotated[
        int, _about("Most tokens a model may answer with.", "tokens", ge=256, le=100_000, reload=True)
    ] = 4_000
    extraction_items_max: Annotated[
        int, _about("Most memories one turn may add.", "memories", ge=Positive, le=1_000, reload=True)
    ] = 50
    extraction_known_memories: Annotated[
        int,
        _about(
            "Existing memories shown to a model so that it does not repeat them.", "memories", ge=0, le=200, reload=True
        ),
    ] = 20

    # Context

    context_max_chars: Annotated[
        int, _about("Budget of the memories block.", "characters", ge=100, le=100_000, reload=True)
    ] = 1_200
    context_max_items: Annotated[int, _about("Most memories in the block.", "memories", ge=0, le=100, reload=True)] = 8
    context_max_pinned: Annotated[
        int, _about("Slots pinned memories may take, relevant or not.", "memories", ge=0, le=100, reload=True)
    ] = 4
    context_max_rule_chars: Annotated[
        int, _about("Budget of the hand-written rules.", "characters", ge=100, le=1_000_000, reload=True)
    ] = 20_000
    context_max_learned_chars: Annotated[
        int, _about("Budget of the `learned` rule.", "characters", ge=0, le=1_000_000, reload=True)
    ] = 4_000
    context_deadline_ms: Annotated[
        int,
        _about("Time a context may take; then it gives what it has, rules first.", "ms", ge=10, le=60_000, reload=True),
    ] = 300
    context_repeat_turns: Annotated[
        int,
        _about(
            "Turns of a session during which the same memory is not given again.", "turns", ge=0, le=1_000, reload=True
        ),
    ] = 20

    # Recall

    embedding_model: Annotated[
        EmbeddingModel,
        _about("What makes vectors: the shipped table, the `minilm` extra, the router, or nothing."),
    ] = "static"
    recall: Annotated[RecallSettings, _about("How memories are found.")] = RecallSettings()
    consolidate: Annotated[ConsolidateSettings, _about("What the consolidate worker does when.")] = (
        ConsolidateSettings()
    )

    # Files

    files: Annotated[bool, _about("Whether banks are mirrored as markdown files.")] = True
    file_route: Annotated[Literal["human", "agent"], _about("Route of edits made by hand in the files.")] = "human"
    files_settle_ms: Annotated[
        int, _about("Quiet time after which a changed file is read.", "ms", ge=10, le=60_000)
    ] = 300
    files_batch: Annotated[int, _about("Files written before a directory is synced.", "files", ge=Positive)] = 500
    file_max_kb: Annotated[int, _about("Larger files are reported and not read.", "KiB", ge=4, le=102_400)] = 1_024

    # Health

    ready_bus_age_s: Annotated[
        float,
        _about("Age of the last answer from the bus beyond which the worker is not ready.", "s", ge=1, reload=True),
    ] = 15.0
    ready_lag_rows: Annotated[
        int, _about("Journal rows a reader may lag before the worker is not ready.", "rows", ge=Positive, reload=True)
    ] = 50_000
    disk_free_min_mb: Annotated[
        int, _about("Free disk space below which the worker is not ready.", "MiB", ge=0, reload=True)
    ] = 64
    disk_free_warn_mb: Annotated[
        int, _about("Free disk space below which the doctor warns.", "MiB", ge=0, reload=True)
    ] = 512
    shutdown_s: Annotated[
        float, _about("Time an orderly stop may take before the process leaves anyway.", "s", ge=1, le=600, reload=True)
    ] = 20.0
