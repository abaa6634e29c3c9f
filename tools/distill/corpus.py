"""Writes the training text of the embedding table: one text per line, deterministic, from freely licensed sources.

Sources: WordNet 3.0 glosses and examples (Debian `wordnet-base`, WordNet licence), Debian package descriptions
(`apt-cache dumpavail`, the archive's metadata), the `fortunes` collection (BSD and public domain) and sentences
made here from WordNet's common words in the forms people use when they talk to an assistant. No evaluation data.

    python corpus.py OUT.txt [--part short|long] [--texts 300000]

`short` is mostly single sentences, `long` paragraphs: package descriptions and several sentences about one matter, as
in a request to an assistant. Fetch the long descriptions with `apt-get -o Acquire::Languages=en update` first.
"""

import argparse
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

WORDNET = Path("/usr/share/wordnet")
FORTUNES = Path("/usr/share/games/fortunes")
APT_LISTS = Path("/var/lib/apt/lists")
SEED = 7


def parts() -> dict[str, list[str]]:
    """The patterns and words of `talk.txt` by part."""
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("talk.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            lines = found[line.strip("[]")] = []
        elif not line.startswith("#"):
            lines.append(line)
    return found


TALK = parts()


def wordnet_lines(part: str) -> Iterator[str]:
    """Yields each gloss and each quoted example of one part of speech."""
    for line in (WORDNET / f"data.{part}").read_text(encoding="utf-8", errors="ignore").splitlines():
        if line.startswith("  ") or "|" not in line:
            continue
        gloss = line.split("|", 1)[1].strip()
        words = [w.replace("_", " ") for w in line.split(" ")[4 : 4 + 2 * int(line.split(" ")[3], 16) : 2]]
        definition = re.split(r';\s*"', gloss)[0].strip(" ;")
        yield f"{words[0]}: {definition}" if len(words) == 1 else f"{', '.join(words[:3])}: {definition}"
        for example in re.findall(r'"([^"]+)"', gloss):
            yield example.strip()


def common_words(part: str, most: int) -> list[str]:
    """The words of a part of speech by how often WordNet's own tagged corpus has them, most frequent first."""
    code = {"noun": "1", "verb": "2", "adj": "3"}[part]
    counts: dict[str, int] = {}
    for line in (WORDNET / "cntlist.rev").read_text(encoding="utf-8").splitlines():
        key, _, count = line.split(" ")
        lemma, sense = key.split("%", 1)
        if sense.startswith(code):
            counts[lemma] = counts.get(lemma, 0) + int(count)
    return [w.replace("_", " ") for w, _ in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))[:most]]


def debian_descriptions(*, long: bool) -> Iterator[str]:
    """Yields the descriptions of Debian's packages: one line each, or the whole paragraphs."""
    if long:
        files = sorted(APT_LISTS.glob("*_main_i18n_Translation-en*"))
        command = ["/usr/lib/apt/apt-helper", "cat-file", *map(str, files)]
    else:
        command = ["apt-cache", "dumpavail"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - fixed commands
    for found in re.finditer(r"^Description(?:-en)?: (.*(?:\n .*)*)", out, re.MULTILINE):
        yield re.sub(r"\s+", " ", re.sub(r"\n \.\n", " ", found.group(1))).strip()


def fortunes() -> Iterator[str]:
    """Yields quotations and anecdotes."""
    for file in sorted(FORTUNES.iterdir()):
        if "." in file.name or file.is_symlink():
            continue
        for item in file.read_text(encoding="utf-8", errors="ignore").split("\n%\n"):
            text = re.sub(r"\s+", " ", re.sub(r".\x08", "", item)).strip()
            if 20 < len(text) < 1200 and sum(c.isalpha() or c == " " for c in text) > 0.8 * len(text):
                yield text


def made(rng: random.Random, patterns: list[str], count: int, sentences: tuple[int, int] = (1, 1)) -> Iterator[str]:
    """Yields `count` texts from patterns filled with WordNet's common words; the sentences of one text share them."""
    words = {"noun": common_words("noun", 6000), "verb": common_words("verb", 2500), "adj": common_words("adj", 2000)}

    def pick(part: str) -> str:
        # Squaring leans towards the frequent half, as talk does.
        return words[part][int(rng.random() ** 2 * len(words[part]))]

    for _ in range(count):
        matter = {"noun": [pick("noun") for _ in range(3)], "verb": [pick("verb") for _ in range(2)]}
        people, text = rng.sample(TALK["names"], 2), []
        for _ in range(rng.randint(*sentences)):
            nouns = rng.sample(matter["noun"], 2)
            verbs = rng.sample(matter["verb"], 2)
            when = rng.choice(TALK["times"]).format(month=rng.choice(TALK["months"]), day=rng.randint(1, 28))
            text.append(
                rng.choice(patterns).format(
                    name=people[0], name2=people[1], kin=rng.choice(TALK["kin"]), place=rng.choice(TALK["places"]),
                    place2=rng.choice(TALK["places"]), noun=nouns[0], noun2=nouns[1], verb=verbs[0], verb2=verbs[1],
                    adj=pick("adj"), time=when, num=rng.randint(2, 12),
                )
            )  # fmt: skip
        yield " ".join(text)


def short_texts(rng: random.Random, most: int) -> list[str]:
    """Glosses, examples, package titles, quotations, and sentences made from patterns."""
    lines = [line for part in ("noun", "verb", "adj", "adv") for line in wordnet_lines(part)]
    titles = list(debian_descriptions(long=False))
    rng.shuffle(titles)
    found = titles[:20_000] + list(fortunes())
    share = max(0, most - len(lines) - len(found))
    talk = list(made(rng, TALK["statements"], share // 2)) + list(made(rng, TALK["questions"], share // 4))
    joined = [" ".join(rng.sample(talk, rng.randint(2, 6))) for _ in range(share // 8)]
    joined += [" ".join(lines[i : i + rng.randint(2, 5)]) for i in rng.sample(range(len(lines)), share // 8)]
    return lines + found + talk + joined


def long_texts(rng: random.Random, most: int) -> list[str]:
    """Paragraphs of package descriptions, and several sentences about one matter."""
    described = [t for t in debian_descriptions(long=True) if len(t) > 120]
    rng.shuffle(described)
    cut = [t[: rng.randint(150, 700)] for t in described[: most // 2]]
    return cut + list(made(rng, TALK["statements"] + TALK["questions"], most - len(cut), (3, 8)))


def main() -> None:
    """Writes the corpus."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", choices=("short", "long"), default="short")
    parser.add_argument("--texts", type=int, default=300_000, help="most texts to write")
    args = parser.parse_args()
    rng = random.Random(SEED)  # noqa: S311 - reproducible sampling, nothing secret
    texts = (short_texts if args.part == "short" else long_texts)(rng, args.texts)
    texts = [t for t in texts if len(t) > 3]
    rng.shuffle(texts)
    args.out.write_text("\n".join(texts[: args.texts]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
