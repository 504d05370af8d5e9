"""The player itself: what it runs, what it compares, and that it notices when a page lies."""

import fcntl
import textwrap

import pytest

from tests.docs import pages
from tests.docs.player import Player, commands, matches


def play(markdown: str, folder) -> Player:
    player = Player(folder)
    try:
        for block in pages.blocks(textwrap.dedent(markdown)):
            player.play(block)
    finally:
        player.stop()
    return player


def test_blocks_are_read_with_their_line_language_and_words():
    markdown = "intro\n\n```python file=a.py\nx = 1\n```\n\n- item\n  ```console exit=3\n  $ y\n  ```\n"
    first, second = pages.blocks(markdown)
    assert (first.line, first.language, first.value("file"), first.text) == (4, "python", "a.py", "x = 1\n")
    assert (second.line, second.language, second.value("exit"), second.text) == (9, "console", "3", "$ y\n")


def test_each_block_has_the_replies_written_in_front_of_it():
    markdown = '<!-- replies: [{"text": "a"}] -->\n```sh\n```\nmore\n<!-- replies:\n[{"text": "b"}] -->\n\n```sh\n```\nmore\n```sh\n```\n'
    assert [block.replies for block in pages.blocks(markdown)] == [[{"text": "a"}], [{"text": "b"}], None]


@pytest.mark.parametrize(
    "expected, printed, same",
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\nb \n\n", True),
        ("a\n", "a\nb\n", False),
        ("run_... ok\n", "run_01x ok\n", True),
        ("run_... ok\n", "run_01x\nok\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("a\n...\n", "b\n", False),
        ("a+b (c)\n", "a+b (c)\n", True),
    ],
)
def test_output_fits_with_wildcards(expected, printed, same):
    assert matches(expected, printed) is same


def test_a_transcript_is_split_into_commands_and_output():
    text = "$ one \\\n>   --flag\nout\nmore\n$ two\n"
    assert commands(text) == [("one \\\n  --flag", "out\nmore\n"), ("two", "")]


def test_blocks_share_a_folder_and_files_are_kept(tmp_path):
    player = play(
        """
        ```python file=tools.py
        def lookup(): return 42
        ```
        ```python
        import tools
        print(tools.lookup())
        ```
        ```text output
        4...
        ```
        ```console exit=3
        $ echo "$HOME" > home
        $ cat home; echo oops >&2; exit 3
        ...
        oops
        ```
        """,
        tmp_path,
    )
    assert player.printed == f"{tmp_path}\noops\n"


@pytest.mark.parametrize(
    "block, said",
    [
        ("```python\nraise ValueError('no')\n```\n", "ValueError: no"),
        ("```python\nimport warnings; warnings.warn('old')\n```\n", "UserWarning: old"),
        ("```console\n$ echo a\nb\n```\n", "--- printed\na"),
        ("```console\n$ false\n```\n", "ended with 1, not 0"),
        ("```console exit=3\n$ true\n```\n", "ended with 0, not 3"),
        ("```sh run\nfalse\ntrue\n```\n", "ended with 1"),
        ("```python\nprint(1)\n```\n```text output\n2\n```\n", "--- printed\n1"),
        ("```python\nimport socket; socket.create_connection(('192.0.2.1', 80))\n```\n", "OutsideLoopbackError"),
    ],
)
def test_a_page_that_lies_is_caught(block, said, tmp_path):
    with pytest.raises(AssertionError, match=said):
        play(block, tmp_path)


def test_a_page_may_name_a_real_model_and_script_its_replies(tmp_path):
    play(
        """
        <!-- replies: [{"calls": [{"name": "lookup", "arguments": {"query": "x"}}]}, {"text": "It is 42, I think."}] -->
        ```python
        import openai

        client = openai.OpenAI(max_retries=0)
        messages = [{"role": "user", "content": "What is x?"}]
        reply = client.chat.completions.create(model="gpt-5-mini", messages=messages).choices[0]
        print(reply.finish_reason, reply.message.tool_calls[0].function)
        messages += [reply.message, {"role": "tool", "tool_call_id": reply.message.tool_calls[0].id, "content": "42"}]
        for chunk in client.chat.completions.create(model="gpt-5-mini", messages=messages, stream=True):
            print(repr(chunk.choices[0].delta.content) if chunk.choices else chunk.usage.total_tokens, end=" ")
        ```
        ```text output
        tool_calls Function(arguments='{"query": "x"}', name='lookup'...)
        'It ' 'is ' '42, ' 'I ' 'think.' None 15
        ```
        """,
        tmp_path,
    )


def test_make_and_plain_shell_lines_are_not_run(tmp_path):
    play("```console\n$ make demo\nanything\n```\n```sh\nexit 1\n```\n", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_server_left_in_the_background_is_ready_and_is_stopped(tmp_path):
    server = """
        import fcntl, sys, time
        held = open("held", "w")
        fcntl.flock(held, fcntl.LOCK_EX)
        time.sleep(0.2)
        print("ready", flush=True)
        time.sleep(600)
        """
    (tmp_path / "serve.py").write_text(textwrap.dedent(server))
    player = play("```console\n$ python serve.py &\nready\n```\n", tmp_path)
    assert player.printed == "ready\n"
    with (tmp_path / "held").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # waits for ever if the server still holds it
