"""The two hand-made sets: what must be found, and what must not come, by default settings."""

from collections import defaultdict

from memory_worker.recall import RecallSettings, StaticEmbedder
from tests.benchmarks.eval_recall_sets import handmade, precision


def test_every_class_of_the_first_set_is_found() -> None:
    """Identifiers, aliases and scripts at .95 or better, unrelated questions return nothing in 95 of 100."""
    classes: dict[str, list[bool]] = defaultdict(list)
    for outcome in handmade(StaticEmbedder(), RecallSettings()):
        classes[outcome.group].append(outcome.good)
    shares = {group: sum(good) / len(good) for group, good in classes.items()}
    assert sum(len(good) for good in classes.values()) >= 150
    for group in ("identifiers", "aliases", "scripts", "unrelated", "typos", "numbers", "dates", "negation", "updates"):
        assert shares[group] >= 0.95, group
    assert shares["paraphrase"] >= 0.65


def test_what_is_wanted_comes_and_nothing_else() -> None:
    """Mean precision at least .90 at mean recall of at least .95."""
    outcomes = precision(StaticEmbedder(), RecallSettings())
    assert len(outcomes) >= 80
    assert sum(o.recall for o in outcomes) / len(outcomes) >= 0.95
    assert sum(o.precision for o in outcomes) / len(outcomes) >= 0.90
