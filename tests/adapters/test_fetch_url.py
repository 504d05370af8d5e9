"""`fetch_url` reads what may be read, from where it looked, and no more than it was told to."""

import gzip
import ipaddress
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import causeline
from causeline.adapters.tools.fetch_url import is_public
from causeline.adapters.tools.page_text import page_text
from causeline.models import ScriptedModel
from causeline.tools import ToolContext, fetch_url
from causeline.tools.execute import execute

CONTEXT = ToolContext(call_id="c")
HTML = (
    "<html><head><title>A &amp; B</title><style>p {}</style></head>"
    "<body><script>bad()</script><h1>Head</h1><p>one <b>two</b></p></body></html>"
)


class Site:
    """A server on loopback; `pages` maps paths to (status, headers, body)."""

    def __init__(self):
        self.pages, self.asked = {}, []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                site.asked.append((self.path, self.headers["Host"]))
                status, headers, body = site.pages.get(self.path, (404, {"Content-Type": "text/plain"}, b"no such page"))
                self.send_response(status)
                for name, value in {"Connection": "close", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                for piece in [body] if isinstance(body, bytes) else body:
                    try:
                        self.wfile.write(piece)
                    except OSError:
                        return

            def log_message(self, *_):
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@pytest.fixture
def site():
    site = Site()
    yield site
    site.server.shutdown()
    site.server.server_close()


async def fetch(url, **options):
    return await execute(fetch_url(**{"allow_private": True, **options}), {"url": url}, CONTEXT)


async def test_pages_become_text(site):
    site.pages["/html"] = (200, {"Content-Type": "text/html; charset=latin-1"}, HTML.replace("one", "ön\xe9").encode("latin-1"))
    site.pages["/json"] = (200, {"Content-Type": "application/problem+json"}, b'{"a": 1}')
    site.pages["/zip"] = (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, gzip.compress(b"packed"))
    site.pages["/dot.png"] = (200, {"Content-Type": "image/png"}, b"\x89PNG")
    site.pages["/bin"] = (200, {"Content-Type": "application/zip"}, b"PK")
    html = await fetch(f"{site.url}/html")
    assert html.result == {"url": f"{site.url}/html", "status": 200, "content_type": "text/html", "text": "A & B\nHead\nöné two"}
    assert (await fetch(f"{site.url}/json")).result["text"] == '{"a": 1}'
    assert (await fetch(f"{site.url}/zip")).result["text"] == "packed"
    assert [part["type"] for part in (await fetch(f"{site.url}/dot.png")).result["parts"]] == ["text", "image_url"]
    refused = await fetch(f"{site.url}/bin")
    assert (refused.ok, refused.result["error"]) == (False, "a page of the type application/zip cannot be shown")
    missing = await fetch(f"{site.url}/none")
    assert (missing.ok, missing.result["status"], missing.result["text"]) == (False, 404, "no such page")


async def test_no_more_is_read_than_allowed(site):
    site.pages["/long"] = (200, {"Content-Type": "text/plain"}, (b"x" * 65_536 for _ in range(10_000)))
    site.pages["/bomb"] = (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, gzip.compress(b"0" * 50_000_000))
    for path in ("/long", "/bomb"):
        page = (await fetch(site.url + path, max_bytes=1_000)).result
        assert (len(page["text"]), page["cut"]) == (1_000, "only the first 1000 bytes were read")


async def test_redirects_are_followed_and_looked_at(site, monkeypatch):
    site.pages["/a"] = (302, {"Location": "/b"}, b"")
    site.pages["/b"] = (200, {"Content-Type": "text/plain"}, b"there")
    site.pages["/loop"] = (301, {"Location": "/loop"}, b"")
    site.pages["/out"] = (307, {"Location": "file:///etc/passwd"}, b"")
    assert (await fetch(f"{site.url}/a")).result["url"] == f"{site.url}/b"
    assert "redirected more than 5 times" in (await fetch(f"{site.url}/loop")).text
    assert "expected an address that begins with" in (await fetch(f"{site.url}/out")).text
    # The first address is taken for one of the open internet, the second one is what it is.
    site.pages["/in"] = (302, {"Location": f"http://localhost:{site.port}/b"}, b"")
    monkeypatch.setattr("causeline.adapters.tools.fetch_url.is_public", lambda address: str(address) == "127.0.0.1" and len(site.asked) < 5)
    site.asked.clear()
    assert (await fetch(f"{site.url}/b", allow_private=False)).ok
    site.asked.extend([("", "")] * 3)
    inside = await fetch(f"{site.url}/in", allow_private=False)
    assert (inside.ok, "has an address of a private network" in inside.text) == (False, True)


async def test_the_address_that_was_looked_at_is_the_one_that_is_used(site, monkeypatch):
    """A name that answers with another address the second time is asked only once."""
    asked = []

    def answers(host, port, *_args, **_kwargs):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1" if len(asked) == 1 else "127.0.0.9", port))]

    site.pages["/"] = (200, {"Content-Type": "text/plain"}, b"pinned")
    monkeypatch.setattr(socket, "getaddrinfo", answers)
    page = await fetch(f"http://some.example:{site.port}/")
    assert (page.ok, page.result["text"]) == (True, "pinned"), page.text
    assert asked == ["some.example"]
    assert site.asked == [("/", f"some.example:{site.port}")]


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://[::1]/", "http://localhost:1/", "http://0.0.0.0/", "http://127.1/"])
async def test_this_machine_is_refused(url):
    executed = await fetch(url, allow_private=False)
    assert not executed.ok
    assert "which may not be read from here" in executed.text


@pytest.mark.parametrize("url", ["ftp://a/b", "/etc/passwd", "http://", "http://user:secret@localhost/", "http://a:99999999/", "x" * 3_000])
async def test_what_is_no_address_of_a_page_is_refused(url):
    executed = await fetch(url)
    assert not executed.ok
    assert "secret" not in executed.text


@pytest.mark.parametrize(
    "address, public",
    [
        ("1.1.1.1", True),
        ("2606:4700::1111", True),
        ("10.0.0.1", False),
        ("172.16.3.4", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("fc00::1", False),
        ("fe80::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:1.1.1.1", True),
        ("64:ff9b::a00:1", False),
        ("2002:a00:1::", False),
        ("::", False),
    ],
)
def test_which_addresses_are_public(address, public):
    assert is_public(ipaddress.ip_address(address)) is public


async def test_a_site_that_is_not_there_and_one_that_is_slow(site):
    assert not (await fetch("http://127.0.0.1:9/")).ok

    def never():
        threading.Event().wait(5)
        yield b""

    site.pages["/slow"] = (200, {"Content-Type": "text/plain"}, never())
    assert "timed out after 0.2 s" in (await fetch(f"{site.url}/slow", timeout=0.2)).text


def test_words_of_a_page():
    assert page_text("<p>a<br>b</p><ul><li>c<li>d</ul><svg><text>no</text></svg>") == "a\nb\nc\nd"
    assert page_text("plain") == "plain"
    assert page_text("<script>x</script>") == "<script>x</script>"


async def test_it_may_be_given_without_making_it_first():
    model = ScriptedModel([{"calls": [{"id": "c", "name": "fetch_url", "arguments": {"url": "http://127.0.0.1/"}}]}, {"text": "done"}])
    agent = causeline.Agent(model, tools=[fetch_url])
    assert agent.toolbox.names() == ("fetch_url",)
    assert (await agent.run("go")).answer == "done"
