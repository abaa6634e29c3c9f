"""Writes the training text of the embedding table: one text per line, deterministic, from freely licensed sources.

Sources: WordNet 3.0 glosses and examples (Debian `wordnet-base`, WordNet licence), Debian package descriptions
(`apt-cache dumpavail`, the archive's metadata), the `fortunes` collection (BSD and public domain) and sentences
made here from WordNet's common words in the forms people use when they talk to an assistant. No evaluation data.

    python corpus.py OUT.txt [--part short|long] [--texts 300000]

`short` is mostly single sentences, `long` paragraphs: package descriptions and several sentences about one matter, as in
a request to an assistant. Fetch the long descriptions with `apt-get -o Acquire::Languages=en update` first.
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

NAMES = ["Anna", "Ben", "Carla", "David", "Elena", "Frank", "Grace", "Hugo", "Ines", "Jack", "Karen", "Leo", "Maya", "Nina", "Oscar", "Paula", "Quinn", "Rosa", "Sam", "Tara", "Uma", "Victor", "Wendy", "Xavier", "Yuki", "Zoe", "Alex", "Beth", "Chris", "Dana", "Eric", "Fatima", "George", "Hannah", "Ivan", "Julia", "Kevin", "Laura", "Mark", "Nora", "Omar", "Peter", "Rachel", "Steve", "Tom", "Vera", "Will", "Amir", "Lucy", "Marta", "Sofia"]
PLACES = ["Berlin", "Paris", "London", "Tokyo", "Madrid", "Rome", "Vienna", "Lisbon", "Boston", "Chicago", "Seattle", "Toronto", "Sydney", "Oslo", "Delhi"]
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
TIMES = ["yesterday", "last week", "last month", "two weeks ago", "this morning", "on Monday", "last Friday", "in {month}", "next month", "last year", "over the weekend", "a few years ago", "on {month} {day}", "tonight", "recently", "every day", "twice a week"]
STATEMENTS = ["{name}: I bought a {noun} {time}.", "I really love {noun} and {noun2}.", "{name}: We went to the {noun} {time}, it was so {adj}!", "My {kin} {name} works with {noun} in {place}.", "I {verb} my {noun} {time}.", "{name}: That's {adj}! How is your {noun} going?", "I'm allergic to {noun}.", "I prefer {adj} {noun} over {noun2}.", "We are planning to {verb} the {noun} in {place}.", "{name}: Thanks {name2}! The {noun} was a gift from my {kin}.", "I've been learning about {noun} for {num} years.", "The {noun} is due {time}.", "Our team decided to {verb} the {noun} because of {noun2}.", "I used to {verb}, but now I {verb2}.", "{name}: I just finished a {adj} {noun} about {noun2}.", "Please always {verb} the {noun} when I ask about {noun2}.", "{name} said she wants to {verb} {time}.", "{name}: Here's a picture of my {noun}. It makes me feel {adj}.", "I need help with the {noun}; it keeps failing when I {verb} it.", "The meeting about {noun} is {time} at {num} o'clock.", "{name}: Wow, congrats! I can't wait to see the {noun}.", "I don't like {noun}, it is too {adj}.", "My favourite {noun} is the {adj} {noun2}.", "{name} moved from {place} to {place2} {time}.", "I'm working on a {noun} that lets people {verb} their {noun2}.", "The {noun} costs {num}0 dollars a month."]
QUESTIONS = ["When did {name} {verb} the {noun}?", "What kind of {noun} does {name} like?", "Where did {name} go {time}?", "What is {name}'s favourite {noun}?", "How many {noun} does {name} have?", "Who gave {name} the {noun}?", "Why did {name} decide to {verb} the {noun}?", "Which {noun} did I want to {verb}?", "What did I say about {noun}?", "How long has {name} been interested in {noun}?", "Does {name} still {verb}?", "What {noun} did {name} buy {time}?", "Is my {noun} {adj}?", "What should I know about {noun} when I {verb}?", "Can you remind me of the {noun} for {noun2}?", "What are {name} and {name2} planning to do {time}?", "How did {name} feel about the {noun}?", "When is the {noun} due?", "Where does my {kin} live?", "What does {name} do to {verb}?"]
KIN = ["sister", "brother", "mother", "father", "wife", "husband", "friend", "boss", "colleague", "son", "daughter", "dog", "cat", "neighbour", "cousin"]


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
        people, text = rng.sample(NAMES, 2), []
        for _ in range(rng.randint(*sentences)):
            nouns = rng.sample(matter["noun"], 2)
            verbs = rng.sample(matter["verb"], 2)
            when = rng.choice(TIMES).format(month=rng.choice(MONTHS), day=rng.randint(1, 28))
            text.append(
                rng.choice(patterns).format(
                    name=people[0], name2=people[1], kin=rng.choice(KIN), place=rng.choice(PLACES),
                    place2=rng.choice(PLACES), noun=nouns[0], noun2=nouns[1], verb=verbs[0], verb2=verbs[1],
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
    talk = list(made(rng, STATEMENTS, share // 2)) + list(made(rng, QUESTIONS, share // 4))
    joined = [" ".join(rng.sample(talk, rng.randint(2, 6))) for _ in range(share // 8)]
    joined += [" ".join(lines[i : i + rng.randint(2, 5)]) for i in rng.sample(range(len(lines)), share // 8)]
    return lines + found + talk + joined


def long_texts(rng: random.Random, most: int) -> list[str]:
    """Paragraphs of package descriptions, and several sentences about one matter."""
    described = [t for t in debian_descriptions(long=True) if len(t) > 120]
    rng.shuffle(described)
    cut = [t[: rng.randint(150, 700)] for t in described[: most // 2]]
    return cut + list(made(rng, STATEMENTS + QUESTIONS, most - len(cut), (3, 8)))


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
