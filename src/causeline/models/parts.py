"""Parts of a message beside text: images, sound and files, in one shape whoever made them.

Law: pure. `known_part` gives each part as it stands in a Message; what it does not know stays as it is, and the model's
adapter decides. Bytes are held as base64 text, because a message goes into the log.

Shapes: `{"type": "text", "text"}`, `{"type": "image_url", "image_url": {"url"}}` (an address, or a `data:` URL),
`{"type": "file", "file": {"filename"?, "file_data": a data: URL, or "url"}}`, `{"type": "input_audio", "input_audio":
{"data", "format"}}`. Also read: MCP content (`image`, `audio`, `resource`), Anthropic blocks (`image`, `document` with a
`source`), and `{"type": "image" | "file", "data", "mime_type"}`.
"""

import base64
import mimetypes
from pathlib import PurePath
from typing import Any, cast

from causeline.errors import Invalid
from causeline.models.messages import Content, Json

MEDIA = frozenset({"image_url", "file", "input_audio"})
"""The types of parts that are no text."""
_OCTETS = "application/octet-stream"


def image(data: bytes | str, *, mime_type: str = "image/png") -> Json:
    """A part that shows a picture: its bytes, or its address (`https:` or `data:`)."""
    url = data if isinstance(data, str) else data_url(data, mime_type)
    if not url.startswith(("https://", "http://", "data:")):
        raise Invalid(f"{url[:60]!r} is no address of a picture; give its bytes, or a URL that begins with https: or data:.")
    return {"type": "image_url", "image_url": {"url": url}}


def file(data: bytes, filename: str, *, mime_type: str | None = None) -> Json:
    """A part that hands over a file; its kind is read off its name where it is not said."""
    kind = mime_type or mimetypes.guess_type(filename)[0] or _OCTETS
    return {"type": "file", "file": {"filename": PurePath(filename).name, "file_data": data_url(data, kind)}}


def data_url(data: bytes, mime_type: str) -> str:
    """Bytes as the address that holds them."""
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def split_data_url(url: str) -> tuple[str, str] | None:
    """`(mime type, base64 text)` of a `data:` URL; None for another address."""
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma or not head.endswith(";base64"):
        return None
    return head.removeprefix("data:").removesuffix(";base64").partition(";")[0] or _OCTETS, data


def text_of_data(data: tuple[str, str]) -> str | None:
    """The text a `data:` URL holds; None where its kind or its bytes are no text."""
    kind, encoded = data
    if not (kind.startswith("text/") or kind.partition("+")[2] in ("json", "xml") or kind in ("application/json", "application/xml")):
        return None
    try:
        return base64.b64decode(encoded).decode()
    except ValueError:
        return None


def known_parts(content: Content) -> list[Json]:
    """The parts of a content, each in its one shape; a text is one part."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else [known_part(part) for part in content]


def media_of(content: Content) -> list[str]:
    """The types of the parts that are no text, in their order."""
    return [] if isinstance(content, str) else [part["type"] for part in map(known_part, content) if part["type"] != "text"]


def known_part(part: Json) -> Json:
    """The part in the shape above, or as it is."""
    kind = part.get("type")
    if kind in ("image", "audio", "document", "file") and kind not in part:
        return _from_data(part, kind) or part
    if kind == "image_url" and isinstance(part.get("image_url"), str):
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    if kind in ("resource", "resource_link"):
        return _from_resource(part)
    return part


def _from_data(part: Json, kind: str) -> Json | None:
    source: Any = part.get("source")
    fields = cast(Json, source) if isinstance(source, dict) else part
    mime = next((fields[key] for key in ("mime_type", "mimeType", "media_type") if isinstance(fields.get(key), str)), "")
    data, url = fields.get("data"), fields.get("url")
    if kind == "audio" and isinstance(data, str):
        return {"type": "input_audio", "input_audio": {"data": data, "format": mime.rpartition("/")[2].removeprefix("x-") or "wav"}}
    if isinstance(data, str):
        url = f"data:{mime or ('image/png' if kind == 'image' else _OCTETS)};base64,{data}"
    if not isinstance(url, str):
        return None
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    name = next((fields[key] for key in ("filename", "name", "title") if isinstance(fields.get(key), str)), None)
    where = {"file_data": url} if url.startswith("data:") else {"url": url}
    return {"type": "file", "file": {**({"filename": name} if name else {}), **where}}


def _from_resource(part: Json) -> Json:
    """An MCP resource: its text, its bytes, or its address."""
    inner: Any = part.get("resource")
    resource = cast(Json, inner) if isinstance(inner, dict) else part
    uri, text, blob = str(resource.get("uri", "")), resource.get("text"), resource.get("blob")
    if isinstance(text, str):
        return {"type": "text", "text": text}
    if isinstance(blob, str):
        mime = resource.get("mimeType")
        made = {"data": blob, "mime_type": mime if isinstance(mime, str) else _OCTETS, "filename": PurePath(uri).name or "resource"}
        return _from_data(made, "image" if str(mime).startswith("image/") else "file") or part
    return {"type": "text", "text": f"[resource {uri}]"}
