"""What a person does in the folder happens in the store."""

from pathlib import Path

from tests.files.world import World, opened


async def test_a_changed_text_keeps_the_id_and_is_the_persons(world: World) -> None:
    """A changed body is a new revision of the same memory, on the person's route, and the file shows it."""
    memory = await world.save("The standup is at nine.", by=world.agent)
    await world.room.drain()
    path = world.edit(memory, "at nine", "at ten")
    await world.sync()
    now = await world.memory(memory.id)
    assert (now.text, now.tier, now.revision) == ("The standup is at ten.", "stated", 2)
    assert (now.source.route, now.source.principal) == ("human", "file")
    assert "revision: 2\n" in path.read_text()


async def test_changed_labels_are_taken(world: World) -> None:
    """Every field of the front matter that is a person's to change can be changed in the file."""
    memory = await world.save("The standup is at nine.", tags=["work"], subject="standup")
    await world.room.drain()
    world.edit(
        memory,
        "subject: standup\n",
        "subject: daily\nentities: [Ana, Bo]\nabout: [repo:api]\n"
        "claim: {entity: Standup, property: time, value: nine}\n",
    )
    world.edit(memory, "tags: [work]\n", "tags: [work, Team]\n")
    world.edit(memory, "pinned: false\n", "pinned: true\n")
    world.edit(memory, "confidence: normal\n", "confidence: high\n")
    world.edit(memory, "kind: fact\n", "kind: preference\n")
    await world.sync()
    now = await world.memory(memory.id)
    assert now.claim is not None
    assert (now.subject, now.entities, now.tags, now.about) == ("daily", ("Ana", "Bo"), ("work", "team"), ("repo:api",))
    assert (now.claim.entity, now.claim.property, now.claim.value) == ("Standup", "time", "nine")
    assert (now.pinned, now.confidence, now.kind, now.expires_at) == (True, "high", "preference", None)
    await world.sync()
    assert (await world.memory(memory.id)).revision == now.revision


async def test_a_line_taken_out_empties_the_label(world: World) -> None:
    """A label whose line is removed is removed; front matter removed as a whole changes no label."""
    memory = await world.save("The standup is at nine.", tags=["work"], subject="standup")
    await world.room.drain()
    world.edit(memory, "tags: [work]\n", "")
    await world.sync()
    now = await world.memory(memory.id)
    assert (now.tags, now.subject) == ((), "standup")
    path = world.path_of(memory)
    path.write_text("The standup is at ten.\n")
    await world.sync()
    now = await world.memory(memory.id)
    assert (now.text, now.subject) == ("The standup is at ten.", "standup")
    assert f"id: {memory.id}\n" in path.read_text()


async def test_a_new_file_is_a_new_memory(world: World) -> None:
    """A file with nothing but a fact in it is saved, and gets its front matter."""
    world.folder().mkdir(parents=True)
    (world.folder() / "coffee.md").write_text("I take my coffee\nwithout sugar.\n")
    await world.sync()
    [memory] = await world.live()
    assert (memory.text, memory.tier, memory.kind) == ("I take my coffee without sugar.", "stated", "fact")
    assert world.files()["coffee.md"].endswith("revision: 1\n---\n\nI take my coffee without sugar.\n")


async def test_a_new_file_may_carry_labels(world: World) -> None:
    """Front matter of a new file is the new memory's."""
    world.folder().mkdir(parents=True)
    (world.folder() / "x.md").write_text(
        "---\nkind: place\ntags: [home]\npinned: true\n---\nThe key is under the mat.\n"
    )
    await world.sync()
    [memory] = await world.live()
    assert (memory.kind, memory.tags, memory.pinned) == ("place", ("home",), True)


async def test_a_removed_file_is_a_deletion(world: World) -> None:
    """Removing a memory's file deletes the memory, leaving a tombstone."""
    memory = await world.save("The standup is at nine.")
    await world.save("Ana lives in Lisbon.")
    await world.room.drain()
    world.path_of(memory).unlink()
    await world.sync()
    assert (await world.memory(memory.id)).state == "deleted"
    assert await world.texts() == ["Ana lives in Lisbon."]


async def test_a_renamed_file_is_the_same_memory(world: World) -> None:
    """A file may be called anything, also moved into a folder of the bank: its id says whose it is."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    (world.folder() / "meetings").mkdir()
    new = world.folder() / "meetings" / "Daily stand-up.md"
    world.path_of(memory).rename(new)
    await world.sync()
    await world.update(memory, text="The standup is at ten.")
    await world.room.drain()
    assert new.read_text().endswith("\n\nThe standup is at ten.\n")
    assert (await world.memory(memory.id)).state == "live"
    assert len(await world.live()) == 1


async def test_a_file_that_was_renamed_and_changed_is_the_same_memory(world: World) -> None:
    """An editor's “save as” under another name, with the old file removed, is a change of the same memory."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    old = world.path_of(memory)
    (world.folder() / "daily.md").write_text(old.read_text().replace("nine", "ten"))
    old.unlink()
    await world.sync()
    now = await world.memory(memory.id)
    assert (now.state, now.text) == ("live", "The standup is at ten.")
    assert list(world.files()) == ["daily.md"]


async def test_two_files_that_change_names_stay_whose_they_are(world: World) -> None:
    """Two files swapped by name are still the two memories they were."""
    one, two = await world.save("The first."), await world.save("The second.")
    await world.room.drain()
    first, second = world.path_of(one), world.path_of(two)
    first.rename(world.folder() / "aside.md")
    second.rename(first)
    (world.folder() / "aside.md").rename(second)
    await world.sync()
    await world.sync()
    assert (await world.memory(one.id)).text == "The first."
    assert (await world.memory(two.id)).text == "The second."
    assert (world.path_of(one), world.path_of(two)) == (second, first)
    assert [memory.revision for memory in await world.live()] == [1, 1]


async def test_a_file_moved_over_another_removes_the_other(world: World) -> None:
    """`mv a.md b.md` leaves one file: the memory of the overwritten file is deleted."""
    one, two = await world.save("The first."), await world.save("The second.")
    await world.room.drain()
    world.path_of(one).rename(world.path_of(two))
    await world.sync()
    assert (await world.memory(one.id)).state == "live"
    assert (await world.memory(two.id)).state == "deleted"


async def test_a_copied_file_with_another_text_is_a_new_memory(world: World) -> None:
    """A copy that was changed gets an id of its own and leaves its original alone, also under the same subject."""
    memory = await world.save("The standup is at nine.", subject="standup", tags=["work"])
    await world.room.drain()
    copy = world.folder() / "copy.md"
    copy.write_text(world.path_of(memory).read_text().replace("standup is at nine", "retrospective is at four"))
    await world.sync()
    assert await world.texts() == ["The retrospective is at four.", "The standup is at nine."]
    [new] = [one for one in await world.live() if one.id != memory.id]
    assert (new.tags, new.subject) == (("work",), None)
    assert f"id: {new.id}\n" in copy.read_text()
    assert (await world.memory(memory.id)).revision == 1


async def test_a_plain_copy_waits_until_it_differs(world: World) -> None:
    """A copy that says the same is left as it is and reported; changed, it becomes a memory of its own."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    original = world.path_of(memory)
    copy = world.folder() / "copy.md"
    copy.write_bytes(original.read_bytes())
    await world.sync()
    relative = original.relative_to(world.root)
    assert await world.problems() == {
        "banks/main/memories/copy.md": f"it is a copy of {relative}: change its text, or remove it"
    }
    assert copy.read_bytes() == original.read_bytes()
    copy.write_text(copy.read_text().replace("standup", "lunch"))
    await world.sync()
    assert await world.problems() == {}
    assert await world.texts() == ["The lunch is at nine.", "The standup is at nine."]


async def test_a_file_moved_to_another_bank_is_a_memory_there(world: World) -> None:
    """Moving a file between banks deletes it in one and saves it in the other, under a new id."""
    await world.make_bank("work")
    memory = await world.save("The standup is at nine.", tags=["team"])
    await world.room.drain()
    world.folder("work").mkdir()
    world.path_of(memory).rename(world.folder("work") / "standup.md")
    await world.sync()
    assert await world.texts("main") == []
    [moved] = await world.live("work")
    assert (moved.text, moved.tags) == ("The standup is at nine.", ("team",))
    assert moved.id != memory.id


async def test_what_cannot_be_changed_by_hand_is_put_back_and_told(world: World) -> None:
    """Changed id, tier, source and a raised revision are ignored, the file shows the truth again, a notice says so."""
    memory = await world.save("The standup is at nine.", by=world.agent)
    await world.room.drain()
    path = world.edit(memory, "tier: inferred", "tier: stated")
    world.edit(memory, "principal: coder", "principal: somebody")
    path.write_text(path.read_text().replace("revision: 1\n", "revision: 7\n").replace(memory.id, "mem_OTHER"))
    await world.sync()
    now = await world.memory(memory.id)
    assert (now.tier, now.source.principal, now.revision, now.text) == ("inferred", "coder", 1, memory.text)
    assert "tier: inferred\nsource: {route: agent, principal: coder}\n" in world.path_of(memory).read_text()
    [notice] = await world.notices()
    assert notice.text == (
        f"In the file {path.relative_to(world.root)} the change of id, tier, source, revision was ignored: "
        "it cannot be made by hand."
    )


async def test_an_edit_of_an_older_revision_becomes_a_suggestion(world: World) -> None:
    """The store and a file change at once: the store wins in the file, what the person wrote waits as a suggestion."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    await world.update(memory, text="The standup is at eleven.")
    path = world.edit(memory, "at nine", "at ten")
    await world.room.drain()
    assert path.read_text().endswith("\n\nThe standup is at eleven.\n")
    [suggestion] = await world.suggestions()
    assert suggestion.change.function == "update"
    assert suggestion.change.args == {"id": memory.id, "text": "The standup is at ten."}
    assert suggestion.now["text"] == "The standup is at eleven."


async def test_an_editor_that_still_shows_the_old_file_overwrites_nothing(world: World) -> None:
    """A file saved from an older revision, after the mirror wrote a newer one, is an edit of the older revision."""
    memory = await world.save("The standup is at nine.", tags=["work"])
    await world.room.drain()
    path = world.path_of(memory)
    in_the_editor = path.read_text()
    await world.update(memory, text="The standup is at eleven.")
    await world.room.drain()
    path.write_text(in_the_editor.replace("tags: [work]", "tags: [work, team]"))
    await world.sync()
    assert (await world.memory(memory.id)).text == "The standup is at eleven."
    [suggestion] = await world.suggestions()
    assert suggestion.change.args == {"id": memory.id, "tags": ["work", "team"]}


async def test_saving_twice_from_one_editor_is_two_edits(world: World) -> None:
    """A second save from an editor that did not read the file again continues the first: no question is asked."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    path = world.path_of(memory)
    in_the_editor = path.read_text().replace("at nine", "at ten")
    path.write_text(in_the_editor)
    await world.sync()
    path.write_text(in_the_editor.replace("at ten", "at half past ten"))
    await world.sync()
    assert (await world.memory(memory.id)).text == "The standup is at half past ten."
    assert await world.suggestions() == []


async def test_a_file_edited_while_its_memory_was_deleted_is_kept_as_a_suggestion(world: World) -> None:
    """What a person wrote into a file whose memory is gone is not lost: it waits as a suggestion."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    world.edit(memory, "at nine", "at ten")
    await world.delete(memory)
    await world.room.drain()
    assert world.files() == {}
    [suggestion] = await world.suggestions()
    assert (suggestion.change.function, suggestion.change.args["text"]) == ("save", "The standup is at ten.")


async def test_a_file_removed_while_its_memory_changed_is_a_question(world: World) -> None:
    """A removal against an older revision deletes nothing: the file comes back, the removal waits as a suggestion."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    world.path_of(memory).unlink()
    await world.update(memory, text="The standup is at ten.")
    await world.sync()
    assert (await world.memory(memory.id)).state == "live"
    assert world.path_of(memory).read_text().endswith("at ten.\n")
    [suggestion] = await world.suggestions()
    assert (suggestion.change.function, suggestion.change.args) == ("delete", {"id": memory.id})


async def test_edits_made_while_the_worker_was_down_are_taken(tmp_path: Path) -> None:
    """Changed, new, renamed and removed files are found at the next start, by content."""
    async with opened(tmp_path / "local") as world:
        changed, renamed, removed = [await world.save(f"Fact {n}.") for n in ("one", "two", "three")]
        await world.room.drain()
        await world.close()
        world.edit(changed, "Fact one.", "Fact one, corrected.")
        world.path_of(renamed).rename(world.folder() / "new name.md")
        (world.folder() / "added.md").write_text("Fact four.")
        world.path_of(removed).unlink()
        await world.open()
        await world.sync()
        assert await world.texts() == ["Fact four.", "Fact one, corrected.", "Fact two."]
        assert (await world.memory(renamed.id)).state == "live"
        assert {"added.md", "new name.md"} <= set(world.files())


async def test_on_the_agents_route_edits_of_a_persons_words_wait(tmp_path: Path) -> None:
    """With `file_route: agent` a changed statement of a person is held back, and the file shows the statement again."""
    async with opened(tmp_path / "local", route="agent") as world:
        memory = await world.save("The standup is at nine.")
        await world.room.drain()
        path = world.edit(memory, "at nine", "at ten")
        await world.sync()
        assert (await world.memory(memory.id)).text == "The standup is at nine."
        assert path.read_text().endswith("at nine.\n")
        [suggestion] = await world.suggestions()
        assert suggestion.change.args["text"] == "The standup is at ten."


async def test_how_a_person_lays_a_file_out_is_theirs(world: World) -> None:
    """White space and the order of fields are no change: the file stays as it is until the memory changes."""
    memory = await world.save("The standup is at nine.", tags=["work"])
    await world.room.drain()
    path = world.edit(memory, "tags: [work]\n", "tags:\n  - work   # and nothing else\n")
    text = path.read_text()
    await world.sync()
    assert path.read_text() == text
    assert (await world.memory(memory.id)).revision == 1


async def test_windows_line_ends_and_a_byte_order_mark_are_read(world: World) -> None:
    """CRLF and a BOM change nothing and hinder nothing."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    path = world.path_of(memory)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    await world.sync()
    assert (await world.memory(memory.id)).revision == 1
    path.write_bytes(path.read_bytes().replace(b"nine", b"ten"))
    await world.sync()
    assert (await world.memory(memory.id)).text == "The standup is at ten."


# Rules and settings


async def test_a_rule_is_edited_by_hand(world: World) -> None:
    """An edited rule file is the rule; its priority can be changed there too."""
    await world.set_rule("style", "Short sentences.")
    await world.room.drain()
    path = world.root / "banks/main/rules/style.md"
    path.write_text(path.read_text().replace("Short", "Very short").replace("priority: 100", "priority: 7"))
    await world.sync()
    rule = await world.rule("style")
    assert rule is not None
    assert (rule.content, rule.priority, rule.revision) == ("Very short sentences.", 7, 2)
    assert path.read_text() == "---\npriority: 7\nrevision: 2\n---\n\nVery short sentences.\n"


async def test_a_new_rule_file_is_a_rule_and_a_removed_one_is_none(world: World) -> None:
    """Any editor makes a rule; removing the file removes it."""
    folder = world.root / "banks/main/rules"
    folder.mkdir(parents=True)
    (folder / "tone.md").write_text("# Tone\r\n\r\nBe kind.\r\n")
    await world.sync()
    rule = await world.rule("tone")
    assert rule is not None
    assert (rule.content, rule.source.principal) == ("# Tone\n\nBe kind.", "file")
    (folder / "tone.md").unlink()
    await world.sync()
    assert await world.rule("tone") is None


async def test_a_rule_edited_at_an_older_revision_becomes_a_suggestion(world: World) -> None:
    """Two edits of a rule at once: the store's stays in the file, the hand's waits as a suggestion."""
    await world.set_rule("style", "One.")
    await world.room.drain()
    await world.set_rule("style", "Two.")
    path = world.root / "banks/main/rules/style.md"
    path.write_text(path.read_text().replace("One.", "Three."))
    await world.room.drain()
    assert path.read_text().endswith("\n\nTwo.\n")
    [suggestion] = await world.suggestions()
    assert suggestion.change.function == "rule.set"
    assert suggestion.change.args["content"] == "Three."


async def test_a_line_removed_from_learned_does_not_come_back(world: World) -> None:
    """`learned.md` is a rule like any other: a line a person takes out there is out."""
    await world.set_rule("learned", "- Use metric units.\n- Say good morning.")
    await world.room.drain()
    path = world.root / "banks/main/rules/learned.md"
    path.write_text(path.read_text().replace("- Say good morning.\n", ""))
    await world.sync()
    rule = await world.rule("learned")
    assert rule is not None
    assert [line.text for line in rule.lines] == ["Use metric units."]


async def test_settings_of_a_bank_are_edited_by_hand(world: World) -> None:
    """`bank.yaml` holds the settings; name and owner are put back; a removed file is written again."""
    await world.make_bank("work")
    await world.room.drain()
    path = world.root / "banks/work/bank.yaml"
    path.write_text("name: other\ndescription: my work\nexpiry: year\nreview: all\n")
    await world.sync()
    text = path.read_text()
    assert text == ("name: work\ndescription: my work\nreview: all\nexpiry: year\nmirror: true\nrevision: 2\n")
    path.unlink()
    await world.sync()
    assert path.read_text() == text


# Never overwritten


async def test_a_file_that_was_changed_is_not_overwritten(world: World) -> None:
    """The mirror finds a changed file where it wants to write: it reads it first, and nothing of it is lost."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    path = world.path_of(memory)
    path.write_text("---\nkind: [broken\n---\nhalf a thought\n")
    await world.update(memory, text="The standup is at ten.")
    await world.room.drain()
    assert path.read_text() == "---\nkind: [broken\n---\nhalf a thought\n"
    assert (await world.memory(memory.id)).text == "The standup is at ten."


async def test_a_file_that_reads_again_shows_what_was_held_back(world: World) -> None:
    """Once an unreadable file is put right as it was, what changed in the meantime is written to it."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    path = world.path_of(memory)
    whole = path.read_bytes()
    path.write_bytes(whole[:40])
    await world.update(memory, text="The standup is at ten.")
    await world.room.drain()
    assert path.read_bytes() == whole[:40]
    path.write_bytes(whole)
    await world.sync()
    assert path.read_text().endswith("at ten.\n")
    assert (await world.problems(), await world.notices()) == ({}, [])


async def test_a_name_that_is_taken_is_left_to_whom_it_belongs(world: World) -> None:
    """A file of a person's that stands where the mirror wants to write stays; the mirror takes a longer name."""
    await world.save("Something else.")
    await world.room.drain()
    memory = await world.save("The standup is at nine.")
    name = f"the-standup-is-at-nine-{memory.id[-4:].lower()}.md"
    (world.folder() / name).write_bytes(b"\xff\xfe not a text")
    await world.room.drain()
    assert (world.folder() / name).read_bytes() == b"\xff\xfe not a text"
    assert world.path_of(memory).name == f"the-standup-is-at-nine-{memory.id[-8:].lower()}.md"
