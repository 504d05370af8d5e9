"""A page of an export is as good as the export."""


def test_verify_and_import_take_a_page(shell):
    shell.agent({"text": "It is x."})
    shell.ask("hello", "--session", "s1")
    assert shell("export", "s1", "--html", "-o", "s1.html").code == 0
    assert shell("export", "s1", "-o", "s1.json").code == 0
    assert shell("verify", "s1.html").out == shell("verify", "s1.json").out
    assert shell("import", "s1.html", "--store", "sqlite:///other.db").code == 0
    page = (shell.folder / "s1.html").read_bytes()
    (shell.folder / "cut.html").write_bytes(page[: len(page) // 2])
    assert shell("verify", "cut.html").code == 1
